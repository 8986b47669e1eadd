//! Decisions as they are made, for those who watch. Without anybody who watches it costs one look at a number.

use std::cell::LazyCell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use arc_swap::ArcSwap;
use serde_json::json;
use sluicegate_core::{Charge, Nanos, Outcome};
use tokio::sync::mpsc;

use crate::telemetry::rfc3339;

/// Everybody who watches.
#[derive(Default)]
pub struct DecisionStream {
    /// Looked at by every decision.
    watching: AtomicUsize,
    watchers: ArcSwap<Vec<Arc<Watcher>>>,
    /// Held by whoever changes them.
    changing: Mutex<()>,
    dropped: AtomicU64,
}

/// One who watches, and what for.
struct Watcher {
    filter: DecisionFilter,
    events: mpsc::Sender<String>,
    /// Decisions that may still be told in this part of a second.
    allowance: AtomicU64,
    /// Decisions of this interest since the last one that was told.
    untold: AtomicU64,
}

/// Which decisions somebody wants to see.
#[derive(Clone, Debug, Default)]
pub struct DecisionFilter {
    /// The name of a limit; `None` is every limit.
    pub limit: Option<String>,
    /// An outcome as events name it (see [`OUTCOMES`]); `None` is every outcome.
    pub outcome: Option<String>,
    /// Anywhere in the key.
    pub key: Option<String>,
}

impl DecisionFilter {
    /// Whether a decision of this limit with this outcome may be one of them, whoever it was about.
    fn meets(&self, limit: &str, outcome: &str) -> bool {
        self.limit.as_ref().is_none_or(|wanted| wanted == limit)
            && self.outcome.as_ref().is_none_or(|wanted| wanted == outcome)
    }
}

/// The outcomes of events: those of decisions, and the ban of a caller by a limit.
pub const OUTCOMES: [&str; 4] = ["allowed", "denied", "shadow_denied", "banned"];
/// Watchers at a time.
const WATCHERS_MAX: usize = 8;
/// Decisions that a watcher is told in a second.
const PER_SECOND: u64 = 50;
/// How often in a second the allowance comes again.
pub const REFILLS_PER_SECOND: u64 = 5;
const WAITING_MAX: usize = 256;

impl DecisionStream {
    /// Events of this interest from now on; `None` when too many watch already. Dropping the receiver ends it.
    pub fn watch(&self, filter: DecisionFilter) -> Option<mpsc::Receiver<String>> {
        let _one_at_a_time = self.changing.lock().expect("no holder of this lock panics");
        let mut watchers = self.present();
        if watchers.len() >= WATCHERS_MAX {
            return None;
        }
        let (events, receiver) = mpsc::channel(WAITING_MAX);
        let allowance = AtomicU64::new(PER_SECOND / REFILLS_PER_SECOND);
        watchers.push(Arc::new(Watcher {
            filter,
            events,
            allowance,
            untold: AtomicU64::new(0),
        }));
        self.put(watchers);
        Some(receiver)
    }

    /// Those who have not gone.
    fn present(&self) -> Vec<Arc<Watcher>> {
        self.watchers
            .load()
            .iter()
            .filter(|watcher| !watcher.events.is_closed())
            .cloned()
            .collect()
    }

    fn put(&self, watchers: Vec<Arc<Watcher>>) {
        let watching = watchers.len();
        self.watchers.store(Arc::new(watchers));
        self.watching.store(watching, Ordering::Relaxed);
    }

    /// How many watch.
    pub fn watching(&self) -> usize {
        self.watching.load(Ordering::Relaxed)
    }

    /// Events that nobody took in time.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Begins the next part of a second.
    pub fn refill(&self) {
        if self.watching() == 0 {
            return;
        }
        let _one_at_a_time = self.changing.lock().expect("no holder of this lock panics");
        let watchers = self.present();
        watchers.iter().for_each(|watcher| {
            watcher
                .allowance
                .store(PER_SECOND / REFILLS_PER_SECOND, Ordering::Relaxed)
        });
        if watchers.len() < self.watching() {
            self.put(watchers);
        }
    }

