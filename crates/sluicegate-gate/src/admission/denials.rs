//! Denials of limits that ban their callers.

use std::net::IpAddr;

use sluicegate::Clock;
use sluicegate_core::{Charge, Decision};

use crate::automatic_bans::DenialEffect;
use crate::gate::Gate;
use crate::overrides::BanTarget;
use crate::snapshot::Snapshot;
use crate::telemetry::metrics::BanDrop;

/// Counts the denials of a rejected request, by each limit that bans. `charges` are those that the
/// policy made, before a limits service put a tenant in place of the caller. What comes from an
/// address that is spared is not counted for the network around it.
pub(super) fn count(
    gate: &Gate,
    snapshot: &Snapshot,
    decision: &Decision,
    charges: &[Charge<'_>],
    client_ip: Option<IpAddr>,
) {
    if !snapshot.has_bans {
        return;
    }
    let is_aligned = decision.outcomes().count() == charges.len();
    for (place, (limit, charged)) in decision.outcomes().enumerate() {
        let is_denied = charged.enforced && !charged.outcome.is_allowed();
        let Some(rule) = limit.ban.as_ref().filter(|_| is_denied) else {
            continue;
        };
        // A charge that the terms left unlimited has no entry; then a limit is charged once.
        let charge = match is_aligned {
            true => charges.get(place),
            false => {
                let mut charges = charges.iter();
                charges.find(|charge| charge.limit_index == charged.limit_index)
            }
        };
        let target = charge.and_then(|charge| BanTarget::of_key(&charge.key));
        let is_spared = |target: &BanTarget| match target {
            BanTarget::Clients(_) => client_ip.is_some_and(|address| snapshot.spares(address)),
            BanTarget::Principal(_) => false,
        };
        let target = target.filter(|target| !is_spared(target) && !snapshot.never_bans(target));
        let Some(target) = target else {
            continue;
        };
        let now = gate.engine.clock().now();
        let effect = gate.automatic_bans.denied(target, limit, rule, now);
        if effect == DenialEffect::QueueFull {
            gate.metrics.ban_dropped(BanDrop::QueueFull, 1);
        }
    }
}
