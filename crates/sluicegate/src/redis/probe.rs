//! A connection is good when the node behind it answers in time and is the one we want.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use super::context::StoreContext;
use super::dial::{Dialer, FailureClass, NodeConnection, dial};
use super::endpoint::Endpoint;
use super::options::RedisMode;
use super::wire::{self, Reply};

/// Dials a node and makes sure that it can decide: it answers in time, and is a primary where that matters.
pub(super) async fn connect(
    endpoint: &Endpoint,
    context: &StoreContext,
) -> Result<NodeConnection, String> {
    let mut connection =
        dial(endpoint, &context.dialer)
            .await
            .map_err(|error| match error.blame() {
                FailureClass::Configuration => {
                    format!("{error}; check store.redis in the configuration")
                }
                FailureClass::Unavailable => error.to_string(),
            })?;
    let at_node = |why: String| format!("{endpoint}: {why}");
    let is_standalone = matches!(context.options.mode, RedisMode::Standalone);
    if !matches!(context.options.mode, RedisMode::Cluster) {
        match query(&mut connection, &[b"ROLE"]).await.map_err(at_node)? {
            role if is_primary(&role) => {}
            // Where there is only one node to ask, it need not be allowed to tell.
            Reply::Error(error) if error.starts_with("NOPERM") && is_standalone => {}
            Reply::Error(error) => return Err(at_node(error)),
            _ => return Err(format!("{endpoint} is not a primary")),
        }
    }
    // The first answer of a node that was stopped may be late; the second shows how it is now.
    for _ in 0..2 {
        let started = Instant::now();
        match query(&mut connection, &[b"PING"]).await.map_err(at_node)? {
            Reply::Error(error) if !error.starts_with("NOPERM") => return Err(at_node(error)),
            _ if started.elapsed() <= context.deadline.max(LEAST) => return Ok(connection),
            _ => {}
        }
    }
    Err(format!(
        "{endpoint} answers later than the deadline of {:?}",
        context.deadline
    ))
}

/// With deadlines of a millisecond or two, a ping may be late without harm.
const LEAST: Duration = Duration::from_millis(20);

/// Asks one thing over a connection of its own.
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
        .map_err(|why| format!("{endpoint}: {why}"))?
    {
        Reply::Error(error) => Err(format!("{endpoint}: {error}")),
        reply => Ok(reply),
    }
}

/// Asks one thing and waits for its answer; the caller minds the time.
pub(super) async fn query(
    connection: &mut NodeConnection,
    command: &[&[u8]],
) -> Result<Reply, String> {
    let mut bytes = Vec::new();
    wire::write_command(&mut bytes, command);
    let io = |error: std::io::Error| error.to_string();
    connection.write_all(&bytes).await.map_err(io)?;
    connection.flush().await.map_err(io)?;
    read_reply(connection, &mut Vec::new()).await
}

/// The next answer; what follows it stays in `buffer`.
pub(super) async fn read_reply(
    connection: &mut NodeConnection,
    buffer: &mut Vec<u8>,
) -> Result<Reply, String> {
    loop {
        if let Some((reply, length)) = wire::parse(buffer).map_err(|wrong| wrong.to_string())? {
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

/// Whether the answer to `ROLE` is a primary's.
pub(super) fn is_primary(role: &Reply) -> bool {
    matches!(role, Reply::Array(parts) if matches!(parts.first(), Some(Reply::Bulk(name)) if name == b"master"))
}
