//! A primary with replicas, watched by sentinels.
//!
//! Servers and sentinels know two users, one for each side of a division: the first sentinel logs in
//! as [`MINORITY`], the others as [`MAJORITY`]. Deleting the user of the other side cuts all links
//! between both at once, and leaves every server and sentinel reachable for clients. A sentinel that
//! cannot log in goes on as the default user, who may then no longer do what only sentinels do.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::processes::wait_until;
use crate::replication::Replication;
use crate::server::RedisServer;

/// A primary, two replicas and three sentinels of which two must agree.
#[derive(Debug)]
pub struct SentinelGroup {
    sentinels: Vec<RedisServer>,
    replication: Replication,
    /// The primary that the test knows of, to tell a switch.
    known_primary: Mutex<u16>,
}

impl SentinelGroup {
    /// The name by which sentinels know the primary.
    pub const NAME: &str = "sluicegate";

    /// Returns when all sentinels know each other and both replicas, so that a failover can begin.
    #[track_caller]
    pub fn start() -> Self {
        let replication = Replication::start(2);
        let port = replication.primary().port();
        for server in replication.servers() {
            SIDES.iter().for_each(|user| add_user(server, user));
        }
        let sentinels = (0..3)
            .map(|index| start_sentinel(port, if index == 0 { MINORITY } else { MAJORITY }))
            .collect();
        let group = Self {
            sentinels,
            replication,
            known_primary: Mutex::new(port),
        };
        wait_until(
            Duration::from_secs(20),
            "the sentinels know each other and the replicas",
            || group.is_complete(),
        );
        group
    }

    /// The three data servers; the first was the primary at the start.
    pub fn servers(&self) -> &[RedisServer] {
        self.replication.servers()
    }

    /// The three sentinels.
    pub fn sentinels(&self) -> &[RedisServer] {
        &self.sentinels
    }

    /// `redis://` addresses of the sentinels.
    pub fn sentinel_urls(&self) -> Vec<String> {
        self.sentinels.iter().map(RedisServer::url).collect()
    }

    /// The primary by the word of the first sentinel that answers.
    #[track_caller]
    pub fn primary_port(&self) -> u16 {
        self.words().first().copied().expect("a sentinel answers")
    }

    /// The server that sentinels call the primary.
    #[track_caller]
    pub fn primary(&self) -> &RedisServer {
        self.server_on(self.primary_port())
    }

    /// Waits until all sentinels that answer name the same primary, another than at the start or at the last switch,
    /// and it says so itself. Returns its port.
    #[track_caller]
    pub fn wait_for_switch(&self, timeout: Duration) -> u16 {
        let mut known = self
            .known_primary
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let old = *known;
        wait_until(timeout, "the sentinels name another primary", || {
            let words = self.words();
            let Some(&port) = words.first() else {
                return false;
            };
            *known = port;
            port != old
                && words.iter().all(|word| *word == port)
                && is_primary(self.server_on(port))
        });
        *known
    }

    /// Orders a failover without a fault (SENTINEL FAILOVER); [`wait_for_switch`](Self::wait_for_switch) sees its end.
    ///
    /// Sentinels refuse one while they are at another; then this asks again for ten seconds.
    #[track_caller]
    pub fn failover(&self) {
        let deadline = Instant::now() + Duration::from_secs(10);
        wait_until(
            Duration::from_secs(11),
            "a sentinel begins a failover",
            || {
                let begun =
                    self.sentinels[0].try_command::<()>(&["SENTINEL", "FAILOVER", Self::NAME]);
                if let (Err(error), true) = (&begun, Instant::now() > deadline) {
                    panic!("SENTINEL FAILOVER: {error}");
                }
                begun.is_ok()
            },
        );
    }

