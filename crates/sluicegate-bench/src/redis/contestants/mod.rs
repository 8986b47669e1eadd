//! The contestants of `bench redis`. Each builds the key from the client's address itself, as in a service.

mod scripted;
mod sluicegate;

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ::sluicegate::KeyLayout;

pub use self::scripted::{ScriptedLimiter, ScriptedPeer};
pub use self::sluicegate::RedisSluicegate;

/// A limiter with its counters in Redis.
pub trait RedisLimiter: Send + Sync + 'static {
    /// Charges one unit for an address; whether it is allowed.
    fn decide(&self, address: IpAddr) -> impl Future<Output = Result<bool, String>> + Send;
}

/// A contestant by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedisContestant {
    Sluicegate,
    /// The same with the short form of keys: for bytes per key only.
    SluicegateCompact,
    Gcra,
    HashBucket,
}

impl RedisContestant {
    /// Those whose decisions are timed.
    pub const TIMED: [Self; 3] = [Self::Sluicegate, Self::Gcra, Self::HashBucket];
    pub const ALL: [Self; 4] = [
        Self::Sluicegate,
        Self::SluicegateCompact,
        Self::Gcra,
        Self::HashBucket,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Sluicegate => "sluicegate",
            Self::SluicegateCompact => "sluicegate, compact keys",
            Self::Gcra => "redis-rs + GCRA script",
            Self::HashBucket => "redis-rs + hash token bucket",
        }
    }

    /// Short name for the command line.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Sluicegate => "sluicegate",
            Self::SluicegateCompact => "sluicegate-compact",
            Self::Gcra => "gcra",
            Self::HashBucket => "hash",
        }
    }

    pub const fn layout(self) -> KeyLayout {
        match self {
            Self::SluicegateCompact => KeyLayout::Compact,
            Self::Sluicegate | Self::Gcra | Self::HashBucket => KeyLayout::Readable,
        }
    }
}

/// The longest a decision may take, for everybody: so long that nobody meets it, also under valgrind.
const DEADLINE: Duration = Duration::from_secs(5);

/// The name of a counter in the readable form, the same for everybody.
fn readable_key(address: IpAddr) -> String {
    format!("sluicegate:{LIMIT}:{address}")
}

/// Short, so that names have 16 to 30 bytes: the target for the memory of a key is for such names.
const LIMIT: &str = "ips";

/// Where a contestant finds Redis.
pub type ServerAddress = SocketAddr;
