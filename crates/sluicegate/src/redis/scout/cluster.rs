//! Finds the owners of a cluster's slots: any node knows them all, from `CLUSTER SLOTS`.
//!
//! A map from a node that lags behind is no harm. It leads some requests to a former owner, which
//! replies `MOVED`; the router corrects that slot and wakes the scout.

use std::sync::Arc;

use crate::redis::context::StoreContext;
use crate::redis::endpoint::Endpoint;
use crate::redis::router::{OwnerMap, SlotMap};
use crate::redis::wire::Reply;

use super::{NodePoll, text};

/// Asks the nodes in use and those of the options at once, and takes the first map that comes. So a
/// node that hangs costs nothing, and a cluster is found though every configured node was replaced.
pub(super) async fn search(context: &Arc<StoreContext>) -> Result<OwnerMap, String> {
    let mut known: Vec<Endpoint> = context
        .router
        .map()
        .lanes()
        .iter()
        .filter(|lane| lane.is_up())
        .map(|lane| lane.endpoint.clone())
        .collect();
    for endpoint in &context.options.endpoints {
        if !known.contains(endpoint) {
            known.push(endpoint.clone());
        }
    }
    let mut poll = NodePoll::new(known, &context.dialer, &[b"CLUSTER", b"SLOTS"]);
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

/// Opens a lane to every owner.
fn map(context: &Arc<StoreContext>, ranges: Vec<SlotRange>) -> OwnerMap {
    let mut map = SlotMap::new();
    for SlotRange { first, last, owner } in ranges {
        map.assign(first..=last, &context.lane(owner));
    }
    OwnerMap::Slots(map)
}

/// Neighbouring slots with the same owner, both ends included.
struct SlotRange {
    first: u16,
    last: u16,
    owner: Endpoint,
}

/// Reads `[[first, last, [host, port, …], replica…]…]`; `None` when it names no owner. Ranges that
/// cannot be read are left out. A node that does not know its own address sends an empty host or
/// `?`, which stands for the address it was reached at.
fn slots(reply: &Reply, asked: &Endpoint) -> Option<Vec<SlotRange>> {
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
