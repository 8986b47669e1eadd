//! The targets: how Sluicegate must compare with its peers.

use super::contestants::RedisContestant;
use super::loads::RedisLoad;
use super::results::RedisSample;

/// The peer's cost is to be at least so many times ours, with as many callers as wait at most.
pub struct RedisTarget {
    pub load: RedisLoad,
    pub cost: ProcessorTime,
    pub peer: RedisContestant,
    pub times_min: f64,
}

/// The process whose processor time is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessorTime {
    Redis,
    Client,
}

pub const TARGETS: [RedisTarget; 5] = [
    RedisTarget {
        load: RedisLoad::Cold,
        cost: ProcessorTime::Redis,
        peer: RedisContestant::Gcra,
        times_min: 1.2,
    },
    RedisTarget {
        load: RedisLoad::Cold,
        cost: ProcessorTime::Redis,
        peer: RedisContestant::HashBucket,
        times_min: 1.7,
    },
    RedisTarget {
        load: RedisLoad::Cold,
        cost: ProcessorTime::Client,
        peer: RedisContestant::Gcra,
        times_min: 2.0,
    },
    RedisTarget {
        load: RedisLoad::HotDenied,
        cost: ProcessorTime::Redis,
        peer: RedisContestant::Gcra,
        times_min: 50.0,
    },
    RedisTarget {
        load: RedisLoad::HotDenied,
        cost: ProcessorTime::Client,
        peer: RedisContestant::Gcra,
        times_min: 50.0,
    },
];

/// Bytes per key at most.
pub const fn bytes_max(contestant: RedisContestant) -> Option<f64> {
    match contestant {
        RedisContestant::Sluicegate => Some(136.0),
        RedisContestant::SluicegateCompact => Some(115.0),
        RedisContestant::Gcra | RedisContestant::HashBucket => None,
    }
}

impl ProcessorTime {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Redis => "Redis CPU",
            Self::Client => "client CPU",
        }
    }

    pub const fn of(self) -> fn(&RedisSample) -> f64 {
        match self {
            Self::Redis => RedisSample::redis_us,
            Self::Client => RedisSample::client_us,
        }
    }
}
