//! Which counters there are: a look through the names in the store, no longer than its bounds allow.

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

/// Which counters somebody wants to see.
#[derive(Clone, Copy, Debug)]
pub struct KeySearch<'a> {
    /// Of this limit only.
    pub limit: Option<&'a str>,
    /// With this anywhere in the text of their keys.
    pub contains: &'a str,
    /// No more than so many.
    pub most: usize,
}

/// What a look through the store found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundKeys {
    /// The texts of keys, in order. That of a key too long for the store ends in a `#` and a digest.
    pub texts: Vec<String>,
    /// How many names were looked at, ours and others'.
    pub looked_at: u64,
    /// Whether those were all; otherwise there may be more keys.
    pub is_all: bool,
}

/// Names that are asked for at a time: Redis is busy with them for a fraction of a millisecond, and others have their turn in between.
const NAMES_AT_ONCE: &str = "500";
/// Names that are looked at, whatever is found.
const LOOKED_AT_MAX: u64 = 100_000;
const LOOK_TIMEOUT: Duration = Duration::from_secs(3);

impl RedisStore {
    /// Looks for counters by their names, over a connection of its own to each node.
    ///
    /// For operators: it looks at 100,000 names or for three seconds at most, says so when there may be more, and never asks for
    /// more names at once than a moment takes. The user needs `+scan` for it and for nothing else. Only [`KeyLayout::Readable`]
    /// has names that tell their keys.
    pub async fn search(&self, wanted: KeySearch<'_>) -> Result<FoundKeys, StoreError> {
        if self.options().key_layout != KeyLayout::Readable {
            return Err(StoreError::Unavailable(
                "only key_layout: readable has names that tell their keys".to_owned(),
            ));
        }
        self.start();
        let deadline = Instant::now() + LOOK_TIMEOUT;
        let map = timeout_at(deadline, scout::search(&self.context))
            .await
            .map_err(|_| StoreError::TimedOut)?;
        let map = map.map_err(StoreError::Unavailable)?;
        let mut look = Look {
            options: self.options(),
            wanted,
            found: BTreeSet::new(),
            looked_at: 0,
        };
        for lane in map.lanes() {
            match timeout_at(deadline, look.through(&lane.endpoint, self)).await {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => return Ok(look.over(false)),
                Ok(Err(why)) => return Err(StoreError::Unavailable(why)),
                Err(_) if look.looked_at > 0 => return Ok(look.over(false)),
                Err(_) => return Err(StoreError::TimedOut),
            }
        }
        Ok(look.over(true))
    }
}

/// A look under way.
struct Look<'a> {
    options: &'a RedisOptions,
    wanted: KeySearch<'a>,
    /// A name may be told twice.
    found: BTreeSet<String>,
    looked_at: u64,
}

impl Look<'_> {
    /// Looks at the names of a node; says whether it came to their end.
    async fn through(&mut self, node: &Endpoint, store: &RedisStore) -> Result<bool, String> {
        let mut link = dial(node, &store.context.dialing)
            .await
            .map_err(|error| error.to_string())?;
        let mut cursor = b"0".to_vec();
        loop {
            let command: [&[u8]; 4] = [b"SCAN", &cursor, b"COUNT", NAMES_AT_ONCE.as_bytes()];
            let reply = probe::ask(&mut link, &command)
                .await
                .map_err(|why| format!("{node}: {why}"))?;
            let (next, names) = page(reply).map_err(|why| format!("{node}: {why}"))?;
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
        // With a mark begin the names of what is no limit's: values, and quotas that came with a request.
        let is_counter = |text: &&str| !text.starts_with('!');
        let is_of_limit =
            |text: &&str| limit.is_none_or(|limit| text.split(':').next() == Some(limit));
        let wanted = texts
            .filter(is_counter)
            .filter(is_of_limit)
            .filter(|text| text.contains(contains));
        self.found.extend(wanted.map(str::to_owned));
    }

    fn over(self, is_at_the_end: bool) -> FoundKeys {
        let is_all = is_at_the_end && self.found.len() <= self.wanted.most;
        let texts = self.found.into_iter().take(self.wanted.most).collect();
        FoundKeys {
            texts,
            looked_at: self.looked_at,
            is_all,
        }
    }
}

/// Where to go on, and the names so far.
fn page(reply: Reply) -> Result<(Vec<u8>, Vec<Vec<u8>>), String> {
    let bulk = |reply: Reply| match reply {
        Reply::Bulk(bytes) => Some(bytes),
        _ => None,
    };
    let strange = || "SCAN was answered strangely".to_owned();
    match reply {
        Reply::Error(error) if error.starts_with("NOPERM") => {
            Err(format!("{error}; the user needs +scan for this"))
        }
        Reply::Error(error) => Err(error),
        Reply::Array(parts) => {
            let [cursor, names]: [Reply; 2] = parts.try_into().map_err(|_| strange())?;
            let (Some(cursor), Reply::Array(names)) = (bulk(cursor), names) else {
                return Err(strange());
            };
            Ok((cursor, names.into_iter().filter_map(bulk).collect()))
        }
        _ => Err(strange()),
    }
}
