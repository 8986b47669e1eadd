//! The rulings of bans and lists on a caller.
//!
//! An operator's ban comes first, then the lists of the configuration, then the bans of limits: who
//! is on the allow list is never banned by a limit, and neither are loopback and trusted proxies.

use std::net::IpAddr;
use std::sync::Arc;

use sluicegate_core::{Principal, Subject};

use crate::access::Ruling;
use crate::gate::Gate;
use crate::overrides::Order;
use crate::snapshot::Snapshot;

/// The ruling on an address.
pub(super) fn of_address(gate: &Gate, snapshot: &Snapshot, address: IpAddr) -> Option<Ruling> {
    let Some(orders) = gate.overrides.with_bans() else {
        return snapshot.access.of_address(address);
    };
    let banned = orders.bans().of_address(address);
    banned
        .or_else(|| snapshot.access.of_address(address))
        .or_else(|| {
            let banned = orders.automatic_bans().of_address(address);
            banned.filter(|_| !snapshot.spares(address))
        })
}

/// The ruling on a principal. Whose address is on the allow list is not banned by a limit.
pub(super) fn of_principal(
    gate: &Gate,
    snapshot: &Snapshot,
    principal: &Principal,
    is_exempt: bool,
) -> Option<Ruling> {
    let id = &principal.id;
    let Some(orders) = gate.overrides.with_bans() else {
        return snapshot.access.of_principal(id);
    };
    let banned = orders.bans().of_principal(id);
    banned
        .or_else(|| snapshot.access.of_principal(id))
        .or_else(|| {
            let banned = orders.automatic_bans().of_principal(id);
            banned.filter(|_| !is_exempt)
        })
}

/// The ruling on the address and the principal of a subject.
pub fn of_caller(gate: &Gate, snapshot: &Snapshot, subject: &Subject<'_>) -> Option<Ruling> {
    let (address, principal) = (subject.client_ip, principal_of(subject));
    let Some(orders) = gate.overrides.with_bans() else {
        return snapshot.access.of_caller(address, principal);
    };
    let banned = orders.bans().of_caller(address, principal);
    banned
        .or_else(|| snapshot.access.of_caller(address, principal))
        .or_else(|| {
            let address = address.filter(|address| !snapshot.spares(*address));
            orders.automatic_bans().of_caller(address, principal)
        })
}

/// The ban by a limit that refuses a subject; `None` also where an operator's ban or a list decides
/// about it first.
pub fn automatic_ban_of(
    gate: &Gate,
    snapshot: &Snapshot,
    subject: &Subject<'_>,
) -> Option<Arc<Order>> {
    let (address, principal) = (subject.client_ip, principal_of(subject));
    let orders = gate.overrides.with_bans()?;
    let decided = orders.bans().of_caller(address, principal);
    if decided.is_some() || snapshot.access.of_caller(address, principal).is_some() {
        return None;
    }
    let address = address.filter(|address| !snapshot.spares(*address));
    orders.automatic_ban_of(address, principal).cloned()
}

fn principal_of<'a>(subject: &Subject<'a>) -> Option<&'a str> {
    subject.principal.map(|principal| principal.id.as_str())
}
