//! Sentinels know the primary, and tell when it changes.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::redis::context::Context;
use crate::redis::dial::{Dialing, Link, dial};
use crate::redis::endpoint::Endpoint;
use crate::redis::options::RedisMode;
use crate::redis::probe;
use crate::redis::router::Map;
use crate::redis::wire::{self, Reply};

use super::{PATIENCE, Poll, text};

/// Asks the sentinels where the primary is, and that node whether it is one.
pub(super) async fn search(context: &Arc<Context>, master: &str) -> Result<Map, String> {
    let command: [&[u8]; 3] = [b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", master.as_bytes()];
    let mut poll = Poll::new(context.options.endpoints.clone(), sentinels(context), &command);
    let mut refused: Vec<Endpoint> = Vec::new();
    let mut wrong = Vec::new();
    while let Some((sentinel, answer)) = poll.next().await {
        let primary = match answer.map(|reply| address(&reply)) {
            Ok(Some(primary)) => primary,
            Ok(None) => {
                wrong.push(format!("{sentinel} knows no primary named {master:?}"));
                continue;
            }
            Err(why) => {
                wrong.push(why);
                continue;
            }
        };
        if refused.contains(&primary) {
            continue;
        }
        match is_primary(&primary, context).await {
            Ok(true) => return Ok(Map::Primary(context.lane(primary))),
            Ok(false) => wrong.push(format!("{primary} is not a primary")),
            Err(why) => wrong.push(why),
        }
        refused.push(primary);
    }
    Err(format!("no primary: {}", wrong.join("; ")))
}

async fn is_primary(node: &Endpoint, context: &Context) -> Result<bool, String> {
    let asked = timeout(PATIENCE, probe::ask_once(node, &context.dialing, &[b"ROLE"])).await;
    let role = asked.map_err(|_| format!("{node} does not answer"))??;
    Ok(probe::is_primary(&role))
}

/// `[host, port]`, both text.
fn address(reply: &Reply) -> Option<Endpoint> {
    let Reply::Array(parts) = reply else { return None };
    Some(Endpoint::new(text(parts.first()?)?, text(parts.get(1)?)?.parse().ok()?))
}

/// Listens to one sentinel after the other, and wakes the scout when any primary changes.
pub(super) async fn watch(context: Arc<Context>) {
    const PAUSE: Duration = Duration::from_millis(500);
    let RedisMode::Sentinel { master, .. } = &context.options.mode else { return };
    for sentinel in context.options.endpoints.iter().cycle() {
        if let Ok(Ok(link)) = timeout(PATIENCE, dial(sentinel, sentinels(&context))).await {
            let _ = listen(link, master, &context).await;
            // It hung up, perhaps because much is changing there.
            context.router.wake_scout();
        }
        sleep(PAUSE).await;
    }
}

async fn listen(mut link: Link, master: &str, context: &Context) -> Result<(), String> {
    use tokio::io::AsyncWriteExt;
    let mut bytes = Vec::new();
    wire::write_command(&mut bytes, &[b"SUBSCRIBE", b"+switch-master"]);
    link.write_all(&bytes).await.map_err(|error| error.to_string())?;
    link.flush().await.map_err(|error| error.to_string())?;
    let mut buffer = Vec::new();
    loop {
        // `message`, the channel, and `<name> <old host> <old port> <new host> <new port>`.
        let Reply::Array(parts) = probe::read(&mut link, &mut buffer).await? else { continue };
        let told = parts.get(2).and_then(text).unwrap_or_default();
        if told.split_ascii_whitespace().next() == Some(master) {
            context.router.wake_scout();
        }
    }
}

fn sentinels(context: &Context) -> &Dialing {
    context.sentinel_dialing.as_ref().unwrap_or(&context.dialing)
}
