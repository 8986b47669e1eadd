//! Finds the primary through Redis Sentinel.
//!
//! Sentinels elect a primary and publish every switch. `search` asks them, and `watch` subscribes
//! to each, so that a switch wakes the scout at once instead of at its next look.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::redis::context::StoreContext;
use crate::redis::dial::{Dialer, NodeConnection, dial};
use crate::redis::endpoint::Endpoint;
use crate::redis::health;
use crate::redis::options::RedisMode;
use crate::redis::primary_trust::SentinelReport;
use crate::redis::probe;
use crate::redis::router::OwnerMap;
use crate::redis::wire::{self, Reply};

use super::{QUERY_TIMEOUT, text};

/// Asks every sentinel for the primary, and then the node that is to be believed for its role.
///
/// A sentinel that was cut off may still name a primary that was replaced, and that server may still
/// take itself for one. So [`PrimaryTrust`](crate::redis::primary_trust::PrimaryTrust) rules which
/// one may be used; while it does not answer, no other does.
pub(super) async fn search(context: &Arc<StoreContext>, master: &str) -> Result<OwnerMap, String> {
    let (reports, mut failures) = ask_sentinels(context, master).await;
    let ruling = context.primary_trust().judge(&reports, Instant::now());
    context.note_stale_reports(ruling.stale_reports);
    ruling.news.iter().for_each(health::log_trust);
    match ruling.primary {
        Err(reason) => failures.insert(0, reason),
        Ok(ruled) => match is_primary(&ruled.primary, context).await {
            Ok(true) => {
                context.primary_trust().confirmed(&ruled, &reports);
                return Ok(OwnerMap::Primary(context.lane(ruled.primary)));
            }
            Ok(false) => failures.push(format!("{} is not a primary", ruled.primary)),
            Err(reason) => failures.push(reason),
        },
    }
    Err(format!("no primary: {}", failures.join("; ")))
}

/// Asks all sentinels at once. After the reports of a majority the others have a moment more, so that
/// a sentinel that hangs does not delay the search, and the quickest one is not believed blindly.
async fn ask_sentinels(
    context: &Arc<StoreContext>,
    master: &str,
) -> (Vec<SentinelReport>, Vec<String>) {
    const MOMENT: Duration = Duration::from_millis(100);
    let mut asked = JoinSet::new();
    for sentinel in context.options.endpoints.clone() {
        let (context, master) = (Arc::clone(context), master.to_owned());
        asked.spawn(async move {
            let answer = timeout(QUERY_TIMEOUT, ask_sentinel(&sentinel, &context, &master)).await;
            answer.unwrap_or_else(|_| {
                Err(format!(
                    "{sentinel} does not answer within {QUERY_TIMEOUT:?}"
                ))
            })
        });
    }
    let majority = context.primary_trust().majority();
    let (mut reports, mut failures) = (Vec::new(), Vec::new());
    let mut end = Instant::now() + QUERY_TIMEOUT;
    while let Ok(Some(answer)) = timeout_at(end, asked.join_next()).await {
        match answer {
            Ok(Ok(report)) => {
                reports.push(report);
                if reports.len() >= majority {
                    end = end.min(Instant::now() + MOMENT);
                }
            }
            Ok(Err(reason)) => failures.push(reason),
            Err(_) => {}
        }
    }
    (reports, failures)
}

async fn ask_sentinel(
    sentinel: &Endpoint,
    context: &StoreContext,
    master: &str,
) -> Result<SentinelReport, String> {
    let mut connection = dial(sentinel, sentinel_dialer(context))
        .await
        .map_err(|error| error.to_string())?;
    let name = master.as_bytes();
    let unknown = || format!("{sentinel} knows no primary named {master:?}");
    // Two questions: the second names the new primary as soon as a replica was promoted, which the
    // address in the first does not; only the first has the epoch. In one write, so that no
    // failover comes between them; if one did, the epoch would be too low and not too high.
    let questions: [&[&[u8]]; 2] = [
        &[b"SENTINEL", b"MASTER", name],
        &[b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", name],
    ];
    let [facts, address] = probe::query_all(&mut connection, questions).await?;
    let primary = address_in(&address).ok_or_else(unknown)?;
    Ok(SentinelReport {
        epoch: epoch_in(&facts).unwrap_or(0),
        primary,
    })
}

/// Reads `[host, port]`, both text.
pub(super) fn address_in(reply: &Reply) -> Option<Endpoint> {
    let Reply::Array(parts) = reply else {
        return None;
    };
    Some(Endpoint::new(
        text(parts.first()?)?,
        text(parts.get(1)?)?.parse().ok()?,
    ))
}

/// Finds the epoch in `[name, value, name, value…]`.
pub(super) fn epoch_in(facts: &Reply) -> Option<u64> {
    let Reply::Array(facts) = facts else {
        return None;
    };
    let epoch = facts
        .chunks_exact(2)
        .find(|fact| text(&fact[0]) == Some("config-epoch"))?;
    text(&epoch[1])?.parse().ok()
}

/// Returns true when a node says that it is a primary.
async fn is_primary(node: &Endpoint, context: &StoreContext) -> Result<bool, String> {
    let asked = timeout(
        QUERY_TIMEOUT,
        probe::query_once(node, &context.dialer, &[b"ROLE"]),
    )
    .await;
    let role = asked.map_err(|_| format!("{node} does not answer within {QUERY_TIMEOUT:?}"))??;
    Ok(probe::is_primary(&role))
}

/// Listens to one sentinel for as long as the store exists, and wakes the scout when the primary
/// changes. Errors need no report: the scout asks now and then in any case.
pub(super) async fn watch(context: Arc<StoreContext>, sentinel: Endpoint) {
    const PAUSE: Duration = Duration::from_millis(500);
    let RedisMode::Sentinel { master, .. } = &context.options.mode else {
        return;
    };
    loop {
        if let Ok(Ok(connection)) =
            timeout(QUERY_TIMEOUT, dial(&sentinel, sentinel_dialer(&context))).await
        {
            let _ = listen(connection, master, &context).await;
            // A sentinel that closes its connections may do so because of a failover.
            context.router.wake_scout();
        }
        sleep(PAUSE).await;
    }
}

/// Subscribes and reads messages until the connection ends.
async fn listen(
    mut connection: NodeConnection,
    master: &str,
    context: &StoreContext,
) -> Result<(), String> {
    let mut bytes = Vec::new();
    // The sentinel that leads a failover publishes the promotion. The others publish the switch,
    // which comes later.
    wire::write_command(
        &mut bytes,
        &[b"SUBSCRIBE", b"+switch-master", b"+promoted-slave"],
    );
    connection
        .write_all(&bytes)
        .await
        .map_err(|error| error.to_string())?;
    connection
        .flush()
        .await
        .map_err(|error| error.to_string())?;
    let mut buffer = Vec::new();
    loop {
        // [message, channel, text]; one word of the text is the name of the primary.
        let Reply::Array(parts) = probe::read_reply(&mut connection, &mut buffer).await? else {
            continue;
        };
        let message = parts.get(2).and_then(text).unwrap_or_default();
        if message.split_ascii_whitespace().any(|word| word == master) {
            context.router.wake_scout();
        }
    }
}

/// Sentinels have credentials of their own.
fn sentinel_dialer(context: &StoreContext) -> &Dialer {
    context.sentinel_dialer.as_ref().unwrap_or(&context.dialer)
}
