//! The operator's desk of the running program: look, explain, reset, ban, override, watch.

mod desk;
mod documented;
mod explain;
mod orders;
mod series;
mod watch;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use super::running::{LONGEST, Sluicegate, status};

const CONFIG: &str = "
proxy: { listen: '127.0.0.1:0' }
admin: { listen: '127.0.0.1:0' }
decisions: { http: '127.0.0.1:0' }
client_ip: { trusted_proxies: [127.0.0.1/32] }
limits:
  - { name: per-client, key: [client_ip], rate: 1/h, burst: 5 }
  - { name: watched, key: ['header:X-Tenant'], rate: 1/h, burst: 2, mode: shadow, on_missing_key: shared }
";

/// A question at the operator's door with a body in JSON, and the status and JSON of the answer.
#[track_caller]
pub fn ask(sluicegate: &Sluicegate, method: &str, path: &str, body: Option<&str>) -> (u16, Value) {
    let address = sluicegate.admin.expect("the admin door is open");
    let answer = exchange(address, method, path, "application/json", body);
    let (_, json) = answer
        .split_once("\r\n\r\n")
        .unwrap_or_else(|| panic!("no answer: {answer:?}"));
    (
        status(&answer),
        serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {answer}")),
    )
}

/// The answer to a request with a body of this type.
fn exchange(
    address: SocketAddr,
    method: &str,
    path: &str,
    content_type: &str,
    body: Option<&str>,
) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONGEST)).unwrap();
    let (kind, body) = match body {
        Some(body) => (
            format!(
                "Content-Type: {content_type}\r\nContent-Length: {}\r\n",
                body.len()
            ),
            body,
        ),
        None => (String::new(), ""),
    };
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{kind}\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

/// The status that a client at this address gets.
fn from(sluicegate: &Sluicegate, client_ip: &str) -> u16 {
    status(&sluicegate.get("/", &[&format!("X-Forwarded-For: {client_ip}")]))
}
