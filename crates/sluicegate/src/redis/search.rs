//! Finds counters by their names, with `SCAN`, within bounds.
//!
//! It is for operators. Redis is single-threaded, so a scan asks for few names at a time, and gives
//! up after a number of names or seconds instead of delaying decisions.

use std::collections::BTreeSet;
use std::time::Duration;

use sluicegate_core::KeyLayout;
use tokio::time::{Instant, timeout_at};

use super::dial::dial;
use super::endpoint::Endpoint;
use super::options::{RedisMode, RedisOptions};
use super::store::RedisStore;
use super::wire::Reply;
use super::{probe, scout};
use crate::layout::StoredNames;
use crate::store::StoreError;

/// The counters to look for with [`RedisStore::search`].
///
/// ```
/// use sluicegate::KeySearch;
///
/// let search = KeySearch { limit: Some("per-ip"), contains: "203.0.113.", most: 50 };
/// ```
#[derive(Clone, Copy, Debug)]
pub struct KeySearch<'a> {
    /// Only counters of this limit; `None` for all limits.
    pub limit: Option<&'a str>,
    /// Only keys whose text contains this; empty for all keys.
    pub contains: &'a str,
    /// The largest number of keys to return.
    pub most: usize,
}

/// The keys that [`RedisStore::search`] found.
///
/// ```no_run
/// # async fn example(store: &sluicegate::RedisStore) -> Result<(), sluicegate::StoreError> {
/// use sluicegate::KeySearch;
///
/// let found = store.search(KeySearch { limit: Some("per-ip"), contains: "", most: 50 }).await?;
/// for text in &found.texts {
///     println!("{text}");
/// }
/// if !found.is_all {
///     println!("there may be more");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundKeys {
    /// Texts of the keys in alphabetical order, such as `per-ip:203.0.113.7`. The text of a very
    /// long key ends in `#` and a digest.
    pub texts: Vec<String>,
    /// Number of names that were read, those of other programs included.
    pub looked_at: u64,
    /// True when every name was read and every match is in `texts`.
    pub is_all: bool,
}

/// Names per `SCAN`: Redis is busy for a fraction of a millisecond, and serves others in between.
const NAMES_AT_ONCE: &str = "500";
/// Names that are read at most.
const LOOKED_AT_MAX: u64 = 100_000;
/// The longest that a whole search takes.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(3);

impl RedisStore {
    /// Finds counters by their names, over a connection of its own to each node.
    ///
    /// For operators, not for requests. It reads at most 100,000 names for at most three seconds,
    /// in steps that do not delay decisions, and says when there may be more. The Redis user needs
    /// `+scan` for it, which nothing else needs. It works with [`KeyLayout::Readable`] only: other
    /// layouts store digests.
    pub async fn search(&self, wanted: KeySearch<'_>) -> Result<FoundKeys, StoreError> {
        if self.options().key_layout != KeyLayout::Readable {
            return Err(StoreError::Unavailable(
                "keys can be searched only with key_layout: readable".to_owned(),
            ));
        }
        self.start();
        let deadline = Instant::now() + SEARCH_TIMEOUT;
        let map = timeout_at(deadline, scout::find_owners(&self.context))
            .await
            .map_err(|_| StoreError::TimedOut)?;
        let map = map.map_err(StoreError::Unavailable)?;
        let mut scan = KeyScan {
            options: self.options(),
            wanted,
            found: BTreeSet::new(),
            looked_at: 0,
        };
        for lane in map.lanes() {
            match timeout_at(deadline, scan.read_names(&lane.endpoint, self)).await {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => return Ok(scan.finish(false)),
                Ok(Err(reason)) => return Err(StoreError::Unavailable(reason)),
                Err(_) if scan.looked_at > 0 => return Ok(scan.finish(false)),
                Err(_) => return Err(StoreError::TimedOut),
            }
        }
        Ok(scan.finish(true))
    }
}

/// A search in progress.
struct KeyScan<'a> {
    options: &'a RedisOptions,
    wanted: KeySearch<'a>,
    /// Matches so far; a set, because `SCAN` may return a name twice.
    found: BTreeSet<String>,
    looked_at: u64,
}

impl KeyScan<'_> {
    /// Reads the names of one node. Returns true when it has read all of them.
    async fn read_names(&mut self, node: &Endpoint, store: &RedisStore) -> Result<bool, String> {
        let mut connection = dial(node, &store.context.dialer)
            .await
            .map_err(|error| error.to_string())?;
        let mut cursor = b"0".to_vec();
        loop {
            let command: [&[u8]; 4] = [b"SCAN", &cursor, b"COUNT", NAMES_AT_ONCE.as_bytes()];
            let reply = probe::query(&mut connection, &command)
                .await
                .map_err(|reason| format!("{node}: {reason}"))?;
            let (next, names) = page(reply).map_err(|reason| format!("{node}: {reason}"))?;
            self.looked_at += names.len() as u64;
            self.keep(&names);
            if next == b"0" {
                return Ok(true);
            }
            if self.found.len() > self.wanted.most || self.looked_at >= LOOKED_AT_MAX {
                return Ok(false);
            }
            cursor = next;
        }
    }

    /// Adds the names that match.
    fn keep(&mut self, names: &[Vec<u8>]) {
        let KeySearch {
            limit, contains, ..
        } = self.wanted;
        let is_tagged = matches!(self.options.mode, RedisMode::Cluster);
        let texts = names
            .iter()
            .filter_map(|name| std::str::from_utf8(name).ok())
            .filter_map(|name| {
                self.options
                    .key_layout
                    .text_of(&self.options.key_prefix, is_tagged, name)
            });
        // Names that begin with `!` belong to no limit: values, and quotas that came with a
        // request.
        let is_counter = |text: &&str| !text.starts_with('!');
        let is_of_limit =
            |text: &&str| limit.is_none_or(|limit| text.split(':').next() == Some(limit));
        let wanted = texts
            .filter(is_counter)
            .filter(is_of_limit)
            .filter(|text| text.contains(contains));
        self.found.extend(wanted.map(str::to_owned));
    }

    fn finish(self, is_at_the_end: bool) -> FoundKeys {
        let is_all = is_at_the_end && self.found.len() <= self.wanted.most;
        let texts = self.found.into_iter().take(self.wanted.most).collect();
        FoundKeys {
            texts,
            looked_at: self.looked_at,
            is_all,
        }
    }
}

/// Splits a reply of `SCAN` into the next cursor and the names.
fn page(reply: Reply) -> Result<(Vec<u8>, Vec<Vec<u8>>), String> {
    let bulk = |reply: Reply| match reply {
        Reply::Bulk(bytes) => Some(bytes),
        _ => None,
    };
    let unexpected = || "unexpected reply type to SCAN".to_owned();
    match reply {
        Reply::Error(error) if error.starts_with("NOPERM") => {
            Err(format!("{error}; the user needs +scan for this"))
        }
        Reply::Error(error) => Err(error),
        Reply::Array(parts) => {
            let [cursor, names]: [Reply; 2] = parts.try_into().map_err(|_| unexpected())?;
            let (Some(cursor), Reply::Array(names)) = (bulk(cursor), names) else {
                return Err(unexpected());
            };
            Ok((cursor, names.into_iter().filter_map(bulk).collect()))
        }
        _ => Err(unexpected()),
    }
}
