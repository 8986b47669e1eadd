//! Finds the primary among servers that replicate each other, by asking each for its `ROLE`.
//!
//! Nobody elects the primary here, so there may be two for a while, when an operator promotes one
//! by hand. Then replicas decide: the primary that more of them follow.

use std::sync::Arc;

use crate::redis::context::StoreContext;
use crate::redis::endpoint::Endpoint;
use crate::redis::router::OwnerMap;
use crate::redis::wire::Reply;

use super::{NodePoll, text};

/// Asks every configured node for its role. Among several primaries, the one that most replicas
/// follow is taken.
pub(super) async fn search(context: &Arc<StoreContext>) -> Result<OwnerMap, String> {
    let mut asked = context.options.endpoints.clone();
    let mut failures = Vec::new();
    let mut primaries: Vec<(PrimaryRank, Endpoint)> = Vec::new();
    let mut round = asked.clone();
    // A replica may name a primary that is not configured: that one is asked in a second round.
    for _ in 0..2 {
        let mut poll = NodePoll::new(round.drain(..), &context.dialer, &[b"ROLE"]);
        while let Some((endpoint, answer)) = poll.next().await {
            match answer.map(|reply| NodeRole::read(&reply)) {
                Ok(Some(NodeRole::Primary(rank))) => primaries.push((rank, endpoint)),
                Ok(Some(NodeRole::ReplicaOf(primary))) if !asked.contains(&primary) => {
                    asked.push(primary.clone());
                    round.push(primary);
                }
                Ok(Some(NodeRole::ReplicaOf(_))) => {
                    failures.push(format!("{endpoint} is a replica"))
                }
                Ok(None) => failures.push(format!("{endpoint} is neither primary nor replica")),
                Err(why) => failures.push(why),
            }
        }
        if !primaries.is_empty() {
            break;
        }
    }
    primaries.sort_by_key(|(rank, _)| *rank);
    match primaries.pop() {
        Some((_, endpoint)) => Ok(OwnerMap::Primary(context.lane(endpoint))),
        None => Err(format!("no primary: {}", failures.join("; "))),
    }
}

/// The order among several primaries: by the replicas that follow, then by the replication offset,
/// which grows with every write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PrimaryRank {
    replicas: usize,
    offset: i64,
}

/// The role of a node, as it says itself.
pub(super) enum NodeRole {
    Primary(PrimaryRank),
    ReplicaOf(Endpoint),
}

impl NodeRole {
    /// Reads `[master, offset, [replica…]]` or `[slave, host, port, state, offset]`.
    pub(super) fn read(reply: &Reply) -> Option<Self> {
        let Reply::Array(parts) = reply else {
            return None;
        };
        match (text(parts.first()?)?, parts.get(1)?, parts.get(2)?) {
            ("master", Reply::Integer(offset), Reply::Array(replicas)) => {
                Some(Self::Primary(PrimaryRank {
                    replicas: replicas.len(),
                    offset: *offset,
                }))
            }
            ("slave", host, Reply::Integer(port)) => Some(Self::ReplicaOf(Endpoint::new(
                text(host)?,
                u16::try_from(*port).ok()?,
            ))),
            _ => None,
        }
    }
}
