//! Statistics of a Redis server, and the small disturbances it can be asked for.

use std::collections::HashMap;

use redis::{Connection, FromRedisValue, cmd};

use crate::server::RedisServer;

impl RedisServer {
    /// Sends one command, given in words, and returns the answer: `server.command(&["SET", "a", "1"])`.
    #[track_caller]
    pub fn command<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let answer = command_of(words).query(&mut self.client());
        answer.unwrap_or_else(|error| panic!("{words:?} on port {}: {error}", self.port()))
    }

    /// As [`command`](Self::command) for a server that may be away or refuse.
    pub fn try_command<T: FromRedisValue>(&self, words: &[&str]) -> redis::RedisResult<T> {
        command_of(words).query(&mut self.try_client()?)
    }

    /// The fields of one section of INFO.
    #[track_caller]
    pub fn info(&self, section: &str) -> HashMap<String, String> {
        fields(&self.command::<String>(&["INFO", section]))
    }

    /// As [`info`](Self::info) for a server that may be away.
    pub fn try_info(&self, section: &str) -> redis::RedisResult<HashMap<String, String>> {
        self.try_command(&["INFO", section])
            .map(|text: String| fields(&text))
    }

    /// How often Redis ran this command since its start or CONFIG RESETSTAT, by its own count, also inside scripts.
    pub fn command_calls(&self, command: &str) -> u64 {
        let statistics = self.info("commandstats");
        let Some(line) = statistics.get(&format!("cmdstat_{}", command.to_lowercase())) else {
            return 0;
        };
        let calls = line
            .split(',')
            .find_map(|field| field.strip_prefix("calls="));
        calls
            .and_then(|calls| calls.parse().ok())
            .expect("redis counts the calls of every command")
    }

    /// Processor time used so far, in user and kernel mode.
    pub fn cpu_seconds(&self) -> f64 {
        let info = self.info("cpu");
        let seconds = |name: &str| {
            info[name]
                .parse::<f64>()
                .expect("redis writes a decimal number")
        };
        seconds("used_cpu_user") + seconds("used_cpu_sys")
    }

    /// Memory by the count of Redis itself, in bytes.
    pub fn used_memory(&self) -> u64 {
        self.info("memory")["used_memory"]
            .parse()
            .expect("redis writes a whole number")
    }

    /// The sum of MEMORY USAGE over all keys with this prefix, in bytes.
    pub fn memory_of_keys(&self, prefix: &str) -> u64 {
        let mut client = self.client();
        let usage = |key: &Vec<u8>| {
            cmd("MEMORY")
                .arg("USAGE")
                .arg(key)
                .query::<Option<u64>>(&mut client)
        };
        let usages: Result<Vec<_>, _> = self.keys(prefix).iter().map(usage).collect();
        usages
            .expect("MEMORY USAGE works on every key")
            .into_iter()
            .flatten()
            .sum()
    }

    /// Keys with this prefix that would stay for ever. A key that expires meanwhile is not one of them.
    pub fn keys_without_ttl(&self, prefix: &str) -> Vec<String> {
        let mut client = self.client();
        let mut is_for_ever = |key: &Vec<u8>| {
            let ttl: i64 = cmd("PTTL")
                .arg(key)
                .query(&mut client)
                .expect("PTTL works on every key");
            ttl == -1
        };
        let keys = self.keys(prefix).into_iter().filter(|key| is_for_ever(key));
        keys.map(|key| String::from_utf8_lossy(&key).into_owned())
            .collect()
    }

    /// All keys with this prefix, taken literally, sorted.
    pub fn keys(&self, prefix: &str) -> Vec<Vec<u8>> {
        let mut client = self.client();
        let mut keys = Vec::new();
        let mut cursor = 0;
        loop {
            let (next, page) = scan(&mut client, cursor);
            keys.extend(
                page.into_iter()
                    .filter(|key| key.starts_with(prefix.as_bytes())),
            );
            if next == 0 {
                break;
            }
            cursor = next;
        }
        // SCAN may show a key twice.
        keys.sort();
        keys.dedup();
        keys
    }

    /// Leaves every command of every client, ours too, unanswered for this time.
    pub fn pause_clients(&self, milliseconds: u64) {
        self.command::<()>(&["CLIENT", "PAUSE", &milliseconds.to_string(), "ALL"]);
    }

    /// Forgets all scripts, so that the next EVALSHA is answered NOSCRIPT.
    pub fn flush_scripts(&self) {
        self.command::<()>(&["SCRIPT", "FLUSH", "SYNC"]);
    }

    /// Loses all keys.
    pub fn flush_all(&self) {
        self.command::<()>(&["FLUSHALL", "SYNC"]);
    }
}

fn fields(info: &str) -> HashMap<String, String> {
    let fields = info.lines().filter_map(|line| line.split_once(':'));
    fields
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn command_of(words: &[&str]) -> redis::Cmd {
    let mut command = redis::Cmd::new();
    command.arg(words);
    command
}

fn scan(client: &mut Connection, cursor: u64) -> (u64, Vec<Vec<u8>>) {
    cmd("SCAN")
        .arg(cursor)
        .arg("COUNT")
        .arg(1000)
        .query(client)
        .expect("SCAN works with any cursor it gave")
}
