//! The loads of `bench redis`: which keys, under which rate, by how many callers at a time.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use crate::rate::{ExpectedAnswer, Rate};

/// A pattern of requests. All callers ask for one unit of the same limit, by client address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedisLoad {
    /// Every address is new.
    Cold,
    /// One address whose bucket never runs empty.
    HotAllowed,
    /// One address whose bucket stays empty.
    HotDenied,
}

/// Callers that wait at the same time.
pub const CALLERS: [usize; 3] = [1, 64, 512];

impl RedisLoad {
    pub const ALL: [Self; 3] = [Self::Cold, Self::HotAllowed, Self::HotDenied];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Cold => "cold keys",
            Self::HotAllowed => "hot key, allowed",
            Self::HotDenied => "hot key, denied",
        }
    }

    /// Short name for the command line.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::HotAllowed => "hot-allowed",
            Self::HotDenied => "hot-denied",
        }
    }

    pub const fn answer(self) -> ExpectedAnswer {
        match self {
            Self::Cold | Self::HotAllowed => ExpectedAnswer::Allowed,
            Self::HotDenied => ExpectedAnswer::Denied,
        }
    }

    pub const fn rate(self) -> Rate {
        const HOUR: Duration = Duration::from_secs(3_600);
        match self {
            // A unit takes 36 s to come back: no key expires while a turn lasts.
            Self::Cold => Rate {
                count: 100,
                period: HOUR,
                burst: 100,
            },
            Self::HotAllowed => Rate {
                count: 10_000_000,
                period: Duration::from_secs(1),
                burst: 1_000_000,
            },
            Self::HotDenied => Rate {
                count: 10,
                period: HOUR,
                burst: 10,
            },
        }
    }

    /// The time for which a turn goes on. Denials from memory are renewed every two seconds, which must be in it.
    pub const fn duration(self, is_quick: bool) -> Duration {
        match self {
            Self::HotDenied => Duration::from_millis(2_500),
            Self::Cold | Self::HotAllowed => {
                Duration::from_millis(if is_quick { 400 } else { 1_000 })
            }
        }
    }

    /// The address of a request; cold ones from all over a block of 2^24, so that their texts are of every length.
    pub fn address(self, request: u32) -> IpAddr {
        const HOT: u32 = u32::from_be_bytes([203, 0, 113, 7]);
        const BLOCK: u32 = u32::from_be_bytes([203, 0, 0, 0]);
        const BLOCK_SIZE: u32 = 1 << 24;
        /// Odd, so that no address comes twice.
        const STEP: u32 = 10_368_889;
        let bits = match self {
            Self::Cold => {
                BLOCK
                    + (request / BLOCK_SIZE) * BLOCK_SIZE
                    + request.wrapping_mul(STEP) % BLOCK_SIZE
            }
            Self::HotAllowed | Self::HotDenied => HOT,
        };
        Ipv4Addr::from_bits(bits).into()
    }

    /// The first request of the warm-up: cold addresses there come from another block.
    pub const WARM_UP_FROM: u32 = 1 << 24;
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn cold_addresses_are_all_different() {
        let requests = (0..100_000).chain(RedisLoad::WARM_UP_FROM..RedisLoad::WARM_UP_FROM + 1_000);
        let mut seen = HashSet::new();
        assert!(
            requests
                .map(|request| RedisLoad::Cold.address(request))
                .all(|address| seen.insert(address))
        );
        assert_eq!(
            RedisLoad::HotDenied.address(1),
            RedisLoad::HotDenied.address(RedisLoad::WARM_UP_FROM)
        );
    }
}
