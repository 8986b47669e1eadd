//! The first commands of a connection: `AUTH` and `SELECT`.
//!
//! Each is written from a short-lived string of its own, so that no password stays in a buffer that
//! is used again, and the text of an error reply is never repeated.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::super::secret::Credentials;
use super::connection::NodeConnection;
use super::error::{DialCause, FailureClass, ServerRefusal};

/// Authenticates if there is a password. A password file is read now, so that a rotated password
/// works with the next connection.
pub(super) async fn authenticate(
    connection: &mut NodeConnection,
    credentials: &Credentials,
) -> Result<(), DialCause> {
    let Some(password) = &credentials.password else {
        return Ok(());
    };
    let password = password.read().map_err(DialCause::Password)?;
    match &credentials.username {
        Some(username) => run(connection, &["AUTH", username, &password]).await,
        None => run(connection, &["AUTH", &password]).await,
    }
}

/// Selects the database, unless it is 0, with which every connection begins.
pub(super) async fn select(
    connection: &mut NodeConnection,
    database: u32,
) -> Result<(), DialCause> {
    if database == 0 {
        return Ok(());
    }
    run(connection, &["SELECT", &database.to_string()]).await
}

/// Sends a command that must succeed with `+OK`.
async fn run(connection: &mut NodeConnection, arguments: &[&str]) -> Result<(), DialCause> {
    connection.write_all(command(arguments).as_bytes()).await?;
    connection.flush().await?;
    let line = read_line(connection).await?;
    match line.strip_prefix('-') {
        None if line == "+OK" => Ok(()),
        None => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the reply is not that of a Redis server",
        )
        .into()),
        Some(error) => Err(DialCause::Refused(refusal(error))),
    }
}

/// A command in RESP2.
fn command(arguments: &[&str]) -> String {
    let head = format!("*{}\r\n", arguments.len());
    arguments.iter().fold(head, |text, argument| {
        text + &format!("${}\r\n{argument}\r\n", argument.len())
    })
}

/// Reads one line without its end, byte by byte, so that nothing behind it is taken. That is slow,
/// but happens once or twice per connection.
async fn read_line(connection: &mut NodeConnection) -> io::Result<String> {
    const LINE_LENGTH_MAX: usize = 4_096;
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        if line.len() == LINE_LENGTH_MAX {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the reply has no end",
            ));
        }
        line.push(connection.read_u8().await?);
    }
    line.truncate(line.len() - 2);
    Ok(String::from_utf8_lossy(&line).into_owned())
}

/// Converts an error reply. Its text is not repeated: some servers quote the arguments of a command
/// that they do not know, and with them the password.
fn refusal(error: &str) -> ServerRefusal {
    let known = KNOWN_ERRORS
        .iter()
        .find(|known| error.starts_with(known.prefix));
    let (class, text) = known.map_or(
        (FailureClass::Unavailable, "the server refused (ERR)"),
        |known| (known.class, known.text),
    );
    ServerRefusal {
        class,
        text: text.to_owned(),
    }
}

/// An error reply that is known by its beginning, and the text to show for it.
struct KnownError {
    prefix: &'static str,
    class: FailureClass,
    text: &'static str,
}

/// An error that the operator has to fix in the configuration.
const fn configuration(prefix: &'static str, text: &'static str) -> KnownError {
    KnownError {
        prefix,
        class: FailureClass::Configuration,
        text,
    }
}

/// An error that passes without anybody's help.
const fn unavailable(prefix: &'static str, text: &'static str) -> KnownError {
    KnownError {
        prefix,
        class: FailureClass::Unavailable,
        text,
    }
}

/// Error replies to `AUTH` and `SELECT`, and to the first command of a connection.
const KNOWN_ERRORS: [KnownError; 11] = [
    configuration("WRONGPASS", "wrong user or password (WRONGPASS)"),
    configuration(
        "ERR invalid password",
        "wrong password (ERR invalid password)",
    ),
    configuration("NOAUTH", "the server asks for a password (NOAUTH)"),
    configuration("NOPERM", "the user may not do this (NOPERM)"),
    configuration("DENIED", "the server is in protected mode (DENIED)"),
    configuration(
        "ERR AUTH <password> called without any password",
        "the server has no password (ERR)",
    ),
    configuration(
        "ERR Client sent AUTH, but no password is set",
        "the server has no password (ERR)",
    ),
    configuration(
        "ERR DB index is out of range",
        "the server has no such database (ERR)",
    ),
    configuration(
        "ERR SELECT is not allowed in cluster mode",
        "a cluster has only database 0 (ERR)",
    ),
    unavailable(
        "ERR max number of clients reached",
        "the server has too many clients (ERR)",
    ),
    unavailable("LOADING", "the server is loading its data (LOADING)"),
];
