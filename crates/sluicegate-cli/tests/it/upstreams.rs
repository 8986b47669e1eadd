//! Several servers: who gets a request, and what happens when one is away.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use super::running::{Sluicegate, eventually, status};
use super::upstream::Upstream;

fn named(name: &'static str) -> Upstream {
    Upstream::answering(move |_| http::Response::new(name.into()))
}

fn config(proxy: &str) -> String {
    format!(
        "
proxy:
  listen: '127.0.0.1:0'
{proxy}
admin: off
limits:
  - {{ name: per-client, key: [client_ip], rate: 1000/s, burst: 1000 }}
"
    )
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

#[test]
fn host_and_path_say_where_a_request_goes() {
    let (api, admin, rest) = (named("api"), named("admin"), named("rest"));
    let sluicegate = Sluicegate::start(&config(&format!(
        "  upstream: 'http://{}'
  routes:
    - {{ path: /api, upstream: 'http://{}' }}
    - {{ host: admin.example, upstream: 'http://{}' }}",
        rest.address, api.address, admin.address
    )));
    assert_eq!(body(&sluicegate.get("/api/x", &[])), "api");
    assert_eq!(body(&sluicegate.get("/apix", &[])), "rest");
    let to_admin = b"GET /x HTTP/1.1\r\nHost: ADMIN.example\r\nConnection: close\r\n\r\n";
    assert_eq!(body(&sluicegate.exchange(to_admin)), "admin");
}

#[test]
fn servers_take_turns_and_one_that_is_away_costs_nobody_an_answer() {
    let (one, other) = (named("one"), named("other"));
    let away = TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = away.local_addr().unwrap();
    drop(away);
    let sluicegate = Sluicegate::start(&config(&format!(
        "  upstream: ['http://{}', 'http://{nobody}', 'http://{}']",
        one.address, other.address
    )));
    let answers: Vec<String> = (0..30).map(|_| sluicegate.get("/", &[])).collect();
    assert!(
        answers.iter().all(|answer| status(answer) == 200),
        "{answers:?}"
    );
    for name in ["one", "other"] {
        assert!(
            answers.iter().filter(|answer| body(answer) == name).count() >= 5,
            "{name}"
        );
    }
}

#[test]
fn nobody_to_ask_is_502_and_nobody_answering_is_504() {
    let away = TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = away.local_addr().unwrap();
    drop(away);
    let sluicegate = Sluicegate::start(&config(&format!("  upstream: 'http://{nobody}'")));
    assert_eq!(status(&sluicegate.get("/", &[])), 502);

    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let sluicegate = Sluicegate::start(&config(&format!(
        "  upstream: 'http://{address}'\n  timeouts: {{ request: 300ms }}"
    )));
    assert_eq!(status(&sluicegate.get("/", &[])), 504);
}

/// The time of a request begins with it, also on a connection that has served others.
#[test]
fn each_request_of_a_connection_has_the_whole_time() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = [0; 4096];
        for _ in 0..3 {
            assert!(stream.read(&mut head).unwrap() > 0);
            // bounded wait: the server is slow
            thread::sleep(Duration::from_secs(1));
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                .unwrap();
        }
        // The fourth is never answered.
        assert!(stream.read(&mut head).unwrap() > 0);
        assert_eq!(
            stream.read(&mut head).unwrap(),
            0,
            "the connection is given up"
        );
    });
    let one_connection =
        format!("  upstream: 'http://{address}'\n  workers: 1\n  timeouts: {{ request: 2500ms }}");
    let sluicegate = Sluicegate::start(&config(&one_connection));
    let statuses: Vec<u16> = (0..4).map(|_| status(&sluicegate.get("/", &[]))).collect();
    assert_eq!(statuses, [200, 200, 200, 504]);
    server.join().unwrap();
}

/// A server that answers once on each connection and then closes it without a word.
#[test]
fn a_connection_that_was_closed_while_idle_costs_a_repeatable_request_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 4096];
            let _ = stream.read(&mut head);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let sluicegate = Sluicegate::start(&config(&format!(
        "  upstream: 'http://{address}'\n  workers: 1"
    )));
    for _ in 0..50 {
        let answer = sluicegate.get("/", &[]);
        assert_eq!(status(&answer), 200, "{answer}");
    }
}

/// The server behind is another Sluicegate with a certificate of its own.
#[test]
fn another_file_of_authorities_is_taken_over() {
    let directory = tempfile::tempdir().unwrap();
    let signed = ["server", "somebody else"]
        .map(|_| rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap());
    let [own, other] = signed;
    std::fs::write(directory.path().join("cert.pem"), own.cert.pem()).unwrap();
    std::fs::write(
        directory.path().join("key.pem"),
        own.signing_key.serialize_pem(),
    )
    .unwrap();
    std::fs::write(
        directory.path().join("sluicegate.yaml"),
        config("  tls: { cert: cert.pem, key: key.pem }"),
    )
    .unwrap();
    let server = Sluicegate::start_in(directory);

    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("ca.pem"), other.cert.pem()).unwrap();
    let port = server.proxy.port();
    let trusting = config(&format!(
        "  upstream: 'https://localhost:{port}'\n  upstream_ca_file: ca.pem"
    ));
    std::fs::write(directory.path().join("sluicegate.yaml"), trusting).unwrap();
    let sluicegate = Sluicegate::start_in(directory);
    assert_eq!(
        status(&sluicegate.get("/", &[])),
        502,
        "it is signed by nobody we know"
    );
    std::fs::write(sluicegate.file("ca.pem"), own.cert.pem()).unwrap();
    eventually("its certificate is trusted", || {
        status(&sluicegate.get("/", &[])) == 200
    });
}
