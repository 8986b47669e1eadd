//! The contestants of `bench local`. Each reads its own clock, as in a service.

pub mod governor;
pub mod limiter;
pub mod mutex_map;
pub mod pingora;
pub mod sluicegate;
pub mod throttlecrab;

use std::hint::black_box;

use super::keys::Key;
use crate::rate::Rate;

/// A limiter with one bucket per key.
pub trait BenchLimiter<K>: Sync {
    /// Decides one charge of one unit: what is measured. Uses the whole answer, so that none of it is optimised away.
    fn check(&self, key: &K) -> bool;

    /// Charges `cost` units, to bring a bucket into the state that a load asks for.
    fn spend(&self, key: &K, cost: u32) -> bool;

    /// Decides once for every key of the stream, in order, and counts what passed.
    fn walk(&self, stream: &[K], passes: usize) -> u64 {
        let mut allowed = 0;
        for _ in 0..passes {
            for key in stream {
                allowed += u64::from(self.check(black_box(key)));
            }
        }
        allowed
    }
}

/// A contestant by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalContestant {
    Sluicegate,
    Governor,
    Throttlecrab,
    Pingora,
    MutexMap,
    /// `Limiter::check` of a whole subject: for information, peers have no such path.
    FullPath,
    /// The same with two limits: its instructions and allocations have targets.
    TwoLimits,
}

impl LocalContestant {
    /// Those whose time is measured.
    pub const ALL: [Self; 6] = [
        Self::Sluicegate,
        Self::Governor,
        Self::Throttlecrab,
        Self::Pingora,
        Self::MutexMap,
        Self::FullPath,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Sluicegate => "sluicegate",
            Self::Governor => "governor",
            Self::Throttlecrab => "throttlecrab",
            Self::Pingora => "pingora-limits",
            Self::MutexMap => "Mutex<HashMap>",
            Self::FullPath => "sluicegate Limiter",
            Self::TwoLimits => "sluicegate Limiter, two limits",
        }
    }

    /// The name on the command line.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Sluicegate => "sluicegate",
            Self::Governor => "governor",
            Self::Throttlecrab => "throttlecrab",
            Self::Pingora => "pingora",
            Self::MutexMap => "mutex",
            Self::FullPath => "limiter",
            Self::TwoLimits => "two-limits",
        }
    }

    pub fn by_id(id: &str) -> Option<Self> {
        let mut known = Self::ALL.into_iter().chain([Self::TwoLimits]);
        known.find(|contestant| contestant.id() == id)
    }

    /// True when its answers are promised to be right; a sketch counts different keys together.
    pub const fn is_exact(self) -> bool {
        !matches!(self, Self::Pingora)
    }

    /// A fresh instance with room for `max_keys`, or nothing when it does not take this type of key.
    pub fn build<K: Key>(self, rate: Rate, max_keys: usize) -> Option<Box<dyn BenchLimiter<K>>> {
        match self {
            Self::Sluicegate => Some(Box::new(sluicegate::LocalSluicegate::new(rate, max_keys))),
            Self::Governor => Some(Box::new(governor::Governor::new(rate))),
            Self::Throttlecrab => K::throttlecrab(rate, max_keys),
            Self::Pingora => Some(Box::new(pingora::Pingora::new(rate))),
            Self::MutexMap => Some(Box::new(mutex_map::MutexMap::new(rate))),
            Self::FullPath => K::full_path(rate, max_keys),
            Self::TwoLimits => K::two_limits(rate, max_keys),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::loads::{DENIED, DENIED_FILL};
    use super::*;
    use std::net::IpAddr;

    fn exact<K: Key>() -> impl Iterator<Item = (LocalContestant, Box<dyn BenchLimiter<K>>)> {
        let exact = LocalContestant::ALL
            .into_iter()
            .chain([LocalContestant::TwoLimits])
            .filter(|contestant| contestant.is_exact());
        exact.filter_map(|contestant| Some((contestant, contestant.build::<K>(DENIED, 100)?)))
    }

    fn denies_once_spent<K: Key>() {
        for (contestant, limiter) in exact::<K>() {
            assert!(
                limiter.spend(&K::nth(1), DENIED_FILL),
                "{}",
                contestant.name()
            );
            assert!(!limiter.check(&K::nth(1)), "{}", contestant.name());
            assert!(limiter.check(&K::nth(2)), "{}", contestant.name());
        }
    }

    #[test]
    fn a_spent_bucket_denies_and_its_neighbour_does_not() {
        denies_once_spent::<IpAddr>();
        denies_once_spent::<String>();
        denies_once_spent::<u64>();
    }

    #[test]
    fn a_walk_counts_what_passed() {
        for (contestant, limiter) in exact::<String>() {
            let stream = [
                String::nth(1),
                String::nth(2),
                String::nth(1),
                String::nth(1),
            ];
            assert_eq!(limiter.walk(&stream, 1), 3, "{}", contestant.name());
        }
    }
}
