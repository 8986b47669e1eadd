//! The targets: how Sluicegate must compare with its peers.

use super::contestants::ProxyContestant;
use crate::samples::ServerTarget;

/// By load and peer.
pub const TARGETS: [ServerTarget<ProxyContestant>; 8] = [
    ServerTarget {
        load: "allowed, 64 connections",
        peer: ProxyContestant::Nginx,
        ratio_max: 1.0,
    },
    ServerTarget {
        load: "allowed, 64 connections",
        peer: ProxyContestant::Haproxy,
        ratio_max: 1.0,
    },
    ServerTarget {
        load: "allowed, 64 connections",
        peer: ProxyContestant::Envoy,
        ratio_max: 0.45,
    },
    ServerTarget {
        load: "allowed, 256 connections",
        peer: ProxyContestant::Nginx,
        ratio_max: 1.0,
    },
    ServerTarget {
        load: "allowed, 256 connections",
        peer: ProxyContestant::Haproxy,
        ratio_max: 1.0,
    },
    ServerTarget {
        load: "allowed, 256 connections",
        peer: ProxyContestant::Envoy,
        ratio_max: 0.45,
    },
    ServerTarget {
        load: "rejected, 64 connections",
        peer: ProxyContestant::Nginx,
        ratio_max: 0.9,
    },
    ServerTarget {
        load: "rejected, 256 connections",
        peer: ProxyContestant::Nginx,
        ratio_max: 0.9,
    },
];

/// Our memory with idle connections is to be at most so many times that of nginx.
pub const IDLE_RATIO_MAX: f64 = 2.0;

/// The most that a quota from a service may cost, in µs of processor time per request.
pub const OUTSIDE_EXTRA_US_MAX: f64 = 1.0;

#[cfg(test)]
mod tests {
    use super::super::loads::LOADS;
    use super::*;

    #[test]
    fn every_target_names_a_load_and_a_peer() {
        for target in &TARGETS {
            assert!(
                LOADS.iter().any(|load| load.name == target.load),
                "{}",
                target.load
            );
            assert_ne!(target.peer, ProxyContestant::Sluicegate);
        }
    }
}
