//! What about the servers would weaken the promises, in words an operator can act on.

mod facts;
mod rules;

use std::fmt;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use self::facts::ServerFacts;
use super::endpoint::Endpoint;
use super::scout;
use super::store::RedisStore;
use crate::store::StoreError;

/// Something about a server that makes Sluicegate promise less than it could, and how to change it.
///
/// As text it is one sentence:
///
/// ```text
/// rl-0:6379: maxmemory-policy is allkeys-lru: … (CONFIG SET maxmemory-policy noeviction)
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The server.
    pub node: Endpoint,
    /// The setting, or what else is looked at.
    pub setting: &'static str,
    /// What it is now.
    pub found: String,
    /// What that means for the limits.
    pub why: String,
    /// What to do about it: a command, where there is one.
    pub change: String,
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            node,
            setting,
            found,
            why,
            change,
        } = self;
        write!(f, "{node}: {setting} is {found}: {why} ({change})")
    }
}

impl RedisStore {
    /// Asks every node in use how it is set up, and says what should be changed; nothing when all is well.
    ///
    /// For the start of a program and for its health page: it opens a connection of its own to each node, and takes twice
    /// the connect timeout at most. What the user may not see is told as advice too. It is an error only when no node
    /// answers.
    pub async fn advice(&self) -> Result<Vec<Advice>, StoreError> {
        let patience = 2 * Duration::from_nanos(self.options().connect_timeout.get());
        let deadline = Instant::now() + patience;
        self.start();
        let found = timeout_at(deadline, scout::find_owners(&self.context))
            .await
            .map_err(|_| StoreError::TimedOut)?;
        let map = found.map_err(StoreError::Unavailable)?;
        let mut asked = JoinSet::new();
        for lane in map.lanes() {
            let (node, dialer) = (lane.endpoint.clone(), self.context.dialer.clone());
            asked.spawn(async move {
                let facts = timeout_at(deadline, ServerFacts::ask(&node, &dialer)).await;
                (
                    node,
                    facts.unwrap_or_else(|_| Err(format!("no answer within {patience:?}"))),
                )
            });
        }
        let mut all = Vec::new();
        let (mut answered, mut silent) = (0, Vec::new());
        while let Some(joined) = asked.join_next().await {
            match joined {
                Ok((node, Ok(facts))) => {
                    answered += 1;
                    all.extend(rules::advice(&node, &facts, &self.options().mode));
                }
                Ok((node, Err(why))) => silent.push((node, why)),
                Err(_) => {}
            }
        }
        if answered == 0 {
            let why = silent
                .into_iter()
                .map(|(_, why)| why)
                .collect::<Vec<_>>()
                .join("; ");
            return Err(StoreError::Unavailable(why));
        }
        all.extend(
            silent
                .into_iter()
                .map(|(node, why)| rules::silent(node, why)),
        );
        all.sort_by(|one, other| {
            (one.node.to_string(), one.setting).cmp(&(other.node.to_string(), other.setting))
        });
        Ok(all)
    }
}
