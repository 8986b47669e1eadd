//! The value of a key that is an address or nothing, in as few words as it needs.

use std::hash::Hasher;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::NameHash;
use super::part_value::{hash_address, hash_global};
use crate::address::Prefixes;

/// A client address, cut to its prefix, or the one value that all requests share. Two whole words
/// and a kind stay in registers, which an address as bytes does not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlainKey {
    kind: PlainKind,
    /// The bits of the address, the lower half and the upper one.
    low: u64,
    high: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlainKind {
    V4,
    V6,
    All,
}

impl PlainKey {
    /// The value that all requests share.
    pub(crate) const ALL: Self = Self {
        kind: PlainKind::All,
        low: 0,
        high: 0,
    };

    /// An address that is cut to its prefix.
    #[inline(always)]
    pub(crate) fn of_v4(masked: Ipv4Addr) -> Self {
        Self {
            kind: PlainKind::V4,
            low: u64::from(masked.to_bits()),
            high: 0,
        }
    }

    /// An address of IPv6, which may stand for one of IPv4.
    pub(crate) fn of_v6(address: Ipv6Addr, prefixes: Prefixes) -> Self {
        match prefixes.mask(IpAddr::V6(address)) {
            IpAddr::V4(v4) => Self::of_v4(v4),
            IpAddr::V6(v6) => Self {
                kind: PlainKind::V6,
                low: v6.to_bits() as u64,
                high: (v6.to_bits() >> 64) as u64,
            },
        }
    }

    /// The address; `None` for the value that all share.
    #[inline(always)]
    pub(crate) fn address(self) -> Option<IpAddr> {
        match self.kind {
            PlainKind::V4 => Some(IpAddr::V4(Ipv4Addr::from_bits(self.low as u32))),
            PlainKind::V6 => {
                let bits = u128::from(self.high) << 64 | u128::from(self.low);
                Some(IpAddr::V6(Ipv6Addr::from_bits(bits)))
            }
            PlainKind::All => None,
        }
    }

    /// Hashes it as the only part of the key of a limit with this name.
    #[inline(always)]
    pub(crate) fn hash<H: Hasher>(self, name_hash: NameHash, state: &mut H) {
        name_hash.write(state);
        match self.address() {
            Some(address) => hash_address(state, 1, &address),
            None => hash_global(state),
        }
    }
}
