//! The targets: how Sluicegate must compare with its peers.

use super::contestants::ProxyContestant;
use crate::samples::ServerTarget;

const fn target(
    load: &'static str,
    peer: ProxyContestant,
    ratio_max: f64,
) -> ServerTarget<ProxyContestant> {
    ServerTarget {
        load,
        peer,
        ratio_max,
    }
}

/// By load and peer.
pub const TARGETS: [ServerTarget<ProxyContestant>; 12] = [
    target("allowed, 64 connections", ProxyContestant::Nginx, 0.85),
    target("allowed, 64 connections", ProxyContestant::Haproxy, 0.80),
    target("allowed, 64 connections", ProxyContestant::Envoy, 0.45),
    target("allowed, 256 connections", ProxyContestant::Nginx, 0.85),
    target("allowed, 256 connections", ProxyContestant::Haproxy, 0.80),
    target("allowed, 256 connections", ProxyContestant::Envoy, 0.45),
    target("rejected, 64 connections", ProxyContestant::Nginx, 0.90),
    target("rejected, 64 connections", ProxyContestant::Haproxy, 0.75),
    target("rejected, 256 connections", ProxyContestant::Nginx, 0.90),
    target("rejected, 256 connections", ProxyContestant::Haproxy, 0.75),
    target("h2, allowed", ProxyContestant::Haproxy, 0.90),
    target("h2, rejected", ProxyContestant::Haproxy, 0.60),
];

/// The most memory that an idle connection of ours may take, in KiB.
pub const IDLE_KIB_MAX: f64 = 1.2;

/// The most that a quota from a service may cost, in µs of processor time per request.
pub const OUTSIDE_EXTRA_US_MAX: f64 = 1.0;

#[cfg(test)]
mod tests {
    use super::super::loads::LOADS;
    use super::*;

    #[test]
    fn every_target_names_a_load_and_a_peer_of_it() {
        for target in &TARGETS {
            let load = LOADS.iter().find(|load| load.name == target.load);
            let load = load.expect(target.load);
            assert!(load.has(target.peer), "{}", target.load);
            assert_ne!(target.peer, ProxyContestant::Sluicegate);
        }
    }
}
