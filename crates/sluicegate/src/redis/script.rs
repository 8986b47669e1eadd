//! The Lua scripts: their sources, their arguments and their replies.
//!
//! A script is a concatenation of the files in `lua/`, each of which mirrors an algorithm of
//! `sluicegate_core`. `arguments` writes what a script reads, `replies` reads what it returns, and
//! the tests compare both with the pure code over a real server.

mod arguments;
#[cfg(any(test, feature = "fuzz-internals"))]
pub(in crate::redis) mod model;
mod replies;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use sha1::{Digest, Sha1};
use sluicegate_core::{Nanos, Timestamp};

pub(super) use arguments::{write_decide, write_refund};
pub(super) use replies::{ChargeReply, DecideReply, RefundReply, outcome, read_refund};

/// The clock that a script call uses.
#[derive(Clone, Copy, Debug)]
pub(super) enum ScriptTime {
    /// The clock of the server.
    Server,
    /// The caller's time, but never ahead of the server's and at most a second behind it.
    Replica(Timestamp),
    /// Exactly this time: for tests, where time stands still or jumps.
    Given(Timestamp),
}

/// When the units of a refund were spent.
#[derive(Clone, Copy, Debug)]
pub(super) enum ChargeTime {
    /// This long before the refund.
    Ago(Nanos),
    /// At this instant of the clock that decided the charge, as its reply said.
    At(Timestamp),
}

/// A script, and the digest by which Redis knows it once it is loaded.
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

/// The script that decides many requests in one call. Its digest is computed once.
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
            include_str!("lua/changed.lua"),
            include_str!("lua/request.lua"),
            "end\n", // of the function that cursor.lua begins
            include_str!("lua/decide.lua"),
        ))
    });
    &DECIDE
}

/// The script that replaces a value if it has not changed.
pub(super) fn swap_script() -> &'static RedisScript {
    static SWAP: LazyLock<RedisScript> =
        LazyLock::new(|| RedisScript::new(include_str!("lua/swap.lua")));
    &SWAP
}

/// The script that gives back units of one counter.
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
            include_str!("lua/changed.lua"),
            include_str!("lua/refund.lua"),
        ))
    });
    &REFUND
}
