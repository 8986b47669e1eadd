//! Claims and checks the base pace of a limit in Redis, see `base_pace`.

use std::sync::Arc;

use sluicegate_core::{Charge, KeyLayout, Nanos, Pace};
use smallvec::SmallVec;

use super::base_pace::BaseLookup;
use super::context::StoreContext;
use super::request::{Operation, RequestError, StoreResponse};
use super::sender::{RequestSender, response};

/// The base pace of each charge; `None` where the quota's own pace is the base.
pub(super) type Bases = SmallVec<[Option<Pace>; 1]>;

/// The time to live of a base pace: longer than a counter of a token bucket lives, and renewed while
/// anybody uses the limit.
const TTL_MS: u64 = 60 * Nanos::DAY.get() / Nanos::MILLISECOND.get();

/// The base paces of charges if all of them are known, as they nearly always are.
pub(super) fn known(context: &Arc<StoreContext>, charges: &[Charge<'_>]) -> Option<Bases> {
    let now = tokio::time::Instant::now();
    let base_of = |charge: &Charge<'_>| {
        if !is_marked(context, charge) {
            return Some(None);
        }
        let limit = charge.key.limit().name.as_str();
        let base = match context.bases.lookup(limit, now) {
            BaseLookup::Unknown => return None,
            BaseLookup::Known(base) => base,
            BaseLookup::CheckDue(base) => {
                check(context, limit, base);
                base
            }
        };
        Some((base != charge.quota.pace()).then_some(base))
    };
    charges.iter().map(base_of).collect()
}

/// Finds out the base paces of charges, and claims those that nobody has claimed.
pub(super) async fn learn(
    context: &Arc<StoreContext>,
    charges: &[Charge<'_>],
    sender: &RequestSender<'_>,
) -> Result<Bases, RequestError> {
    for charge in charges {
        let limit = charge.key.limit().name.as_str();
        let now = tokio::time::Instant::now();
        if is_marked(context, charge) && context.bases.lookup(limit, now) == BaseLookup::Unknown {
            let base = claim(context, limit, charge.quota.pace(), sender).await?;
            context.bases.learn(limit, base, now);
        }
    }
    known(context, charges).ok_or_else(RequestError::mismatched)
}

/// Returns true when values of this charge carry a mark where its pace is not the base. Quotas that
/// come with the request keep a debt as time, and the older layouts share their values with other
/// programs, which know no marks.
pub(super) fn is_marked(context: &StoreContext, charge: &Charge<'_>) -> bool {
    let has_marks = match context.options.key_layout {
        KeyLayout::Readable | KeyLayout::Compact => true,
        KeyLayout::EdgeQuota | KeyLayout::EdgeGuard => false,
    };
    has_marks && !charge.key.limit().is_ad_hoc()
}

/// Name of the key that holds the base pace of a limit. It begins as the keys of counters do, for
/// the permissions of the Redis user, but no counter has an exclamation mark there.
fn name(context: &StoreContext, limit: &str) -> String {
    let prefix = &context.options.key_prefix;
    match context.options.key_layout {
        KeyLayout::Compact => format!("sg!pace:{prefix}:{limit}"),
        KeyLayout::Readable | KeyLayout::EdgeQuota | KeyLayout::EdgeGuard => {
            format!("{prefix}:!pace:{limit}")
        }
    }
}

/// The base pace of a limit: the one in Redis, or `own` if there is none yet.
async fn claim(
    context: &StoreContext,
    limit: &str,
    own: Pace,
    sender: &RequestSender<'_>,
) -> Result<Pace, RequestError> {
    // The key may appear, but does not disappear, between the two steps: two rounds are enough.
    for _ in 0..2 {
        let key = name(context, limit);
        match response(sender.send(Operation::Get { key })).await? {
            StoreResponse::Value(Some(value)) => return read_pace(&name(context, limit), &value),
            StoreResponse::Value(None) => {}
            _ => return Err(RequestError::mismatched()),
        }
        if swap(context, limit, "", own, sender).await? {
            return Ok(own);
        }
    }
    Err(RequestError::Unavailable(format!(
        "{} changes all the time",
        name(context, limit)
    )))
}

/// Renews the time to live of a base pace in the background. A Redis that has lost it gets it again,
/// and one that has another tells it.
fn check(context: &Arc<StoreContext>, limit: &str, base: Pace) {
    let (owned, limit) = (Arc::clone(context), limit.to_owned());
    context.spawn(async move {
        let sender = RequestSender::without_clock(&owned);
        let renewed = swap(&owned, &limit, &base.to_string(), base, &sender).await;
        let checked = match renewed {
            Ok(true) => Ok(base),
            Ok(false) => claim(&owned, &limit, base, &sender).await,
            Err(error) => Err(error),
        };
        // After an error the next check is soon enough: decisions fail by themselves meanwhile.
        if let Ok(base) = checked {
            let now = tokio::time::Instant::now();
            owned.bases.learn(&limit, base, now);
        }
    });
}

/// Stores a base pace if the key still holds `read`. Returns true when it was stored.
async fn swap(
    context: &StoreContext,
    limit: &str,
    read: &str,
    pace: Pace,
    sender: &RequestSender<'_>,
) -> Result<bool, RequestError> {
    let operation = Operation::Swap {
        key: name(context, limit),
        read: read.as_bytes().to_vec(),
        value: pace.to_string().into_bytes(),
        ttl_ms: TTL_MS,
    };
    match response(sender.send(operation)).await? {
        StoreResponse::Swapped(is_stored) => Ok(is_stored),
        _ => Err(RequestError::mismatched()),
    }
}

fn read_pace(key: &str, value: &[u8]) -> Result<Pace, RequestError> {
    let text = String::from_utf8_lossy(value);
    text.parse().map_err(|wrong| {
        RequestError::Unavailable(format!("{key} holds {text:?}, which is {wrong}"))
    })
}
