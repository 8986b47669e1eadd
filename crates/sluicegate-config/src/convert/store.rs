//! `store`: counters in this process or in Redis.

use sluicegate_core::Nanos;

use super::failure::on_failure;
use super::redis;
use crate::field::{Field, Section};
use crate::typed::{Store, StoreKind};

/// The store. Settings of the kind that is not used are checked too, so that `kind` can come from
/// the environment and a change of it brings no surprise.
pub(super) fn store(field: Option<&Field<'_>>) -> Store {
    let read = field.and_then(|field| {
        field.section(|section| {
            let is_redis = section.optional("kind", is_redis).unwrap_or_default();
            let on_failure = on_failure(section).unwrap_or_default();
            let local = local(section);
            let redis = redis::redis(section, is_redis);
            let kind = match redis {
                Some(redis) if is_redis => StoreKind::Redis(Box::new(redis)),
                _ => local,
            };
            Store { on_failure, kind }
        })
    });
    read.unwrap_or(Store {
        on_failure: Default::default(),
        kind: LOCAL,
    })
}

/// The store without any settings.
const LOCAL: StoreKind = StoreKind::Local {
    max_keys: 1_000_000,
    sweep: Nanos::MINUTE,
};

/// Returns true for `redis`. The other names for the local store are those of programs that
/// Sluicegate replaces.
fn is_redis(field: &Field<'_>) -> Option<bool> {
    match field.any_text()?.trim().to_ascii_lowercase().as_str() {
        "" | "local" | "governor" | "memory" | "in-memory" => Some(false),
        "redis" => Some(true),
        _ => {
            field.note_unknown_word(&["local", "redis"]);
            None
        }
    }
}

/// `local: { max_keys, sweep }`
fn local(section: &mut Section<'_>) -> StoreKind {
    /// About 22 GB of memory: more is a typing error.
    const KEYS_MAX: u64 = 1_000_000_000;
    let read = section.subsection("local").and_then(|field| {
        field.section(|section| StoreKind::Local {
            max_keys: section
                .read("max_keys", 1_000_000, |field| {
                    field.whole_number(1..=KEYS_MAX)
                })
                .try_into()
                .unwrap_or(usize::MAX),
            sweep: section.read("sweep", Nanos::MINUTE, |field| {
                field.duration(Nanos::from_millis(100)..=Nanos::DAY)
            }),
        })
    });
    read.unwrap_or(LOCAL)
}
