//! Finds the owners of a cluster's slots: any node knows them all, from `CLUSTER SLOTS`.
//!
//! A map from a node that lags behind is no harm. It leads some requests to a former owner, which
//! replies `MOVED`; the router corrects that slot and wakes the scout.

use std::sync::Arc;
use std::time::Duration;

use crate::redis::context::StoreContext;
use crate::redis::endpoint::Endpoint;
use crate::redis::recovery::Backoff;
use crate::redis::router::{OwnerMap, SlotMap};
use crate::redis::wire::Reply;

use super::{NodePoll, text};

/// Asks one node after the other, those in use before those of the options, and takes the first map
/// that comes. The next node is asked when the last one has not answered for a moment, so a node that
/// hangs costs little, a cluster is found though every configured node was replaced, and a search
/// mostly costs one connection.
pub(super) async fn search(context: &Arc<StoreContext>) -> Result<OwnerMap, String> {
    const MOMENT: Duration = Duration::from_millis(30);
    let mut known = nodes_in_use(context);
    let mut others = context.options.endpoints.clone();
    others.retain(|endpoint| !known.contains(endpoint));
    // From another one each time, so that no node has to answer everybody.
    let mut random = Backoff::random(context.options.recovery);
    for nodes in [&mut known, &mut others] {
        let first = random.below(nodes.len() as u64) as usize;
        nodes.rotate_left(first);
    }
    known.append(&mut others);
    let question: &[&[u8]] = &[b"CLUSTER", b"SLOTS"];
    let mut poll = NodePoll::one_by_one(known, MOMENT, &context.dialer, question);
    let mut failures = Vec::new();
    while let Some((endpoint, answer)) = poll.next().await {
        match answer.map(|reply| slots(&reply, &endpoint)) {
            Ok(Some(ranges)) => return Ok(map(context, ranges)),
            Ok(None) => failures.push(format!("{endpoint} serves no slots")),
            Err(why) => failures.push(why),
        }
    }
    Err(format!("no cluster: {}", failures.join("; ")))
}

/// The nodes that answer, as far as their drivers know.
fn nodes_in_use(context: &StoreContext) -> Vec<Endpoint> {
    let map = context.router.map();
    let in_use = map.lanes().iter().filter(|lane| lane.is_up());
    in_use.map(|lane| lane.endpoint.clone()).collect()
}

/// Opens a lane to every owner.
fn map(context: &Arc<StoreContext>, ranges: Vec<SlotRange>) -> OwnerMap {
    let mut map = SlotMap::new();
    for SlotRange { first, last, owner } in ranges {
        map.assign(first..=last, &context.lane(owner));
    }
    OwnerMap::Slots(map)
}

/// Neighbouring slots with the same owner, both ends included.
pub(super) struct SlotRange {
    first: u16,
    last: u16,
    owner: Endpoint,
}

/// Reads `[[first, last, [host, port, …], replica…]…]`; `None` when it names no owner. Ranges that
/// cannot be read are left out. A node that does not know its own address sends an empty host or
/// `?`, which stands for the address it was reached at.
pub(super) fn slots(reply: &Reply, asked: &Endpoint) -> Option<Vec<SlotRange>> {
    let Reply::Array(ranges) = reply else {
        return None;
    };
    let range = |range: &Reply| {
        let Reply::Array(parts) = range else {
            return None;
        };
        let (Reply::Integer(first), Reply::Integer(last), Reply::Array(owner)) =
            (parts.first()?, parts.get(1)?, parts.get(2)?)
        else {
            return None;
        };
        let Reply::Integer(port) = owner.get(1)? else {
            return None;
        };
        let host = owner
            .first()
            .and_then(text)
            .filter(|host| !host.is_empty() && *host != "?");
        let owner = Endpoint::new(host.unwrap_or(asked.host()), u16::try_from(*port).ok()?);
        Some(SlotRange {
            first: u16::try_from(*first).ok()?,
            last: u16::try_from(*last).ok()?,
            owner,
        })
    };
    let ranges: Vec<SlotRange> = ranges.iter().filter_map(range).collect();
    (!ranges.is_empty()).then_some(ranges)
}
