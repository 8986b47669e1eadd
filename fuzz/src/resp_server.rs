//! A whole connection of RESP with the decision service: every command has one reply, and every
//! reply is one that a client can read.

use std::cell::OnceCell;

use sluicegate_config::{Source, load};
use sluicegate_net::Transport;
use sluicegate_server::fuzz_internals::{RespServer, parse_commands};
use tokio::runtime::{Builder, Runtime};

use crate::written_client::WrittenClient;

/// The input is what a client sends.
pub fn run(data: &[u8]) {
    let replies = SERVER.with(|server| {
        let (runtime, server) = server.get_or_init(start);
        let (client, received) = WrittenClient::new(data);
        runtime.block_on(server.serve(Transport::Other(Box::new(client))));
        received.take()
    });
    let mut rest = &replies[..];
    let mut count = 0;
    while !rest.is_empty() {
        let used = reply_length(rest, 8);
        let Some(used) = used else {
            panic!("no reply: {}", rest.escape_ascii());
        };
        rest = &rest[used..];
        count += 1;
    }
    let parsed = parse_commands(data, data.len());
    let commands = parsed.commands.iter().zip(&parsed.are_inline);
    let mut commands = commands.filter(|(words, _)| !words.is_empty());
    let asked = commands.clone().count() + usize::from(parsed.error.is_some());
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
    static SERVER: OnceCell<(Runtime, RespServer)> = const { OnceCell::new() };
}

fn start() -> (Runtime, RespServer) {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime needs nothing but memory");
    let source = Source {
        text: LIMITS.to_owned(),
        ..Source::embedded()
    };
    let config = load(&source, &|_| None).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let server = RespServer::new(&config, runtime.handle());
    let server = server.unwrap_or_else(|error| panic!("{error}"));
    (runtime, server)
}

/// Bytes of the reply at the beginning, in RESP2 or RESP3; `None` when it is none.
fn reply_length(bytes: &[u8], depth: usize) -> Option<usize> {
    let line = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let (kind, words) = bytes[..line].split_first()?;
    if words.contains(&b'\n') || words.contains(&b'\r') {
        return None;
    }
    let number = || str::from_utf8(words).ok()?.parse::<i64>().ok();
    let head = line + 2;
    match kind {
        b'+' | b'-' => Some(head),
        b':' => number().map(|_| head),
        b'_' => words.is_empty().then_some(head),
        b'$' => match number()? {
            -1 => Some(head),
            length => {
                let end = head + usize::try_from(length).ok()?;
                (bytes.get(end..end + 2)? == b"\r\n").then_some(end + 2)
            }
        },
        b'*' | b'%' => {
            let count = number()? * if *kind == b'%' { 2 } else { 1 };
            let mut at = head;
            for _ in 0..count {
                at += reply_length(bytes.get(at..)?, depth.checked_sub(1)?)?;
            }
            Some(at)
        }
        _ => None,
    }
}
