//! Sentinels know the primary, and tell when it changes.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::redis::context::Context;
use crate::redis::dial::{Dialing, Link, dial};
use crate::redis::endpoint::Endpoint;
use crate::redis::options::RedisMode;
use crate::redis::probe;
use crate::redis::router::Map;
use crate::redis::wire::{self, Reply};

use super::{PATIENCE, text};

/// Asks every sentinel where the primary is, and that node whether it is one. The sentinel that has seen the latest
/// switch is believed first: one that was cut off may still name a primary that was replaced.
pub(super) async fn search(context: &Arc<Context>, master: &str) -> Result<Map, String> {
    let (mut words, mut wrong) = hear(context, master).await;
    words.sort_by_key(|word| std::cmp::Reverse(word.epoch));
    words.dedup_by(|later, earlier| later.primary == earlier.primary);
    for Word { primary, .. } in words {
        match is_primary(&primary, context).await {
            Ok(true) => return Ok(Map::Primary(context.lane(primary))),
            Ok(false) => wrong.push(format!("{primary} is not a primary")),
            Err(why) => wrong.push(why),
        }
    }
    Err(format!("no primary: {}", wrong.join("; ")))
}

/// What one sentinel says.
struct Word {
    /// Grows with each switch.
    epoch: u64,
    primary: Endpoint,
}

/// What the sentinels say. Once one has answered, the others have a moment.
async fn hear(context: &Arc<Context>, master: &str) -> (Vec<Word>, Vec<String>) {
    const MOMENT: Duration = Duration::from_millis(100);
    let mut asked = JoinSet::new();
    for sentinel in context.options.endpoints.clone() {
        let (context, master) = (Arc::clone(context), master.to_owned());
        asked.spawn(async move {
            let answer = timeout(PATIENCE, ask(&sentinel, &context, &master)).await;
            answer.unwrap_or_else(|_| Err(format!("{sentinel} does not answer")))
        });
    }
    let (mut words, mut wrong) = (Vec::new(), Vec::new());
    let mut end = Instant::now() + PATIENCE;
    while let Ok(Some(answer)) = timeout_at(end, asked.join_next()).await {
        match answer {
            Ok(Ok(word)) => {
                words.push(word);
                end = end.min(Instant::now() + MOMENT);
            }
            Ok(Err(why)) => wrong.push(why),
            Err(_) => {}
        }
    }
    (words, wrong)
}

async fn ask(sentinel: &Endpoint, context: &Context, master: &str) -> Result<Word, String> {
    let mut link = dial(sentinel, sentinels(context))
        .await
        .map_err(|error| error.to_string())?;
    let name = master.as_bytes();
    let unknown = || format!("{sentinel} knows no primary named {master:?}");
    // The address is the new one as soon as a replica was promoted; the epoch is among many other facts.
    let address = probe::ask(&mut link, &[b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", name]).await?;
    let primary = address_in(&address).ok_or_else(unknown)?;
    let facts = probe::ask(&mut link, &[b"SENTINEL", b"MASTER", name]).await?;
    Ok(Word {
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

async fn is_primary(node: &Endpoint, context: &Context) -> Result<bool, String> {
    let asked = timeout(
        PATIENCE,
        probe::ask_once(node, &context.dialing, &[b"ROLE"]),
    )
    .await;
    let role = asked.map_err(|_| format!("{node} does not answer"))??;
    Ok(probe::is_primary(&role))
}

/// Listens to one sentinel for as long as the store exists, and wakes the scout when a primary changes.
pub(super) async fn watch(context: Arc<Context>, sentinel: Endpoint) {
    const PAUSE: Duration = Duration::from_millis(500);
    let RedisMode::Sentinel { master, .. } = &context.options.mode else {
        return;
    };
    loop {
        if let Ok(Ok(link)) = timeout(PATIENCE, dial(&sentinel, sentinels(&context))).await {
            let _ = listen(link, master, &context).await;
            // It hung up, perhaps because much is changing there.
            context.router.wake_scout();
        }
        sleep(PAUSE).await;
    }
}

async fn listen(mut link: Link, master: &str, context: &Context) -> Result<(), String> {
    let mut bytes = Vec::new();
    // The sentinel that leads tells of the promotion, the others of the switch, which is later.
    wire::write_command(
        &mut bytes,
        &[b"SUBSCRIBE", b"+switch-master", b"+promoted-slave"],
    );
    link.write_all(&bytes)
        .await
        .map_err(|error| error.to_string())?;
    link.flush().await.map_err(|error| error.to_string())?;
    let mut buffer = Vec::new();
    loop {
        // `message`, the channel, and words of which one is the name.
        let Reply::Array(parts) = probe::read(&mut link, &mut buffer).await? else {
            continue;
        };
        let told = parts.get(2).and_then(text).unwrap_or_default();
        if told.split_ascii_whitespace().any(|word| word == master) {
            context.router.wake_scout();
        }
    }
}

fn sentinels(context: &Context) -> &Dialing {
    context
        .sentinel_dialing
        .as_ref()
        .unwrap_or(&context.dialing)
}
