//! What Sluicegate is to reach beside its peers.

use super::contestants::Who;
use super::loads::Load;
use super::results::Sample;

/// The peer's cost is to be at least so many times ours, with as many callers as wait at most.
pub struct Target {
    pub load: Load,
    pub cost: Cost,
    pub peer: Who,
    pub times_min: f64,
}

/// Whose processor time is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    Redis,
    Client,
}

pub const TARGETS: [Target; 5] = [
    Target {
        load: Load::Cold,
        cost: Cost::Redis,
        peer: Who::Gcra,
        times_min: 1.2,
    },
    Target {
        load: Load::Cold,
        cost: Cost::Redis,
        peer: Who::HashBucket,
        times_min: 1.7,
    },
    Target {
        load: Load::Cold,
        cost: Cost::Client,
        peer: Who::Gcra,
        times_min: 2.0,
    },
    Target {
        load: Load::HotDenied,
        cost: Cost::Redis,
        peer: Who::Gcra,
        times_min: 50.0,
    },
    Target {
        load: Load::HotDenied,
        cost: Cost::Client,
        peer: Who::Gcra,
        times_min: 50.0,
    },
];

/// Bytes per key at most.
pub const fn bytes_max(who: Who) -> Option<f64> {
    match who {
        Who::Sluicegate => Some(136.0),
        Who::SluicegateCompact => Some(115.0),
        Who::Gcra | Who::HashBucket => None,
    }
}

impl Cost {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Redis => "Redis CPU",
            Self::Client => "client CPU",
        }
    }

    pub const fn of(self) -> fn(&Sample) -> f64 {
        match self {
            Self::Redis => Sample::redis_us,
            Self::Client => Sample::client_us,
        }
    }
}
