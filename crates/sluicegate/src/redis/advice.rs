//! Advice about server settings that weaken the limits, in sentences that an operator can act on.
//!
//! `facts` asks the servers, `rules` judges the answers.

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

/// A setting of a server that weakens the limits, and how to change it.
///
/// [`RedisStore::advice`] returns one for each such setting. As text it is one sentence with the
/// node, the setting, the consequence and the way out:
///
/// ```
/// use sluicegate::{Advice, Endpoint};
///
/// let advice = Advice {
///     node: Endpoint::new("rl-0", 6379),
///     setting: "timeout",
///     found: "60 s".to_owned(),
///     why: "it closes connections that are idle".to_owned(),
///     change: "CONFIG SET timeout 0".to_owned(),
/// };
/// assert_eq!(
///     advice.to_string(),
///     "rl-0:6379: timeout is 60 s: it closes connections that are idle (CONFIG SET timeout 0)"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The server.
    pub node: Endpoint,
    /// The setting, or another fact such as the version.
    pub setting: &'static str,
    /// Its present value.
    pub found: String,
    /// The consequence for the limits.
    pub why: String,
    /// The way out: a command, where there is one.
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
    /// Checks the settings of every node in use. Returns one [`Advice`] for each that should be
    /// changed, and none when all is well.
    ///
    /// Call it at the start of a program and from its health page, not per request: it opens a
    /// connection of its own to each node, and takes up to twice the connect timeout. Settings that
    /// the user may not read are advice too. It is an error only when no node answers.
    ///
    /// ```no_run
    /// # async fn example(store: &sluicegate::RedisStore) -> Result<(), sluicegate::StoreError> {
    /// for advice in store.advice().await? {
    ///     eprintln!("{advice}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn advice(&self) -> Result<Vec<Advice>, StoreError> {
        let timeout = 2 * Duration::from_nanos(self.options().connect_timeout.get());
        let deadline = Instant::now() + timeout;
        self.start();
        let found = timeout_at(deadline, scout::find_owners(&self.context))
            .await
            .map_err(|_| StoreError::TimedOut)?;
        let map = found.map_err(StoreError::Unavailable)?;
        let mut answers = JoinSet::new();
        for lane in map.lanes() {
            let (node, dialer) = (lane.endpoint.clone(), self.context.dialer.clone());
            answers.spawn(async move {
                let facts = timeout_at(deadline, ServerFacts::ask(&node, &dialer)).await;
                (
                    node,
                    facts.unwrap_or_else(|_| Err(format!("no answer within {timeout:?}"))),
                )
            });
        }
        let mut all = Vec::new();
        let (mut answered, mut silent) = (0, Vec::new());
        while let Some(joined) = answers.join_next().await {
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
