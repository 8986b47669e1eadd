//! Sentinels know the primary, and tell when it changes.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::redis::context::StoreContext;
use crate::redis::dial::{Dialer, NodeConnection, dial};
use crate::redis::endpoint::Endpoint;
use crate::redis::options::RedisMode;
use crate::redis::probe;
use crate::redis::router::OwnerMap;
use crate::redis::wire::{self, Reply};

use super::{QUERY_TIMEOUT, text};

/// Asks every sentinel where the primary is, and that node whether it is one. The sentinel that has seen the latest
/// switch is believed first: one that was cut off may still name a primary that was replaced.
pub(super) async fn search(context: &Arc<StoreContext>, master: &str) -> Result<OwnerMap, String> {
    let (mut reports, mut failures) = ask_sentinels(context, master).await;
    reports.sort_by_key(|report| std::cmp::Reverse(report.epoch));
    reports.dedup_by(|later, earlier| later.primary == earlier.primary);
    for SentinelReport { primary, .. } in reports {
        match is_primary(&primary, context).await {
            Ok(true) => return Ok(OwnerMap::Primary(context.lane(primary))),
            Ok(false) => failures.push(format!("{primary} is not a primary")),
            Err(why) => failures.push(why),
        }
    }
    Err(format!("no primary: {}", failures.join("; ")))
}

/// What one sentinel says.
struct SentinelReport {
    /// Grows with each switch.
    epoch: u64,
    primary: Endpoint,
}

/// What the sentinels say. Once one has answered, the others have a moment.
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
            answer.unwrap_or_else(|_| Err(format!("{sentinel} does not answer")))
        });
    }
    let (mut reports, mut failures) = (Vec::new(), Vec::new());
    let mut end = Instant::now() + QUERY_TIMEOUT;
    while let Ok(Some(answer)) = timeout_at(end, asked.join_next()).await {
        match answer {
            Ok(Ok(report)) => {
                reports.push(report);
                end = end.min(Instant::now() + MOMENT);
            }
            Ok(Err(why)) => failures.push(why),
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
    // The address is the new one as soon as a replica was promoted; the epoch is among many other facts.
    let address = probe::query(
        &mut connection,
        &[b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", name],
    )
    .await?;
    let primary = address_in(&address).ok_or_else(unknown)?;
    let facts = probe::query(&mut connection, &[b"SENTINEL", b"MASTER", name]).await?;
    Ok(SentinelReport {
        epoch: epoch_in(&facts).unwrap_or(0),
        primary,
    })
}

/// `[host, port]`, both text.
fn address_in(reply: &Reply) -> Option<Endpoint> {
    let Reply::Array(parts) = reply else {
        return None;
    };
    Some(Endpoint::new(
        text(parts.first()?)?,
        text(parts.get(1)?)?.parse().ok()?,
    ))
}

/// `[name, value, name, value…]`.
fn epoch_in(facts: &Reply) -> Option<u64> {
    let Reply::Array(facts) = facts else {
        return None;
    };
    let epoch = facts
        .chunks_exact(2)
        .find(|fact| text(&fact[0]) == Some("config-epoch"))?;
    text(&epoch[1])?.parse().ok()
}

async fn is_primary(node: &Endpoint, context: &StoreContext) -> Result<bool, String> {
    let asked = timeout(
        QUERY_TIMEOUT,
        probe::query_once(node, &context.dialer, &[b"ROLE"]),
    )
    .await;
    let role = asked.map_err(|_| format!("{node} does not answer"))??;
    Ok(probe::is_primary(&role))
}

/// Listens to one sentinel for as long as the store exists, and wakes the scout when a primary changes.
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
            // It hung up, perhaps because much is changing there.
            context.router.wake_scout();
        }
        sleep(PAUSE).await;
    }
}

async fn listen(
    mut connection: NodeConnection,
    master: &str,
    context: &StoreContext,
) -> Result<(), String> {
    let mut bytes = Vec::new();
    // The sentinel that leads tells of the promotion, the others of the switch, which is later.
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
        // `message`, the channel, and reports of which one is the name.
        let Reply::Array(parts) = probe::read_reply(&mut connection, &mut buffer).await? else {
            continue;
        };
        let message = parts.get(2).and_then(text).unwrap_or_default();
        if message.split_ascii_whitespace().any(|word| word == master) {
            context.router.wake_scout();
        }
    }
}

fn sentinel_dialer(context: &StoreContext) -> &Dialer {
    context.sentinel_dialer.as_ref().unwrap_or(&context.dialer)
}
