//! A whole connection of RESP with the decision service: every command has one reply, and every
//! reply is one that a client can read.

use std::cell::OnceCell;

use sluicegate_net::Transport;
use sluicegate_server::fuzz_internals::{RespServer, parse_commands};
use tokio::runtime::{Builder, Runtime};

use crate::input::fits_one_line;
use crate::limits::config_of;
use crate::written_client::WrittenClient;

/// The input is what a client sends.
pub fn run(data: &[u8]) {
    let replies = SERVER.with(|server| {
        let (runtime, server) = server.get_or_init(start);
        let (client, received) = WrittenClient::new(data);
        let client = Transport::Other(Box::new(client));
        runtime.block_on(server.serve(client));
        received.take()
    });
    let mut rest = &replies[..];
    let mut count = 0;
    while !rest.is_empty() {
        let Some(used) = reply_length(rest, 8) else {
            panic!("no reply: {}", rest.escape_ascii());
        };
        rest = &rest[used..];
        count += 1;
    }
    let parsed = parse_commands(data, data.len());
    let commands = parsed.commands.iter().zip(&parsed.are_inline);
    let mut commands = commands.filter(|(words, _)| !words.is_empty());
    let errors = usize::from(parsed.error.is_some());
    let asked = commands.clone().count() + errors;
    // A browser that was made to speak here begins with a line that is no command of ours.
    let last = commands.position(|(words, is_inline)| {
        let name = words[0].to_ascii_lowercase();
        name == b"quit" || *is_inline && !COMMANDS.contains(&&*name)
    });
    let expected = last.map_or(asked, |last| last + 1);
    assert_eq!(count, expected, "{}", replies.escape_ascii());
}

const COMMANDS: [&[u8]; 13] = [
    b"cl.throttle",
    b"sg.check",
    b"sg.peek",
    b"sg.refund",
    b"sg.reset",
    b"ping",
    b"echo",
    b"hello",
    b"auth",
    b"command",
    b"client",
    b"select",
    b"quit",
];

const LIMITS: &str = r#"
admin: off
limits:
  - { name: per-ip, key: [client_ip], rate: 100/s, burst: 3 }
  - { name: all, key: [global], rate: 1000000/s, burst: 1000 }
  - { name: tenant, key: ["header:x-tenant", path], rate: 5/m, burst: 5 }
  - { name: window, key: [client_ip], rate: 5/m, algorithm: sliding_window }
"#;

thread_local! {
    static SERVER: OnceCell<(Runtime, RespServer)> =
        const { OnceCell::new() };
}

fn start() -> (Runtime, RespServer) {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime needs nothing but memory");
    let config = config_of(LIMITS);
    let server = RespServer::new(&config, runtime.handle());
    let server = server.unwrap_or_else(|error| panic!("{error}"));
    (runtime, server)
}

/// Bytes of the reply at the beginning, in RESP2 or RESP3; `None` when it is none.
fn reply_length(bytes: &[u8], depth: usize) -> Option<usize> {
    let is_end = |pair: &[u8]| pair == b"\r\n";
    let line = bytes.windows(2).position(is_end)?;
    let (kind, words) = bytes[..line].split_first()?;
    if !fits_one_line(words) {
        return None;
    }
    let head = line + 2;
    let rest = &bytes[head..];
    if matches!(kind, b'+' | b'-') {
        return Some(head);
    }
    if *kind == b'_' {
        return words.is_empty().then_some(head);
    }
    let number = number(words)?;
    let length = match kind {
        b':' => 0,
        b'$' => text_length(rest, number)?,
        b'*' => list_length(rest, number, depth)?,
        b'%' => list_length(rest, 2 * number, depth)?,
        _ => return None,
    };
    Some(head + length)
}

fn number(digits: &[u8]) -> Option<i64> {
    let digits = str::from_utf8(digits).ok()?;
    digits.parse().ok()
}

/// Bytes of a string of this length, with its line end; none for a missing one.
fn text_length(bytes: &[u8], length: i64) -> Option<usize> {
    if length == -1 {
        return Some(0);
    }
    let length = usize::try_from(length).ok()?;
    let (_, after) = bytes.split_at_checked(length)?;
    after.starts_with(b"\r\n").then_some(length + 2)
}

/// Bytes of so many replies in a row.
fn list_length(bytes: &[u8], count: i64, depth: usize) -> Option<usize> {
    let depth = depth.checked_sub(1)?;
    let mut at = 0;
    for _ in 0..count {
        let rest = bytes.get(at..)?;
        at += reply_length(rest, depth)?;
    }
    Some(at)
}
