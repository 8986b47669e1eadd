//! The keys that callers are told apart by: addresses, names and numbers.

use std::fmt::Debug;
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr};

use super::contestants::BenchLimiter;
use super::contestants::limiter::FullPath;
use super::contestants::throttlecrab::Throttlecrab;
use crate::rate::Rate;

/// A type of key, as shown in the tables and named on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    IpAddr,
    String,
    U64,
}

impl KeyKind {
    pub const ALL: [Self; 3] = [Self::IpAddr, Self::String, Self::U64];

    pub const fn name(self) -> &'static str {
        match self {
            Self::IpAddr => "IpAddr",
            Self::String => "String",
            Self::U64 => "u64",
        }
    }
}

/// A key that can be made from a number, different numbers giving different keys.
pub trait Key: Hash + Eq + Clone + Debug + Send + Sync + 'static {
    const KIND: KeyKind;

    fn nth(index: u32) -> Self;

    /// throttlecrab, which takes text and nothing else.
    fn throttlecrab(_rate: Rate, _max_keys: usize) -> Option<Box<dyn BenchLimiter<Self>>> {
        None
    }

    /// The whole path of a request through `Limiter::check`, which is measured by address.
    fn full_path(_rate: Rate, _max_keys: usize) -> Option<Box<dyn BenchLimiter<Self>>> {
        None
    }

    /// The same with two limits.
    fn two_limits(_rate: Rate, _max_keys: usize) -> Option<Box<dyn BenchLimiter<Self>>> {
        None
    }
}

impl Key for IpAddr {
    const KIND: KeyKind = KeyKind::IpAddr;

    fn nth(index: u32) -> Self {
        Self::V4(Ipv4Addr::from_bits(scattered(index)))
    }

    fn full_path(rate: Rate, max_keys: usize) -> Option<Box<dyn BenchLimiter<Self>>> {
        Some(Box::new(FullPath::new(rate, max_keys)))
    }

    fn two_limits(rate: Rate, max_keys: usize) -> Option<Box<dyn BenchLimiter<Self>>> {
        Some(Box::new(FullPath::with_two_limits(rate, max_keys)))
    }
}

impl Key for String {
    const KIND: KeyKind = KeyKind::String;

    /// Twenty bytes, like the identifier of an account.
    fn nth(index: u32) -> Self {
        format!("client-{:08x}-{:04x}", scattered(index), index & 0xffff)
    }

    fn throttlecrab(rate: Rate, max_keys: usize) -> Option<Box<dyn BenchLimiter<Self>>> {
        Some(Box::new(Throttlecrab::new(rate, max_keys)))
    }
}

impl Key for u64 {
    const KIND: KeyKind = KeyKind::U64;

    fn nth(index: u32) -> Self {
        Self::from(scattered(index)) << 16 | Self::from(index & 0xffff)
    }
}

/// Neighbours become strangers; multiplying by an odd number keeps different numbers different.
const fn scattered(index: u32) -> u32 {
    index.wrapping_mul(0x9e37_79b1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn distinct<K: Key>() -> usize {
        (0..100_000).map(K::nth).collect::<HashSet<K>>().len()
    }

    #[test]
    fn different_numbers_give_different_keys() {
        assert_eq!(distinct::<IpAddr>(), 100_000);
        assert_eq!(distinct::<String>(), 100_000);
        assert_eq!(distinct::<u64>(), 100_000);
    }

    #[test]
    fn names_have_twenty_bytes() {
        assert!(
            [0, 1, u32::MAX]
                .iter()
                .all(|index| String::nth(*index).len() == 20)
        );
    }
}
