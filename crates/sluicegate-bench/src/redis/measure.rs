//! Lets a contestant take a turn against a Redis of its own, and asks that Redis what it cost.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;

use sluicegate_testkit::RedisServer;

use super::contestants::RedisContestant;
use super::loads::{CALLERS, RedisLoad};
use super::results::{RedisMemoryUse, RedisSample};
use super::turn::{RuntimeThreads, Turn, TurnFigures, TurnLength};
use crate::child::ChildProcess;

/// Keys that are alive when bytes are counted.
pub const KEYS: u32 = 1_000_000;

/// A turn whose server is started when it is taken.
pub fn turn(
    contestant: RedisContestant,
    load: RedisLoad,
    callers: usize,
    length: TurnLength,
    threads: RuntimeThreads,
) -> Turn {
    Turn {
        contestant,
        load,
        callers,
        length,
        threads,
        server: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
    }
}

/// Takes the turn; what Redis did before the contestant was ready does not count.
pub fn sample(turn: &Turn) -> Result<RedisSample, String> {
    let server = RedisServer::start();
    let used = || {
        (
            server.cpu_seconds(),
            server.command_calls("evalsha") + server.command_calls("eval"),
        )
    };
    let (figures, before, after) = taken(turn, &server, used)?;
    Ok(RedisSample {
        figures,
        redis_cpu_seconds: after.0 - before.0,
        calls: after.1 - before.1,
    })
}

/// Fills Redis with keys that each were charged once.
pub fn memory_use(contestant: RedisContestant) -> Result<RedisMemoryUse, String> {
    let server = RedisServer::start();
    let callers = CALLERS[CALLERS.len() - 1];
    let turn = turn(
        contestant,
        RedisLoad::Cold,
        callers,
        TurnLength::Decisions(KEYS),
        RuntimeThreads::One,
    );
    let (_, before, after) = taken(&turn, &server, || server.used_memory())?;
    Ok(RedisMemoryUse {
        contestant,
        bytes_per_key: after.saturating_sub(before) as f64 / f64::from(KEYS),
    })
}

/// The contestant's figures, and the result of `used` before and after, while it is connected both times.
fn taken<T>(
    turn: &Turn,
    server: &RedisServer,
    used: impl Fn() -> T,
) -> Result<(TurnFigures, T, T), String> {
    let mut child = ChildProcess::start(
        &Turn {
            server: server.address(),
            ..*turn
        }
        .words(),
    )?;
    let ready = child.line()?;
    if ready != "ready" {
        return Err(format!(
            "{}: expected to be ready, says `{ready}`",
            turn.contestant.name()
        ));
    }
    let before = used();
    child.go_on()?;
    let figures = TurnFigures::parse(&child.line()?)?;
    Ok((figures, before, used()))
}

/// The version of the installed Redis; the error says how to get one.
pub fn redis_version() -> Result<String, String> {
    let output = Command::new("redis-server")
        .arg("--version")
        .output()
        .map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                "redis-server: not found; install Redis 7 or later, or put it on the PATH"
                    .to_string()
            }
            _ => format!("redis-server: {error}"),
        })?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text
        .split_whitespace()
        .find_map(|word| word.strip_prefix("v="));
    version
        .map(|version| format!("Redis {version}"))
        .ok_or(format!("redis-server --version: not understood: {text}"))
}