    /// A charge was decided.
    #[inline]
    pub fn record(&self, charge: &Charge<'_>, outcome: &Outcome) {
        if self.watching() > 0 {
            self.tell(charge, outcome);
        }
    }

    /// A limit banned a caller, who is told as `about`.
    pub fn record_ban(&self, limit: &str, about: &str, lasts: Nanos) {
        if self.watching() > 0 {
            let event = DecisionEvent {
                limit,
                outcome: "banned",
                remaining: 0,
                retry_after: Some(lasts),
            };
            self.tell_watchers(&event, || about.to_owned());
        }
    }

    #[cold]
    fn tell(&self, charge: &Charge<'_>, outcome: &Outcome) {
        let word = match (outcome.is_allowed(), charge.enforced) {
            (true, _) => "allowed",
            (false, true) => "denied",
            (false, false) => "shadow_denied",
        };
        let event = DecisionEvent {
            limit: &charge.key.limit().name,
            outcome: word,
            remaining: outcome.remaining(),
            retry_after: outcome.retry_after(),
        };
        self.tell_watchers(&event, || charge.key.to_string());
    }

    /// Tells an event to those who watch for it. `key` is made when somebody needs it: nearly all
    /// decisions of a flood are counted and not told.
    fn tell_watchers(&self, event: &DecisionEvent<'_>, key: impl FnOnce() -> String) {
        let text = LazyCell::new(key);
        for watcher in self.watchers.load().iter() {
            let Watcher { filter, .. } = &**watcher;
            let is_key = |wanted: &String| text.contains(wanted.as_str());
            if !filter.meets(event.limit, event.outcome) || !filter.key.as_ref().is_none_or(is_key)
            {
                continue;
            }
            let stands_for = watcher.untold.fetch_add(1, Ordering::Relaxed) + 1;
            let take = |left: u64| left.checked_sub(1);
            if watcher
                .allowance
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
                .is_err()
            {
                continue;
            }
            watcher.untold.store(0, Ordering::Relaxed);
            let event = json!({
                "at": rfc3339(SystemTime::now()), "limit": event.limit, "key": text.as_str(), "outcome": event.outcome,
                "remaining": event.remaining, "retry_after_us": event.retry_after.map(|wait| wait.as_micros_ceil()),
                "stands_for": stands_for,
            });
            if watcher.events.try_send(event.to_string()).is_err() {
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Something to tell, but for the key.
struct DecisionEvent<'a> {
    limit: &'a str,
    outcome: &'static str,
    remaining: u64,
    retry_after: Option<Nanos>,
}

#[cfg(test)]
mod tests {
    use sluicegate_core::{Draw, Key, Limit, Quota};

    use super::*;

    fn record(stream: &DecisionStream, limit: &Limit, address: &str, outcome: Outcome) {
        let key = Key::of_parts(limit, &[]).ok();
        assert!(key.is_none(), "an address is needed");
        let parts = [address];
        let key = Key::of_parts(limit, &parts).unwrap();
        let quota = limit.quota.unwrap();
        stream.record(
            &Charge {
                key,
                quota,
                cost: 1,
                draw: Draw::Take,
                limit_index: 0,
                enforced: true,
                on_failure: None,
            },
            &outcome,
        );
    }

    const ALLOWED: Outcome = Outcome::Allowed {
        remaining: 3,
        reset_after: Nanos::SECOND,
    };
    const DENIED: Outcome = Outcome::Denied {
        remaining: 0,
        retry_after: Nanos::SECOND,
        reset_after: Nanos::SECOND,
    };

    fn told(receiver: &mut mpsc::Receiver<String>) -> Vec<serde_json::Value> {
        std::iter::from_fn(|| receiver.try_recv().ok())
            .map(|text| serde_json::from_str(&text).unwrap())
            .collect()
    }

    #[test]
    fn a_flood_is_told_in_samples_that_say_how_many_they_stand_for() {
        let (stream, limit) = (
            DecisionStream::default(),
            Limit::per_client("a", Quota::per_second(1)),
        );
        let mut events = stream.watch(DecisionFilter::default()).unwrap();
        for _ in 0..1_000 {
            record(&stream, &limit, "203.0.113.7", DENIED);
        }
        assert_eq!(
            told(&mut events).len() as u64,
            PER_SECOND / REFILLS_PER_SECOND
        );
        stream.refill();
        record(&stream, &limit, "203.0.113.7", ALLOWED);
        let told = told(&mut events);
        assert_eq!(told.len(), 1);
        assert_eq!(
            told[0]["stands_for"],
            1_000 - PER_SECOND / REFILLS_PER_SECOND + 1
        );
        assert_eq!(
            (&told[0]["key"], &told[0]["outcome"]),
            (&json!("a:203.0.113.7"), &json!("allowed"))
        );
    }

    #[test]
    fn who_watches_for_something_rare_sees_it_beside_a_flood() {
        let (stream, a, b) = (
            DecisionStream::default(),
            Limit::per_client("a", Quota::per_second(1)),
            Limit::per_client("b", Quota::per_second(1)),
        );
        let of = |limit: Option<&str>, outcome: Option<&str>, key: Option<&str>| DecisionFilter {
            limit: limit.map(Into::into),
            outcome: outcome.map(Into::into),
            key: key.map(Into::into),
        };
        let mut by_limit = stream.watch(of(Some("b"), None, None)).unwrap();
        let mut by_outcome = stream.watch(of(None, Some("denied"), None)).unwrap();
        let mut by_key = stream.watch(of(None, None, Some("113.9"))).unwrap();
        (0..500).for_each(|_| record(&stream, &a, "203.0.113.7", ALLOWED));
        record(&stream, &b, "203.0.113.9", DENIED);
        for events in [&mut by_limit, &mut by_outcome, &mut by_key] {
            let told = told(events);
            assert_eq!((told.len(), &told[0]["stands_for"]), (1, &json!(1)));
        }
    }

    #[test]
    fn a_ban_is_told_to_those_who_watch_for_it() {
        let stream = DecisionStream::default();
        stream.record_ban("a", "nobody watches", Nanos::SECOND);
        let of = |outcome: &str| DecisionFilter {
            outcome: Some(outcome.into()),
            ..DecisionFilter::default()
        };
        let mut bans = stream.watch(of("banned")).unwrap();
        let mut denials = stream.watch(of("denied")).unwrap();
        stream.record_ban("a", "client_ip 203.0.113.7/32", Nanos::MINUTE);
        let told = told(&mut bans);
        assert_eq!(told.len(), 1);
        for (key, value) in [
            ("limit", json!("a")),
            ("key", json!("client_ip 203.0.113.7/32")),
            ("outcome", json!("banned")),
            ("retry_after_us", json!(60_000_000)),
        ] {
            assert_eq!(told[0][key], value);
        }
        assert!(denials.try_recv().is_err());
        assert!(OUTCOMES.contains(&told[0]["outcome"].as_str().unwrap()));
    }

    #[test]
    fn there_is_an_end_to_how_many_watch_and_who_has_gone_makes_room() {
        let stream = DecisionStream::default();
        let watching: Vec<_> = (0..WATCHERS_MAX)
            .map(|_| stream.watch(DecisionFilter::default()).unwrap())
            .collect();
        assert!(stream.watch(DecisionFilter::default()).is_none());
        drop(watching);
        assert!(stream.watch(DecisionFilter::default()).is_some());
        stream.refill();
        assert_eq!(stream.watching(), 0, "the last one has gone too");
    }
}
