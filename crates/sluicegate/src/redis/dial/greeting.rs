//! The commands that come before all others: `AUTH` and `SELECT`.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::super::secret::Credentials;
use super::error::{Blame, Cause, Refusal};
use super::link::Link;

/// Says who we are, if there is a password.
pub(super) async fn authenticate(link: &mut Link, credentials: &Credentials) -> Result<(), Cause> {
    let Some(password) = &credentials.password else {
        return Ok(());
    };
    let password = password.read().map_err(Cause::Password)?;
    match &credentials.username {
        Some(username) => ask(link, &["AUTH", username, &password]).await,
        None => ask(link, &["AUTH", &password]).await,
    }
}

/// Chooses the database, if it is not the one every connection begins with.
pub(super) async fn select(link: &mut Link, database: u32) -> Result<(), Cause> {
    if database == 0 {
        return Ok(());
    }
    ask(link, &["SELECT", &database.to_string()]).await
}

async fn ask(link: &mut Link, words: &[&str]) -> Result<(), Cause> {
    link.write_all(command(words).as_bytes()).await?;
    link.flush().await?;
    let line = read_line(link).await?;
    match line.strip_prefix('-') {
        None if line == "+OK" => Ok(()),
        None => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the answer is not that of a Redis server",
        )
        .into()),
        Some(error) => Err(Cause::Refused(refusal(error))),
    }
}

fn command(words: &[&str]) -> String {
    let head = format!("*{}\r\n", words.len());
    words.iter().fold(head, |text, word| {
        text + &format!("${}\r\n{word}\r\n", word.len())
    })
}

/// One line without its end. Byte by byte, so that nothing behind it is taken; this happens once per connection.
async fn read_line(link: &mut Link) -> io::Result<String> {
    const LINE_LENGTH_MAX: usize = 4_096;
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        if line.len() == LINE_LENGTH_MAX {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the answer has no end",
            ));
        }
        line.push(link.read_u8().await?);
    }
    line.truncate(line.len() - 2);
    Ok(String::from_utf8_lossy(&line).into_owned())
}

/// What an error means. Its text is not repeated: some servers quote the words of a command they do not know, and with
/// them the password.
fn refusal(error: &str) -> Refusal {
    const KNOWN: [(&str, Blame, &str); 11] = [
        (
            "WRONGPASS",
            Blame::Settings,
            "wrong user or password (WRONGPASS)",
        ),
        (
            "ERR invalid password",
            Blame::Settings,
            "wrong password (ERR invalid password)",
        ),
        (
            "NOAUTH",
            Blame::Settings,
            "the server asks for a password (NOAUTH)",
        ),
        (
            "NOPERM",
            Blame::Settings,
            "the user may not do this (NOPERM)",
        ),
        (
            "DENIED",
            Blame::Settings,
            "the server is in protected mode (DENIED)",
        ),
        (
            "ERR AUTH <password> called without any password",
            Blame::Settings,
            "the server has no password (ERR)",
        ),
        (
            "ERR Client sent AUTH, but no password is set",
            Blame::Settings,
            "the server has no password (ERR)",
        ),
        (
            "ERR DB index is out of range",
            Blame::Settings,
            "the server has no such database (ERR)",
        ),
        (
            "ERR SELECT is not allowed in cluster mode",
            Blame::Settings,
            "a cluster has only database 0 (ERR)",
        ),
        (
            "ERR max number of clients reached",
            Blame::Away,
            "the server has too many clients (ERR)",
        ),
        (
            "LOADING",
            Blame::Away,
            "the server is loading its data (LOADING)",
        ),
    ];
    let known = KNOWN.iter().find(|(begins, ..)| error.starts_with(begins));
    let (blame, what) = known.map_or(
        (Blame::Away, "the server refused (ERR)"),
        |(_, blame, what)| (*blame, *what),
    );
    Refusal {
        blame,
        what: what.to_owned(),
    }
}
