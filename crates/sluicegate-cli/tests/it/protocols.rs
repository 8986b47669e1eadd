//! More than a request and its response: WebSockets, events, large bodies, TLS.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::mpsc::channel;
use std::thread;

use sluicegate_testkit::raw_socket::{read_head, serve_connections};
use sluicegate_testkit::{STEP_TIMEOUT, eventually};

use super::running::{Sluicegate, times, write_certificate};

fn config(upstream: &str, more: &str) -> String {
    format!(
        "
proxy: {{ listen: '127.0.0.1:0', upstream: '{upstream}'{more} }}
admin: off
limits:
  - {{ name: per-client, key: [client_ip], rate: 1000/s, burst: 1000 }}
"
    )
}

/// A server that hands each connection to `serve`, one after the other; its URL.
pub fn server(mut serve: impl FnMut(TcpStream) + Send + 'static) -> String {
    let address = serve_connections(move |_, stream| serve(stream));
    format!("http://{address}")
}

#[test]
fn a_websocket_carries_messages_both_ways() {
    let url = server(|stream| {
        let mut socket = tungstenite::accept(stream).unwrap();
        loop {
            match socket.read() {
                Ok(message) if message.is_text() || message.is_binary() => {
                    socket.send(message).unwrap()
                }
                Ok(_) => {}
                Err(_) => return,
            }
        }
    });
    let sluicegate = Sluicegate::start(&config(&url, ""));
    let stream = sluicegate.connect();
    let (mut socket, response) =
        tungstenite::client(format!("ws://{}/chat", sluicegate.proxy), stream).unwrap();
    assert_eq!(response.status().as_u16(), 101);
    for length in [0, 1, 125, 126, 65_535, 65_536, 1_000_000] {
        let message = tungstenite::Message::binary(vec![7; length]);
        socket.send(message.clone()).unwrap();
        assert_eq!(socket.read().unwrap(), message);
    }
    socket.close(None).unwrap();
    while socket.read().is_ok() {}
}

#[test]
fn events_arrive_when_they_are_sent() {
    let (go_on, next) = channel::<()>();
    let url = server(move |mut stream| {
        read_head(&mut stream);
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
            .unwrap();
        for number in 0..3 {
            let event = format!("data: {number}\n\n");
            stream
                .write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes())
                .unwrap();
            next.recv_timeout(STEP_TIMEOUT).unwrap();
        }
        stream.write_all(b"0\r\n\r\n").unwrap();
    });
    let sluicegate = Sluicegate::start(&config(&url, ""));
    let mut stream = sluicegate.connect();
    stream
        .write_all(b"GET /events HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n")
        .unwrap();
    let head = read_head(&mut stream).unwrap();
    assert!(head.contains("text/event-stream"), "{head}");
    for number in 0..3 {
        let wanted = format!("data: {number}\n\n");
        let mut got = Vec::new();
        while !String::from_utf8_lossy(&got).contains(&wanted) {
            let mut bytes = [0; 256];
            let read = stream.read(&mut bytes).unwrap();
            assert!(read > 0);
            got.extend_from_slice(&bytes[..read]);
        }
        go_on.send(()).unwrap();
    }
}

/// `cargo xtask chaos` streams a gibibyte.
#[test]
fn large_bodies_stream_through_flat_memory() {
    let mebibytes = times(96) as usize;
    let url = server(move |mut stream| {
        read_head(&mut stream);
        let mut left = mebibytes << 20;
        let mut bytes = vec![0; 1 << 16];
        while left > 0 {
            left -= stream.read(&mut bytes).unwrap();
        }
        stream
            .write_all(
                format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n",
                    mebibytes << 20
                )
                .as_bytes(),
            )
            .unwrap();
        for _ in 0..(mebibytes << 4) {
            stream.write_all(&bytes).unwrap();
        }
    });
    let sluicegate = Sluicegate::start(&config(&url, ""));
    let before = sluicegate.resident_kib();
    let mut stream = sluicegate.connect();
    let mut upload = stream.try_clone().unwrap();
    thread::spawn(move || {
        let head = format!(
            "PUT / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            mebibytes << 20
        );
        upload.write_all(head.as_bytes()).unwrap();
        let bytes = vec![1; 1 << 16];
        for _ in 0..(mebibytes << 4) {
            upload.write_all(&bytes).unwrap();
        }
    });
    let head = read_head(&mut stream).unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let (mut came, mut most) = (0, 0);
    let mut bytes = vec![0; 1 << 16];
    loop {
        let read = stream.read(&mut bytes).unwrap();
        if read == 0 {
            break;
        }
        came += read;
        if came % (8 << 20) < read {
            most = most.max(sluicegate.resident_kib());
        }
    }
    assert_eq!(came, mebibytes << 20);
    assert!(
        most < before + 16 * 1024,
        "grew from {before} to {most} KiB"
    );
}

#[test]
fn tls_with_a_certificate_of_a_known_authority_in_both_versions_and_another_after_a_reload() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str| {
        let certificate = write_certificate(directory.path(), "a.example");
        std::fs::write(directory.path().join(name), certificate).unwrap();
    };
    write("first.pem");
    let config = "
proxy: { listen: '127.0.0.1:0', tls: { cert: cert.pem, key: key.pem } }
admin: off
limits:
  - { name: per-client, key: [client_ip], rate: 1000/s, burst: 1000 }
";
    std::fs::write(directory.path().join("sluicegate.yaml"), config).unwrap();
    let path = directory.path().to_owned();
    let sluicegate = Sluicegate::start_in(directory);
    let port = sluicegate.proxy.port();
    let (url, to) = (
        format!("https://a.example:{port}/"),
        format!("a.example:{port}:127.0.0.1"),
    );
    let ask = |authority: &str, version: &str| {
        let authority = path.join(authority);
        let output = Command::new("curl")
            .args([
                "-sS",
                "-i",
                "--max-time",
                "20",
                version,
                "--resolve",
                &to,
                "--cacert",
            ])
            .arg(&authority)
            .arg(&url)
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(ask("first.pem", "--http2").starts_with("HTTP/2 200"));
    let http1 = ask("first.pem", "--http1.1");
    assert!(
        http1.starts_with("HTTP/1.1 200") && http1.contains("x-forwarded-proto: https"),
        "{http1}"
    );

    let certificate = write_certificate(&path, "a.example");
    std::fs::write(path.join("second.pem"), certificate).unwrap();
    eventually("the new certificate is shown", || {
        ask("second.pem", "--http2").starts_with("HTTP/2 200")
    });
}
