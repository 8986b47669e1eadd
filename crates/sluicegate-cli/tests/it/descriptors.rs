//! More connections than the process has file descriptors for.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use sluicegate_testkit::eventually;
use sluicegate_testkit::raw_socket::{exchange_on, read_head, serve_connections_in_parallel};

use super::running::Sluicegate;

const MOST: usize = 64;
const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";

#[test]
fn without_descriptors_the_proxy_waits_at_rest_and_answers_again_when_there_are_some() {
    let mut sluicegate = Sluicegate::start(
        "
proxy: { listen: '127.0.0.1:0', workers: 1 }
admin: off
limits:
  - { name: per-client, key: [client_ip], rate: 1000/s, burst: 1000 }
",
    );
    let limited = Command::new("prlimit")
        .args([
            format!("--pid={}", sluicegate.pid()),
            format!("--nofile={MOST}:{MOST}"),
        ])
        .status()
        .unwrap();
    assert!(limited.success());
    for round in 0..3 {
        // A connection to the server behind is open and stays.
        assert_eq!(sluicegate.get("/", &[]).status(), 200);
        let mut crowd: Vec<TcpStream> = (0..2 * MOST).map(|_| sluicegate.connect()).collect();
        eventually("there are no more descriptors", || {
            sluicegate.open_files() >= MOST - 1
        });
        sluicegate.wait_for_log("no connection can be taken for the moment");
        // Those that were taken are served.
        let answer = exchange_on(crowd.swap_remove(0), GET);
        assert_eq!(answer.status(), 200, "round {round}: {answer}");

        let (cpu, since) = (sluicegate.cpu_time(), Instant::now());
        // bounded wait: what is measured is a second of shortage
        thread::sleep(Duration::from_secs(1));
        let (spent, elapsed) = (sluicegate.cpu_time() - cpu, since.elapsed());
        assert!(
            spent < elapsed / 4,
            "{spent:?} of processor in {elapsed:?} of shortage"
        );
        let lines = sluicegate.logged.lock().unwrap().len();
        assert!(lines < 10 * (round + 1), "{lines} lines in the log");

        drop(crowd);
        let answer = sluicegate.get("/", &[]);
        assert_eq!(answer.status(), 200, "round {round}: {answer}");
        eventually("descriptors are given back", || {
            sluicegate.open_files() < MOST / 2
        });
    }
    sluicegate.signal("TERM");
    assert!(sluicegate.wait().success());
}

/// Agrees to speak another protocol, and then says nothing more until the client ends; answers everything else.
fn switching_server() -> String {
    let address = serve_connections_in_parallel(|mut stream| {
        let Some(head) = read_head(&mut stream) else {
            return;
        };
        let is_switch = head.to_ascii_lowercase().contains("upgrade: websocket");
        let answer: &[u8] = if is_switch {
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        } else {
            b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        };
        stream.write_all(answer).unwrap();
        while is_switch && stream.read(&mut [0; 64]).is_ok_and(|read| read > 0) {}
    });
    format!("http://{address}")
}

#[test]
fn connections_that_go_on_in_another_protocol_keep_their_places() {
    let sluicegate = Sluicegate::start(&format!(
        "
proxy: {{ listen: '127.0.0.1:0', workers: 1, max_connections: 2, upstream: '{}' }}
admin: {{ listen: '127.0.0.1:0' }}
limits:
  - {{ name: per-client, key: [client_ip], rate: 1000/s, burst: 1000 }}
",
        switching_server()
    ));
    let mut talking: Vec<TcpStream> = (0..2)
        .map(|_| {
            let mut stream = sluicegate.connect();
            let request = b"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
            stream.write_all(request).unwrap();
            let head = read_head(&mut stream).unwrap();
            assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
            stream
        })
        .collect();
    eventually("both are counted", || {
        sluicegate.metric("sluicegate_connections") == 2
    });
    for _ in 0..3 {
        let answer = sluicegate.exchange(GET);
        assert!(answer.is_empty(), "a third connection was taken: {answer}");
    }
    talking.pop();
    eventually("a place is free again", || {
        sluicegate.exchange(GET).status() == 200
    });
}
