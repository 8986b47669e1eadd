//! A taste before a turn: each contestant must say yes, and then no, to a quota that is soon spent.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use sluicegate_testkit::watchdog;

use super::contestants::DecisionsContestant;
use super::loads::{AskedQuota, DecisionsProtocol};
use super::questions::QuotaQuestion;
use crate::external_command;

const PATIENCE: Duration = Duration::from_secs(5);

/// An error unless the first of four questions passes and the last does not.
pub fn check_answers(
    question: &QuotaQuestion<'_>,
    protocol: DecisionsProtocol,
    server: SocketAddr,
    nghttp: &Path,
) -> Result<(), String> {
    let question = QuotaQuestion {
        quota: AskedQuota::SCANTY,
        ..*question
    };
    let ask = || match protocol {
        DecisionsProtocol::Resp => ask_resp(&question, server),
        DecisionsProtocol::Http => ask_http(&question, server),
        DecisionsProtocol::Grpc => ask_grpc(&question, server, nghttp),
    };
    let [first, .., last] = [ask()?, ask()?, ask()?, ask()?];
    match (first, last) {
        (true, false) => Ok(()),
        _ => Err(format!(
            "the first and the fourth question for a quota of two or three were answered with {first} and {last}"
        )),
    }
}

fn ask_resp(question: &QuotaQuestion<'_>, server: SocketAddr) -> Result<bool, String> {
    let words = question.command("taste");
    let mut command = format!("*{}\r\n", words.len());
    words
        .iter()
        .for_each(|word| command.push_str(&format!("${}\r\n{word}\r\n", word.len())));
    let lines = if question.contestant == DecisionsContestant::Redis {
        1
    } else {
        6
    };
    let is_whole = |text: &str| text.starts_with('-') || text.matches("\r\n").count() >= lines;
    let reply = exchange(server, &command, is_whole)?;
    question
        .is_allowed_reply(&reply)
        .ok_or_else(|| format!("not an answer: {reply}"))
}

fn ask_http(question: &QuotaQuestion<'_>, server: SocketAddr) -> Result<bool, String> {
    let (path, body) = question.post("taste");
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {server}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = exchange(server, &request, |text| {
        text.ends_with('}') || text.ends_with("}\n")
    })?;
    let says = |word: &str| {
        answer.starts_with("HTTP/1.1 200 ") && answer.contains(&format!("\"allowed\":{word}"))
    };
    match (says("true"), says("false")) {
        // Ours tells for each limit too.
        (true, false) => Ok(true),
        (false, true) => Ok(false),
        _ => Err(format!("not an answer: {answer}")),
    }
}

fn ask_grpc(
    question: &QuotaQuestion<'_>,
    server: SocketAddr,
    nghttp: &Path,
) -> Result<bool, String> {
    let (method, message) = question.call("taste");
    let directory = watchdog::temporary_directory("taste-");
    let file = directory.path().join("message");
    std::fs::write(&file, message).map_err(|error| error.to_string())?;
    let mut command = Command::new(nghttp);
    command.args([
        "--header=content-type: application/grpc",
        "--header=te: trailers",
    ]);
    command
        .arg(format!("--data={}", file.display()))
        .arg(format!("http://{server}{method}"));
    let answer = external_command::finish_with_bytes("nghttp", &mut command, PATIENCE)?;
    // After the five bytes of the frame: field 1, which is true or OK, or something else.
    match answer[..] {
        [0, _, _, _, _, 8, 1, ..] => Ok(true),
        [0, _, _, _, _, ..] => Ok(false),
        _ => Err(format!("not an answer: {answer:?}")),
    }
}

fn exchange(
    server: SocketAddr,
    request: &str,
    is_whole: impl Fn(&str) -> bool,
) -> Result<String, String> {
    let failed = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect_timeout(&server, PATIENCE).map_err(failed)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    stream.write_all(request.as_bytes()).map_err(failed)?;
    let (mut answer, mut buffer) = (String::new(), [0; 4_096]);
    while !is_whole(&answer) {
        match stream.read(&mut buffer).map_err(failed)? {
            0 => break,
            read => answer.push_str(&String::from_utf8_lossy(&buffer[..read])),
        }
    }
    Ok(answer)
}