    /// Waits until every data server that runs follows the present primary or is it.
    #[track_caller]
    pub fn wait_for_replicas(&self, timeout: Duration) {
        wait_until(timeout, "all servers follow the primary", || {
            let Some(&port) = self.words().first() else {
                return false;
            };
            let running = self.servers().iter().filter(|server| server.is_running());
            let mut followers = running.filter(|server| server.port() != port);
            followers.all(|server| crate::replication::follows(server, port))
        });
    }

    /// Cuts the first server, which is the primary, and the first sentinel off from all others, and
    /// returns the index of the server that the others elect. Clients still reach every server and
    /// sentinel, and the first of each go on as if nothing had happened.
    #[track_caller]
    pub fn isolate_primary(&self, timeout: Duration) -> usize {
        let (server, others) = self.servers().split_first().expect("three servers");
        let (sentinel, other_sentinels) = self.sentinels.split_first().expect("three sentinels");
        cut_off(server, MAJORITY, FROM_SERVER);
        cut_off(sentinel, MAJORITY, FROM_SENTINEL);
        others
            .iter()
            .for_each(|other| cut_off(other, MINORITY, FROM_SERVER));
        other_sentinels
            .iter()
            .for_each(|other| cut_off(other, MINORITY, FROM_SENTINEL));
        let mut elected = None;
        wait_until(timeout, "the majority elects another primary", || {
            let words: Vec<_> = other_sentinels.iter().map(named_primary).collect();
            elected = self
                .servers()
                .iter()
                .position(|server| Some(server.port()) == words[0])
                .filter(|index| *index != 0 && is_primary(&self.servers()[*index]));
            elected.is_some() && words.iter().all(|word| *word == words[0])
        });
        let elected = elected.expect("set when the wait ended");
        let follower = &self.servers()[3 - elected];
        wait_until(timeout, "the other replica follows it", || {
            crate::replication::follows(follower, self.servers()[elected].port())
        });
        elected
    }

    /// Lets both sides of [`isolate_primary`](Self::isolate_primary) reach each other again.
    pub fn join(&self) {
        for node in self.servers().iter().chain(&self.sentinels) {
            SIDES.iter().for_each(|user| add_user(node, user));
            node.command::<()>(&["ACL", "SETUSER", "default", "+@all"]);
        }
    }

    /// Sets all sentinels up anew to watch this server, as a new deployment would: they count their
    /// epochs from zero again. The other servers follow it.
    #[track_caller]
    pub fn set_up_anew(&self, primary: usize) {
        for sentinel in &self.sentinels {
            sentinel.command::<()>(&["SENTINEL", "REMOVE", Self::NAME]);
        }
        self.replication.promote(primary);
        let port = self.servers()[primary].port().to_string();
        for (index, sentinel) in self.sentinels.iter().enumerate() {
            let user = if index == 0 { MINORITY } else { MAJORITY };
            sentinel.command::<()>(&["SENTINEL", "MONITOR", Self::NAME, "127.0.0.1", &port, "2"]);
            for (option, value) in [("auth-user", user), ("auth-pass", PASSWORD)] {
                sentinel.command::<()>(&["SENTINEL", "SET", Self::NAME, option, value]);
            }
        }
        wait_until(
            Duration::from_secs(20),
            "the sentinels know each other and the replicas",
            || self.is_complete(),
        );
    }

    /// The time without an answer after which the sentinels take a server for dead.
    pub fn set_down_after(&self, time: Duration) {
        let time = time.as_millis().to_string();
        for sentinel in self
            .sentinels
            .iter()
            .filter(|sentinel| sentinel.is_running())
        {
            sentinel.command::<()>(&[
                "SENTINEL",
                "SET",
                Self::NAME,
                "down-after-milliseconds",
                &time,
            ]);
        }
    }

    fn server_on(&self, port: u16) -> &RedisServer {
        let found = self.servers().iter().find(|server| server.port() == port);
        found.expect("sentinels know no other servers than ours")
    }

    /// The address that each running sentinel gives for the primary.
    fn words(&self) -> Vec<u16> {
        self.sentinels
            .iter()
            .filter(|sentinel| sentinel.is_running())
            .filter_map(named_primary)
            .collect()
    }

