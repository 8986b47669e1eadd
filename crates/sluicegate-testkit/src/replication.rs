//! A primary with replicas, and nobody who watches them.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::processes::wait_until;
use crate::server::RedisServer;

/// Servers of which one is the primary and the others follow it. Who is changes only by [`promote`](Self::promote).
#[derive(Debug)]
pub struct Replication {
    servers: Vec<RedisServer>,
    primary: Mutex<usize>,
}

impl Replication {
    /// A primary (server 0) and so many replicas with their links up.
    #[track_caller]
    pub fn start(replicas: usize) -> Self {
        let primary = RedisServer::start();
        let followers: Vec<_> = (0..replicas)
            .map(|_| RedisServer::builder().replica_of(&primary).start())
            .collect();
        let servers = std::iter::once(primary).chain(followers).collect();
        let replication = Self {
            servers,
            primary: Mutex::new(0),
        };
        replication.wait_for_links();
        replication
    }

    /// The present primary.
    pub fn primary(&self) -> &RedisServer {
        &self.servers[*self.primary.lock().unwrap_or_else(PoisonError::into_inner)]
    }

    /// All servers, in the order of their start.
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// Makes this server the primary; the others that run follow it, the old primary too, when their links are up.
    /// Writes that had not reached it are lost.
    #[track_caller]
    pub fn promote(&self, index: usize) {
        let new_primary = &self.servers[index];
        new_primary.command::<()>(&["REPLICAOF", "NO", "ONE"]);
        *self.primary.lock().unwrap_or_else(PoisonError::into_inner) = index;
        let port = new_primary.port().to_string();
        for follower in self.followers() {
            follower.command::<()>(&["REPLICAOF", "127.0.0.1", &port]);
        }
        self.wait_for_links();
    }

    fn followers(&self) -> impl Iterator<Item = &RedisServer> {
        let primary = self.primary().port();
        self.servers
            .iter()
            .filter(move |server| server.port() != primary && server.is_running())
    }

    #[track_caller]
    fn wait_for_links(&self) {
        let port = self.primary().port();
        for follower in self.followers() {
            wait_until(LINK_TIMEOUT, "the link to the primary is up", || {
                follows(follower, port)
            });
        }
        // The primary counts a replica (for WAIT) some time after the replica calls its link up.
        let followers = self.followers().count();
        wait_until(LINK_TIMEOUT, "the primary counts its replicas", || {
            let info = self.primary().info("replication");
            info.values()
                .filter(|value| value.contains("state=online"))
                .count()
                >= followers
        });
    }
}

const LINK_TIMEOUT: Duration = Duration::from_secs(15);

/// Returns true when the server has a working link to the primary on this port. A sentinel that makes it follow another kills its
/// clients, the one that asks here too.
pub(crate) fn follows(server: &RedisServer, primary_port: u16) -> bool {
    let Ok(info) = server.try_info("replication") else {
        return false;
    };
    let is = |name: &str, value: &str| info.get(name).is_some_and(|found| found == value);
    is("master_link_status", "up") && is("master_port", &primary_port.to_string())
}
