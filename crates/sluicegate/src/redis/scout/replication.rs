//! A primary and its replicas: whoever says that it is the primary.

use std::sync::Arc;

use crate::redis::context::Context;
use crate::redis::endpoint::Endpoint;
use crate::redis::router::Map;
use crate::redis::wire::Reply;

use super::{Poll, text};

/// Asks every node for its role. Of several primaries, the one that most replicas follow.
pub(super) async fn search(context: &Arc<Context>) -> Result<Map, String> {
    let mut asked = context.options.endpoints.clone();
    let mut wrong = Vec::new();
    let mut primaries: Vec<(Standing, Endpoint)> = Vec::new();
    let mut round = asked.clone();
    // A replica may name a primary that nobody told us of: one more round.
    for _ in 0..2 {
        let mut poll = Poll::new(round.drain(..), &context.dialing, &[b"ROLE"]);
        while let Some((endpoint, answer)) = poll.next().await {
            match answer.map(|reply| Role::read(&reply)) {
                Ok(Some(Role::Primary(standing))) => primaries.push((standing, endpoint)),
                Ok(Some(Role::ReplicaOf(primary))) if !asked.contains(&primary) => {
                    asked.push(primary.clone());
                    round.push(primary);
                }
                Ok(Some(Role::ReplicaOf(_))) => wrong.push(format!("{endpoint} is a replica")),
                Ok(None) => wrong.push(format!("{endpoint} is neither primary nor replica")),
                Err(why) => wrong.push(why),
            }
        }
        if !primaries.is_empty() {
            break;
        }
    }
    primaries.sort_by_key(|(standing, _)| *standing);
    match primaries.pop() {
        Some((_, endpoint)) => Ok(Map::Primary(context.lane(endpoint))),
        None => Err(format!("no primary: {}", wrong.join("; "))),
    }
}

/// What speaks for a primary when there are several: replicas that follow it, then how far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Standing {
    replicas: usize,
    offset: i64,
}

enum Role {
    Primary(Standing),
    ReplicaOf(Endpoint),
}

impl Role {
    /// `[master, offset, [replica…]]` or `[slave, host, port, state, offset]`.
    fn read(reply: &Reply) -> Option<Self> {
        let Reply::Array(parts) = reply else {
            return None;
        };
        match (text(parts.first()?)?, parts.get(1)?, parts.get(2)?) {
            ("master", Reply::Integer(offset), Reply::Array(replicas)) => {
                Some(Self::Primary(Standing {
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