    fn is_complete(&self) -> bool {
        self.sentinels.iter().all(|sentinel| {
            let state: HashMap<String, String> =
                sentinel.command(&["SENTINEL", "MASTER", Self::NAME]);
            let quorum = sentinel.try_command::<String>(&["SENTINEL", "CKQUORUM", Self::NAME]);
            state["num-slaves"] == "2" && state["num-other-sentinels"] == "2" && quorum.is_ok()
        })
    }
}

/// Quick to notice and quick to try again. Sentinels greet each other ten times as often as by default, so that the
/// group is complete within a second. They ping often, and so also dial again often: otherwise they would take a new
/// primary for dead before they have dialled it, and elect another one. But while a primary is down they ask its replicas
/// once a second how they are, and elect none whose answer is older than five pings: those must take longer than that.
fn start_sentinel(primary_port: u16, user: &str) -> RedisServer {
    let name = SentinelGroup::NAME;
    let builder = SIDES
        .iter()
        .fold(RedisServer::builder().sentinel(), |builder, side| {
            builder.acl_user(&user_rule(side).join(" "))
        });
    let sentinel = builder
        .config(format!(
            "sentinel monitor {name} 127.0.0.1 {primary_port} 2"
        ))
        .config(format!("sentinel down-after-milliseconds {name} 500"))
        .config(format!("sentinel failover-timeout {name} 3000"))
        .config(format!("sentinel parallel-syncs {name} 1"))
        .config(format!("sentinel auth-user {name} {user}"))
        .config(format!("sentinel auth-pass {name} {PASSWORD}"))
        .config(format!("sentinel sentinel-user {user}"))
        .config(format!("sentinel sentinel-pass {PASSWORD}"))
        .start();
    sentinel.command::<()>(&[
        "SENTINEL",
        "DEBUG",
        "PUBLISH-PERIOD",
        "200",
        "INFO-PERIOD",
        "500",
        "PING-PERIOD",
        "240",
    ]);
    sentinel
}

const MINORITY: &str = "minority";
const MAJORITY: &str = "majority";
const SIDES: [&str; 2] = [MINORITY, MAJORITY];
const PASSWORD: &str = "of-both-sides";

/// A user that may do everything, in the words of `ACL SETUSER`.
fn user_rule(user: &str) -> [String; 6] {
    let password = format!(">{PASSWORD}");
    [user, "on", &password, "~*", "&*", "+@all"].map(str::to_owned)
}

fn add_user(node: &RedisServer, user: &str) {
    let rule = user_rule(user);
    let words: Vec<&str> = ["ACL", "SETUSER"]
        .into_iter()
        .chain(rule.iter().map(String::as_str))
        .collect();
    node.command::<()>(&words);
}

/// Commands by which sentinels watch a server, and those by which they watch each other. Clients of
/// ours need none of them but `PING`, and can do without it.
const FROM_SERVER: &[&str] = &["-ping", "-publish", "-subscribe", "-slaveof", "-replicaof"];
const FROM_SENTINEL: &[&str] = &["-ping", "-publish", "-sentinel|is-master-down-by-addr"];

/// Closes the connections of this user, and takes these commands from everybody without a user.
fn cut_off(node: &RedisServer, user: &str, commands: &[&str]) {
    let rule: Vec<&str> = ["ACL", "SETUSER", "default"]
        .iter()
        .chain(commands)
        .copied()
        .collect();
    node.command::<()>(&rule);
    node.command::<()>(&["ACL", "DELUSER", user]);
}

/// The port of the primary by the word of one sentinel.
fn named_primary(sentinel: &RedisServer) -> Option<u16> {
    let words = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SentinelGroup::NAME];
    let (_host, port): (String, String) = sentinel.try_command(&words).ok()?;
    port.parse().ok()
}

fn is_primary(server: &RedisServer) -> bool {
    server
        .try_info("replication")
        .is_ok_and(|info| info["role"] == "master")
}
