//! A test server and a blocking client over `wire`, for the tests of the scripts.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use sluicegate_testkit::RedisServer;

use super::{DecidedCall, read_decide};
use crate::redis::charge::StoreCharge;
use crate::redis::script::{ChargeTime, RedisScript, ScriptTime, decide_script, refund_script};
use crate::redis::script::{write_decide, write_refund};
use crate::redis::wire::{Reply, parse, write_array_header, write_bulk, write_command};

/// A server that knows our scripts.
pub struct ScriptServer(RedisServer);

impl ScriptServer {
    pub fn start() -> Self {
        Self(RedisServer::start())
    }

    pub fn connect(&self) -> Connection {
        let stream = TcpStream::connect(self.0.address()).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let mut connection = Connection {
            stream,
            unread: Vec::new(),
        };
        for script in [decide_script(), refund_script()] {
            let sha = connection.call(&["SCRIPT", "LOAD", script.source]);
            assert_eq!(sha, Reply::Bulk(script.sha.clone().into_bytes()));
        }
        connection
    }
}

pub struct Connection {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl Connection {
    pub fn call(&mut self, words: &[&str]) -> Reply {
        let mut out = Vec::new();
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        write_command(&mut out, &words);
        self.send(&out);
        self.receive()
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub fn receive(&mut self) -> Reply {
        loop {
            if let Some((reply, end)) = parse(&self.unread).unwrap() {
                self.unread.drain(..end);
                return reply;
            }
            let mut piece = [0; 16 * 1024];
            let length = self.stream.read(&mut piece).unwrap();
            assert!(length > 0, "the server hung up");
            self.unread.extend_from_slice(&piece[..length]);
        }
    }

    /// Decides these requests in one call.
    pub(super) fn decide(
        &mut self,
        requests: &[&[StoreCharge]],
        now: ScriptTime,
    ) -> Result<DecidedCall, String> {
        let mut arguments = Vec::new();
        let count = write_decide(&mut arguments, requests, now);
        let reply = self.script(decide_script(), count, &arguments);
        read_decide(reply, requests)
    }

    pub fn refund(&mut self, item: &StoreCharge, drawn: ChargeTime, now: ScriptTime) -> Reply {
        let mut arguments = Vec::new();
        let count = write_refund(&mut arguments, item, drawn, now);
        self.script(refund_script(), count, &arguments)
    }

    fn script(&mut self, script: &RedisScript, count: usize, arguments: &[u8]) -> Reply {
        let mut out = Vec::new();
        write_array_header(&mut out, count + 2);
        write_bulk(&mut out, b"EVALSHA");
        write_bulk(&mut out, script.sha.as_bytes());
        out.extend_from_slice(arguments);
        self.send(&out);
        self.receive()
    }

    pub fn get(&mut self, key: &str) -> Option<String> {
        match self.call(&["GET", key]) {
            Reply::Bulk(value) => Some(String::from_utf8(value).unwrap()),
            Reply::Nil => None,
            other => panic!("{key}: {other:?}"),
        }
    }

    /// Asserts that every key has a time to live.
    pub fn assert_every_key_expires(&mut self) {
        let Reply::Array(keys) = self.call(&["KEYS", "*"]) else {
            panic!("no keys")
        };
        for key in keys {
            let Reply::Bulk(key) = key else {
                panic!("no key: {key:?}")
            };
            let key = String::from_utf8(key).unwrap();
            assert!(
                matches!(self.call(&["PTTL", &key]), Reply::Integer(1..)),
                "{key} has no end"
            );
        }
    }
}

/// The commands that scripts run on a server, from `MONITOR`.
pub struct CommandMonitor {
    watching: Connection,
}

impl CommandMonitor {
    pub fn start(server: &ScriptServer) -> Self {
        let mut watching = server.connect();
        assert_eq!(watching.call(&["MONITOR"]), Reply::Simple("OK".to_owned()));
        Self { watching }
    }

    /// The commands that scripts gave since the last time, as words. The connection tells where to
    /// stop.
    pub fn commands(&mut self, connection: &mut Connection) -> Vec<Vec<String>> {
        connection.call(&["ECHO", "so far"]);
        let mut commands = Vec::new();
        loop {
            let Reply::Simple(line) = self.watching.receive() else {
                panic!("not a line of MONITOR")
            };
            if line.contains(r#""ECHO" "so far""#) {
                return commands;
            }
            if let Some((_, words)) = line.split_once(" lua] ") {
                commands.push(
                    words
                        .trim_matches('"')
                        .split(r#"" ""#)
                        .map(str::to_owned)
                        .collect(),
                );
            }
        }
    }
}
