//! A name server that says something else each time: the proxy never ends up inside.
//!
//! The test runs itself again in namespaces of its own, where port 53, an address of the public internet and the file that
//! names the name server are ours.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use sluicegate_testkit::{RedisServer, UpstreamRecorder, assert_passed, is_alone, run_alone_by};

use super::super::running::Sluicegate;
use super::{config, service, url};

/// A public address, which belongs to this machine inside the namespaces and is reached by nobody outside.
const PUBLIC: Ipv4Addr = Ipv4Addr::new(198, 41, 0, 4);
const NAME: &str = "external::rebinding::a_name_that_changes_its_meaning_leads_nowhere_inside";

#[test]
#[ignore = "needs mount namespaces"]
fn a_name_that_changes_its_meaning_leads_nowhere_inside() {
    if is_alone() {
        return in_namespaces();
    }
    assert_passed(&run_alone_by(&["unshare", "-rnm"], NAME, &[]));
}

fn in_namespaces() {
    run("ip", &["link", "set", "lo", "up"]);
    run("ip", &["addr", "add", &format!("{PUBLIC}/32"), "dev", "lo"]);
    let directory = tempfile::tempdir().unwrap();
    let resolver = directory.path().join("resolv.conf");
    fs::write(
        &resolver,
        "nameserver 127.0.0.1\noptions timeout:2 attempts:3\n",
    )
    .unwrap();
    run(
        "mount",
        &["--bind", resolver.to_str().unwrap(), "/etc/resolv.conf"],
    );

    let questions = name_server();
    let outside = listen((PUBLIC, 0).into(), "outside");
    let inside = listen((Ipv4Addr::LOCALHOST, outside.port).into(), "inside");
    let (redis, upstream) = (RedisServer::start(), UpstreamRecorder::start());
    let port = outside.port;
    let service = service(move |_| {
        format!(r#"{{"average": 0, "backend_url": "http://rebind.example:{port}"}}"#)
    });
    let sluicegate = Sluicegate::start(&config(&url(&service), &redis, &upstream, ""));
    let answers: Vec<(u16, bool)> = (0..60)
        .map(|_| {
            let answer = sluicegate.get("/", &["X-Tenant-Id: acme"]);
            (answer.status(), answer.body() == "outside")
        })
        .collect();
    assert_eq!(
        inside.accepted.load(Ordering::SeqCst),
        0,
        "somebody was let in"
    );
    assert!(
        answers.contains(&(200, true)),
        "where the name means somebody outside, that is who answers: {answers:?}"
    );
    assert!(
        answers.contains(&(200, false)),
        "where it leads inside, the request goes where all go: {answers:?}"
    );
    assert!(
        answers.iter().all(|(status, _)| *status == 200),
        "{answers:?}"
    );
    assert!(
        questions.load(Ordering::SeqCst) >= 60,
        "each connection asks again what the name means"
    );
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A server that says one word and hangs up.
struct Listening {
    port: u16,
    accepted: Arc<AtomicUsize>,
}

fn listen(at: SocketAddr, word: &'static str) -> Listening {
    let listener = TcpListener::bind(at).unwrap();
    let port = listener.local_addr().unwrap().port();
    let accepted = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&accepted);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            counted.fetch_add(1, Ordering::SeqCst);
            let mut request = [0; 4_096];
            let _ = stream.read(&mut request);
            let length = word.len();
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{word}"
            );
        }
    });
    Listening { port, accepted }
}

/// Answers every question for an address: now the public one, now ours, now ours and a cloud's metadata, and none of IPv6.
/// Returns how many there were.
fn name_server() -> Arc<AtomicUsize> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 53)).unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    thread::spawn(move || {
        let mut question = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut question) {
            let answer = match kind(&question[..length]) {
                Some(1) => {
                    let turn = counted.fetch_add(1, Ordering::SeqCst);
                    let choices: [&[Ipv4Addr]; 3] = [
                        &[PUBLIC],
                        &[Ipv4Addr::LOCALHOST],
                        &[Ipv4Addr::LOCALHOST, Ipv4Addr::new(169, 254, 169, 254)],
                    ];
                    said(&question[..length], choices[turn % choices.len()])
                }
                _ => said(&question[..length], &[]),
            };
            let _ = socket.send_to(&answer, from);
        }
    });
    asked
}

/// The type that a question asks for: it follows the name.
fn kind(question: &[u8]) -> Option<u16> {
    let name = question.get(12..)?;
    let end = name.iter().position(|byte| *byte == 0)?;
    Some(u16::from_be_bytes([
        *name.get(end + 1)?,
        *name.get(end + 2)?,
    ]))
}

/// The question again, and these addresses, which hold for no time at all.
fn said(question: &[u8], addresses: &[Ipv4Addr]) -> Vec<u8> {
    let name = &question[12..];
    let end = 12 + name.iter().position(|byte| *byte == 0).unwrap_or(0) + 5;
    let mut answer = question[..end.min(question.len())].to_vec();
    // An answer to what was asked, with one question and so many addresses.
    answer[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, addresses.len() as u8, 0, 0, 0, 0]);
    for address in addresses {
        // The name of the question, an address of the internet, no seconds, four bytes.
        answer.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
        answer.extend_from_slice(&address.octets());
    }
    answer
}
