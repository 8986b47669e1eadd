//! Several upstream servers: which of them gets a request, and one that is away.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use sluicegate_testkit::raw_socket::{closed_address, serve_connections};
use sluicegate_testkit::{UpstreamRecorder, UpstreamResponse, eventually};

use super::running::{Sluicegate, write_certificate};

fn named(name: &'static str) -> UpstreamRecorder {
    UpstreamRecorder::answering(move |_| UpstreamResponse::ok(name))
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
    assert_eq!(sluicegate.get("/api/x", &[]).body(), "api");
    assert_eq!(sluicegate.get("/apix", &[]).body(), "rest");
    let to_admin = b"GET /x HTTP/1.1\r\nHost: ADMIN.example\r\nConnection: close\r\n\r\n";
    assert_eq!(sluicegate.exchange(to_admin).body(), "admin");
}

#[test]
fn servers_take_turns_and_one_that_is_away_costs_nobody_an_answer() {
    let (one, other) = (named("one"), named("other"));
    let nobody = closed_address();
    let sluicegate = Sluicegate::start(&config(&format!(
        "  upstream: ['http://{}', 'http://{nobody}', 'http://{}']",
        one.address, other.address
    )));
    let answers: Vec<_> = (0..30).map(|_| sluicegate.get("/", &[])).collect();
    assert!(
        answers.iter().all(|answer| answer.status() == 200),
        "{answers:?}"
    );
    for name in ["one", "other"] {
        assert!(
            answers
                .iter()
                .filter(|answer| answer.body() == name)
                .count()
                >= 5,
            "{name}"
        );
    }
}

#[test]
fn nobody_to_ask_is_502_and_nobody_answering_is_504() {
    let nobody = closed_address();
    let sluicegate = Sluicegate::start(&config(&format!("  upstream: 'http://{nobody}'")));
    assert_eq!(sluicegate.get("/", &[]).status(), 502);

    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let sluicegate = Sluicegate::start(&config(&format!(
        "  upstream: 'http://{address}'\n  timeouts: {{ request: 300ms }}"
    )));
    assert_eq!(sluicegate.get("/", &[]).status(), 504);
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
    let statuses: Vec<u16> = (0..4).map(|_| sluicegate.get("/", &[]).status()).collect();
    assert_eq!(statuses, [200, 200, 200, 504]);
    server.join().unwrap();
}

/// A server that answers once on each connection and then closes it without a word.
#[test]
fn a_connection_that_was_closed_while_idle_costs_a_repeatable_request_nothing() {
    let address = serve_connections(|_, mut stream| {
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    });
    let sluicegate = Sluicegate::start(&config(&format!(
        "  upstream: 'http://{address}'\n  workers: 1"
    )));
    for _ in 0..50 {
        let answer = sluicegate.get("/", &[]);
        assert_eq!(answer.status(), 200, "{answer}");
    }
}

/// The server behind is another Sluicegate with a certificate of its own.
#[test]
fn another_file_of_authorities_is_taken_over() {
    let directory = tempfile::tempdir().unwrap();
    let other = write_certificate(directory.path(), "localhost");
    let own = write_certificate(directory.path(), "localhost");
    std::fs::write(
        directory.path().join("sluicegate.yaml"),
        config("  tls: { cert: cert.pem, key: key.pem }"),
    )
    .unwrap();
    let server = Sluicegate::start_in(directory);

    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("ca.pem"), other).unwrap();
    let port = server.proxy.port();
    let trusting = config(&format!(
        "  upstream: 'https://localhost:{port}'\n  upstream_ca_file: ca.pem"
    ));
    std::fs::write(directory.path().join("sluicegate.yaml"), trusting).unwrap();
    let sluicegate = Sluicegate::start_in(directory);
    assert_eq!(
        sluicegate.get("/", &[]).status(),
        502,
        "it is signed by nobody we know"
    );
    std::fs::write(sluicegate.file("ca.pem"), own).unwrap();
    eventually("its certificate is trusted", || {
        sluicegate.get("/", &[]).status() == 200
    });
}
