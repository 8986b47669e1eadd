//! Single questions to a node over a connection of their own, and the check of a new connection.
//!
//! Drivers call `connect`; the scout, `advice` and `search` ask through `query` and `query_once`.
//! Nothing here is on the way of a decision.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use super::context::StoreContext;
use super::dial::{Dialer, FailureClass, NodeConnection, dial};
use super::endpoint::Endpoint;
use super::options::RedisMode;
use super::server_error::ServerError;
use super::slot;
use super::wire::{self, Reply};

/// Dials a node and checks that it can decide: it is a primary, it answers within the deadline, and it
/// serves its keys.
///
/// Without this check a node that accepts connections but hangs, or one whose cluster is down, would
/// count as up after each dial, and requests would fail there again and again.
pub(super) async fn connect(
    endpoint: &Endpoint,
    context: &StoreContext,
) -> Result<NodeConnection, String> {
    let mut connection =
        dial(endpoint, &context.dialer)
            .await
            .map_err(|error| match error.class() {
                FailureClass::Configuration => {
                    format!("{error}; check store.redis in the configuration")
                }
                FailureClass::Unavailable => error.to_string(),
            })?;
    let at_node = |reason: String| format!("{endpoint}: {reason}");
    let is_standalone = matches!(context.options.mode, RedisMode::Standalone);
    if !matches!(context.options.mode, RedisMode::Cluster) {
        match query(&mut connection, &[b"ROLE"]).await.map_err(at_node)? {
            role if is_primary(&role) => {}
            // A single server needs no permission for ROLE: there is no other node to find.
            Reply::Error(error) if error.starts_with("NOPERM") && is_standalone => {}
            Reply::Error(error) => return Err(at_node(error)),
            _ => return Err(format!("{endpoint} is not a primary")),
        }
    }
    // A node that was suspended answers the first ping late; the second shows how it is now.
    for _ in 0..2 {
        let started = Instant::now();
        match query(&mut connection, &[b"PING"]).await.map_err(at_node)? {
            Reply::Error(error) if !error.starts_with("NOPERM") => return Err(at_node(error)),
            _ if started.elapsed() <= context.deadline.max(LEAST) => {
                serves_keys(&mut connection, endpoint, context)
                    .await
                    .map_err(at_node)?;
                return Ok(connection);
            }
            _ => {}
        }
    }
    Err(format!(
        "{endpoint} answers later than the deadline of {:?}",
        context.deadline
    ))
}

/// Sends a write that changes nothing: it deletes a key that nobody makes. A node that cannot serve its
/// keys replies to it as it would to a decision, and to `PING` as if all were well. Errors that leave
/// a node in use, such as a missing permission, are left to the decisions.
async fn serves_keys(
    connection: &mut NodeConnection,
    endpoint: &Endpoint,
    context: &StoreContext,
) -> Result<(), String> {
    let Some(key) = probe_key(endpoint, context) else {
        return Ok(());
    };
    match query(connection, &[b"DEL", key.as_bytes()]).await? {
        Reply::Error(error) if ServerError::read(&error) == ServerError::Away => Err(error),
        _ => Ok(()),
    }
}

/// A key that the node owns; `None` for a node of a cluster that owns no slot as far as is known.
fn probe_key(endpoint: &Endpoint, context: &StoreContext) -> Option<String> {
    /// A node with a single slot is found by one of these; one with more slots much sooner.
    const TAGS: u32 = 300_000;
    let prefix = &context.options.key_prefix;
    if !matches!(context.options.mode, RedisMode::Cluster) {
        return Some(format!("{prefix}:!probe"));
    }
    let map = context.router.map();
    let is_owned = |tag: &String| {
        let owner = map.lane(slot::slot(tag.as_bytes()));
        owner.is_some_and(|lane| lane.endpoint == *endpoint)
    };
    if !map.lanes().iter().any(|lane| lane.endpoint == *endpoint) {
        return None;
    }
    let tag = (0..TAGS).map(|number| number.to_string()).find(is_owned)?;
    Some(format!("{prefix}:{{{tag}}}:!probe"))
}

/// A ping may take this long even where the deadline is shorter: on a new connection it is slower
/// than a call later.
const LEAST: Duration = Duration::from_millis(20);

/// Sends one command over a new connection. A reply that is an error becomes an `Err`.
pub(super) async fn query_once(
    endpoint: &Endpoint,
    dialer: &Dialer,
    command: &[&[u8]],
) -> Result<Reply, String> {
    let mut connection = dial(endpoint, dialer)
        .await
        .map_err(|error| error.to_string())?;
    match query(&mut connection, command)
        .await
        .map_err(|reason| format!("{endpoint}: {reason}"))?
    {
        Reply::Error(error) => Err(format!("{endpoint}: {error}")),
        reply => Ok(reply),
    }
}

/// Sends one command and waits for its reply. There is no timeout here: the caller sets it.
pub(super) async fn query(
    connection: &mut NodeConnection,
    command: &[&[u8]],
) -> Result<Reply, String> {
    let [reply] = query_all(connection, [command]).await?;
    Ok(reply)
}

/// Sends several commands in one write and waits for all replies, in their order.
pub(super) async fn query_all<const N: usize>(
    connection: &mut NodeConnection,
    commands: [&[&[u8]]; N],
) -> Result<[Reply; N], String> {
    let mut bytes = Vec::new();
    commands
        .iter()
        .for_each(|command| wire::write_command(&mut bytes, command));
    let io = |error: std::io::Error| error.to_string();
    connection.write_all(&bytes).await.map_err(io)?;
    connection.flush().await.map_err(io)?;
    let mut buffer = Vec::new();
    let mut replies = std::array::from_fn(|_| Reply::Nil);
    for reply in &mut replies {
        *reply = read_reply(connection, &mut buffer).await?;
    }
    Ok(replies)
}

/// Reads the next reply; bytes behind it stay in `buffer`.
pub(super) async fn read_reply(
    connection: &mut NodeConnection,
    buffer: &mut Vec<u8>,
) -> Result<Reply, String> {
    loop {
        if let Some((reply, length)) = wire::parse(buffer).map_err(|error| error.to_string())? {
            buffer.drain(..length);
            return Ok(reply);
        }
        if connection
            .read_buf(buffer)
            .await
            .map_err(|error| error.to_string())?
            == 0
        {
            return Err("closed by the server".to_owned());
        }
    }
}

/// Returns true when the reply to `ROLE` is that of a primary.
pub(super) fn is_primary(role: &Reply) -> bool {
    matches!(role, Reply::Array(parts) if matches!(parts.first(), Some(Reply::Bulk(name)) if name == b"master"))
}
