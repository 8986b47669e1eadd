//! The targets: how Sluicegate must compare with its peers.

use super::contestants::DecisionsContestant;
use crate::samples::ServerTarget;

const fn target(
    load: &'static str,
    peer: DecisionsContestant,
    ratio_max: f64,
) -> ServerTarget<DecisionsContestant> {
    ServerTarget {
        load,
        peer,
        ratio_max,
    }
}

/// By load and peer.
pub const TARGETS: [ServerTarget<DecisionsContestant>; 9] = [
    target("RESP, P=1", DecisionsContestant::Throttlecrab, 0.75),
    target("RESP, P=16", DecisionsContestant::Throttlecrab, 0.22),
    target("RESP, P=64", DecisionsContestant::Throttlecrab, 0.14),
    target("HTTP", DecisionsContestant::Throttlecrab, 0.55),
    target("gRPC, 1 stream", DecisionsContestant::Throttlecrab, 0.50),
    target("gRPC, 16 streams", DecisionsContestant::Throttlecrab, 0.30),
    target("RESP, P=1", DecisionsContestant::Redis, 1.0),
    target("RESP, P=16", DecisionsContestant::Redis, 1.0),
    target("RESP, P=64", DecisionsContestant::Redis, 1.0),
];

#[cfg(test)]
mod tests {
    use super::super::loads::LOADS;
    use super::*;
    use crate::samples::ServerContestant;

    #[test]
    fn every_target_names_a_load_that_its_peer_takes_part_in() {
        for target in &TARGETS {
            let load = LOADS
                .iter()
                .find(|load| load.name == target.load)
                .expect(target.load);
            assert!(
                target.peer != DecisionsContestant::Sluicegate && target.peer.speaks(load.protocol),
                "{}",
                target.load
            );
        }
    }

    #[test]
    fn nobody_is_to_be_cheaper_anywhere() {
        for load in &LOADS {
            for peer in [
                DecisionsContestant::Throttlecrab,
                DecisionsContestant::Redis,
            ]
            .into_iter()
            .filter(|peer| peer.speaks(load.protocol))
            {
                let target = TARGETS
                    .iter()
                    .find(|target| target.load == load.name && target.peer == peer);
                assert!(
                    target.is_some_and(|target| target.ratio_max <= 1.0),
                    "{}, {}",
                    load.name,
                    peer.name()
                );
            }
        }
    }
}
