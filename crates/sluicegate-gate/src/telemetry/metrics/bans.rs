//! Automatic bans by limit, with a bounded number of series.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use sluicegate_core::Policy;

use super::labels::{BanDrop, LabelCounters};
use super::shards::Counter;

/// The series of every limit that ever banned, up to [`LIMITS_MAX`]. Counted off the path of
/// requests, so a lock is no loss.
pub(super) struct BanSeries {
    family: Family<[(&'static str, Cow<'static, str>); 1], Counter>,
    known: Mutex<HashSet<Box<str>>>,
    pub(super) dropped: LabelCounters<BanDrop>,
}

/// The most limits with a series of their own.
const LIMITS_MAX: usize = 10_000;
/// The name that the others share; no limit can have it, because of the parentheses.
const OTHER: &str = "(other)";

impl BanSeries {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let family = Family::default();
        let help = "Bans that limits gave on this replica";
        registry.register("sluicegate_automatic_bans", help, family.clone());
        let help = "Automatic bans that are not in force, by the reason";
        Self {
            family,
            known: Mutex::default(),
            dropped: LabelCounters::new("sluicegate_automatic_bans_dropped", help, registry),
        }
    }

    /// Makes the series of the limits of a policy that ban.
    pub(super) fn prepare(&self, policy: &Policy) {
        let limits = policy.limits().iter();
        for limit in limits.filter(|limit| limit.ban.is_some()) {
            self.counter(&limit.name);
        }
    }

    /// The counter of a limit.
    pub(super) fn counter(&self, limit: &str) -> Counter {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = known.contains(limit) || known.len() < LIMITS_MAX;
        let name = if has_room { limit } else { OTHER };
        if has_room {
            known.insert(limit.into());
        }
        self.family
            .get_or_create_owned(&[("limit", name.to_owned().into())])
    }
}

impl fmt::Debug for BanSeries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BanSeries")
    }
}
