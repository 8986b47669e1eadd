//! Scripts: what goes into a call, and what its answer means.

mod arguments;
mod replies;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use sha1::{Digest, Sha1};
use sluicegate_core::{Nanos, Timestamp};

pub(super) use arguments::{write_decide, write_refund};
pub(super) use replies::{ChargeReply, DecideReply, RefundReply, outcome, read_refund};

/// Whose clock a call goes by.
#[derive(Clone, Copy, Debug)]
pub(super) enum ScriptTime {
    /// Redis' own.
    Server,
    /// The caller's, but never ahead of Redis' and at most a second behind it.
    Replica(Timestamp),
    /// Exactly this: for tests, where time stands still or jumps.
    Given(Timestamp),
}

/// When the units of a refund were drawn.
#[derive(Clone, Copy, Debug)]
pub(super) enum ChargeTime {
    /// So long ago.
    Ago(Nanos),
    /// At this instant of the clock that the draw went by, as its answer told.
    At(Timestamp),
}

/// A script, and the name by which Redis knows it once it is loaded.
#[derive(Debug)]
pub(super) struct RedisScript {
    pub source: &'static str,
    /// SHA-1 of the source, 40 hexadecimal digits.
    pub sha: String,
}

impl RedisScript {
    fn new(source: &'static str) -> Self {
        let sha = Sha1::digest(source.as_bytes())
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Self { source, sha }
    }
}

/// Decides many requests in one call.
pub(super) fn decide_script() -> &'static RedisScript {
    static DECIDE: LazyLock<RedisScript> = LazyLock::new(|| {
        RedisScript::new(concat!(
            include_str!("lua/time.lua"),
            include_str!("lua/single_token_bucket.lua"),
            include_str!("lua/state.lua"),
            include_str!("lua/token_bucket.lua"),
            include_str!("lua/counters.lua"),
            include_str!("lua/cursor.lua"),
            include_str!("lua/charge.lua"),
            include_str!("lua/drip.lua"),
            include_str!("lua/sliding_window.lua"),
            include_str!("lua/request.lua"),
            "end\n", // of the function that cursor.lua begins
            include_str!("lua/decide.lua"),
        ))
    });
    &DECIDE
}

/// Puts a value in the place of the one that was read.
pub(super) fn swap_script() -> &'static RedisScript {
    static SWAP: LazyLock<RedisScript> =
        LazyLock::new(|| RedisScript::new(include_str!("lua/swap.lua")));
    &SWAP
}

/// Gives back units of one counter.
pub(super) fn refund_script() -> &'static RedisScript {
    static REFUND: LazyLock<RedisScript> = LazyLock::new(|| {
        RedisScript::new(concat!(
            include_str!("lua/time.lua"),
            include_str!("lua/state.lua"),
            include_str!("lua/token_bucket.lua"),
            include_str!("lua/counters.lua"),
            include_str!("lua/charge.lua"),
            include_str!("lua/drip.lua"),
            include_str!("lua/sliding_window.lua"),
            include_str!("lua/refund.lua"),
        ))
    });
    &REFUND
}
