//! `tollgate ready`: asks a running Tollgate whether requests should come to it. For probes in places where nothing else is.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::{FAILED, FINE};

/// Whom to ask, and how.
pub struct Question<'a> {
    /// The admin door, `http://host:port`.
    pub url: &'a str,
    pub token_file: Option<&'a Path>,
    /// Whether the store is asked too.
    pub is_deep: bool,
    /// How long to go on asking while it is not ready.
    pub wait: Duration,
}

/// A probe waits no longer than this, whatever happens at the other end.
const LONGEST: Duration = Duration::from_secs(2);
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Between two questions.
const PAUSE: Duration = Duration::from_millis(50);

/// The answer goes to standard output when it is ready, else to standard error.
pub fn run(question: &Question) -> u8 {
    let began = Instant::now();
    let mut answer = ask(question);
    while !answer.as_ref().is_ok_and(|answer| answer.is_ready) && began.elapsed() < question.wait {
        std::thread::sleep(PAUSE);
        answer = ask(question);
    }
    match answer {
        Ok(answer) if answer.is_ready => {
            println!("{}", answer.body);
            FINE
        }
        Ok(answer) => {
            eprintln!("{}", answer.body);
            FAILED
        }
        Err(error) => {
            eprintln!("tollgate: {}: {error}", question.url);
            FAILED
        }
    }
}

struct Answer {
    is_ready: bool,
    body: String,
}

fn ask(question: &Question) -> io::Result<Answer> {
    let deadline = Instant::now() + LONGEST;
    let host = question.url.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
    let host = host.filter(|host| !host.contains(['/', '@', '\r', '\n', ' ']));
    let host = host.ok_or_else(|| io::Error::other("expected http://host:port"))?;
    let token = match question.token_file {
        None => String::new(),
        Some(file) => {
            let text = std::fs::read_to_string(file)
                .map_err(|error| io::Error::other(format!("{}: {error}", file.display())))?;
            format!("Authorization: Bearer {}\r\n", text.lines().next().unwrap_or_default().trim())
        }
    };
    let address = host.to_socket_addrs()?.next().ok_or_else(|| io::Error::other("no address has this name"))?;
    let mut stream = TcpStream::connect_timeout(&address, LONGEST)?;
    stream.set_write_timeout(Some(LONGEST))?;
    let path = if question.is_deep { "/readyz?deep=true" } else { "/readyz" };
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{token}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let answer = String::from_utf8_lossy(&read(&mut stream, deadline)?).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| io::Error::other("this is no answer"))?;
    Ok(Answer { is_ready: head.starts_with("HTTP/1.1 200 "), body: body.trim_end().to_owned() })
}

/// All that comes until the end, within bounds.
fn read(stream: &mut TcpStream, deadline: Instant) -> io::Result<Vec<u8>> {
    let (mut answer, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || answer.len() > ANSWER_BYTES_MAX {
            return Err(io::Error::other("no whole answer within two seconds"));
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut part)? {
            0 => return Ok(answer),
            length => answer.extend_from_slice(&part[..length]),
        }
    }
}
