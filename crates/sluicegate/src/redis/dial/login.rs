//! The commands that come before all others: `AUTH` and `SELECT`.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::super::secret::Credentials;
use super::connection::NodeConnection;
use super::error::{DialCause, FailureClass, ServerRefusal};

/// Says who we are, if there is a password.
pub(super) async fn authenticate(
    connection: &mut NodeConnection,
    credentials: &Credentials,
) -> Result<(), DialCause> {
    let Some(password) = &credentials.password else {
        return Ok(());
    };
    let password = password.read().map_err(DialCause::Password)?;
    match &credentials.username {
        Some(username) => ask(connection, &["AUTH", username, &password]).await,
        None => ask(connection, &["AUTH", &password]).await,
    }
}

/// Chooses the database, if it is not the one every connection begins with.
pub(super) async fn select(
    connection: &mut NodeConnection,
    database: u32,
) -> Result<(), DialCause> {
    if database == 0 {
        return Ok(());
    }
    ask(connection, &["SELECT", &database.to_string()]).await
}

async fn ask(connection: &mut NodeConnection, words: &[&str]) -> Result<(), DialCause> {
    connection.write_all(command(words).as_bytes()).await?;
    connection.flush().await?;
    let line = read_line(connection).await?;
    match line.strip_prefix('-') {
        None if line == "+OK" => Ok(()),
        None => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the answer is not that of a Redis server",
        )
        .into()),
        Some(error) => Err(DialCause::Refused(refusal(error))),
    }
}

fn command(words: &[&str]) -> String {
    let head = format!("*{}\r\n", words.len());
    words.iter().fold(head, |text, word| {
        text + &format!("${}\r\n{word}\r\n", word.len())
    })
}

/// One line without its end. Byte by byte, so that nothing behind it is taken; this happens once per connection.
async fn read_line(connection: &mut NodeConnection) -> io::Result<String> {
    const LINE_LENGTH_MAX: usize = 4_096;
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        if line.len() == LINE_LENGTH_MAX {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the answer has no end",
            ));
        }
        line.push(connection.read_u8().await?);
    }
    line.truncate(line.len() - 2);
    Ok(String::from_utf8_lossy(&line).into_owned())
}

/// What an error means. Its text is not repeated: some servers quote the words of a command they do not know, and with
/// them the password.
fn refusal(error: &str) -> ServerRefusal {
    const KNOWN: [(&str, FailureClass, &str); 11] = [
        (
            "WRONGPASS",
            FailureClass::Configuration,
            "wrong user or password (WRONGPASS)",
        ),
        (
            "ERR invalid password",
            FailureClass::Configuration,
            "wrong password (ERR invalid password)",
        ),
        (
            "NOAUTH",
            FailureClass::Configuration,
            "the server asks for a password (NOAUTH)",
        ),
        (
            "NOPERM",
            FailureClass::Configuration,
            "the user may not do this (NOPERM)",
        ),
        (
            "DENIED",
            FailureClass::Configuration,
            "the server is in protected mode (DENIED)",
        ),
        (
            "ERR AUTH <password> called without any password",
            FailureClass::Configuration,
            "the server has no password (ERR)",
        ),
        (
            "ERR Client sent AUTH, but no password is set",
            FailureClass::Configuration,
            "the server has no password (ERR)",
        ),
        (
            "ERR DB index is out of range",
            FailureClass::Configuration,
            "the server has no such database (ERR)",
        ),
        (
            "ERR SELECT is not allowed in cluster mode",
            FailureClass::Configuration,
            "a cluster has only database 0 (ERR)",
        ),
        (
            "ERR max number of clients reached",
            FailureClass::Unavailable,
            "the server has too many clients (ERR)",
        ),
        (
            "LOADING",
            FailureClass::Unavailable,
            "the server is loading its data (LOADING)",
        ),
    ];
    let known = KNOWN.iter().find(|(begins, ..)| error.starts_with(begins));
    let (blame, what) = known.map_or(
        (FailureClass::Unavailable, "the server refused (ERR)"),
        |(_, blame, what)| (*blame, *what),
    );
    ServerRefusal {
        blame,
        what: what.to_owned(),
    }
}
