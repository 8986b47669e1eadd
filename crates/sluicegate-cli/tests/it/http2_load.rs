//! Many streams on many connections, driven by h2load.

use std::process::Command;

use super::running::Sluicegate;
use super::upstream::{Speaks, Upstream};

const REQUESTS: usize = 5_000;

fn config(upstream: &Upstream, tls: &str, burst: usize) -> String {
    format!(
        "
proxy: {{ listen: '127.0.0.1:0', upstream: '{}'{tls} }}
admin: off
limits:
  - {{ name: per-client, key: [client_ip], rate: 1/h, burst: {burst} }}
",
        upstream.url()
    )
}

/// What h2load says after so many requests.
struct Said(String);

impl Said {
    /// The line that begins with a word.
    #[track_caller]
    fn line(&self, word: &str) -> &str {
        let Self(said) = self;
        said.lines()
            .find(|line| line.starts_with(word))
            .unwrap_or_else(|| panic!("{word} in {said}"))
    }
}

fn load(url: &str) -> Said {
    let output = Command::new("h2load")
        .args([
            "-n",
            &REQUESTS.to_string(),
            "-c",
            "8",
            "-m",
            "32",
            "--connection-active-timeout=60",
            url,
        ])
        .output()
        .expect("h2load is installed (Debian: nghttp2-client)");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}");
    Said(said)
}

fn all_succeeded() -> String {
    format!(
        "requests: {REQUESTS} total, {REQUESTS} started, {REQUESTS} done, {REQUESTS} succeeded, 0 failed, 0 errored, 0 timeout"
    )
}

#[test]
fn every_stream_is_answered_without_tls() {
    for speaks in [Speaks::Http1, Speaks::Http2] {
        let upstream = Upstream::speaking(speaks, |_| {
            http::Response::new(http_body_util::Full::from("ok"))
        });
        let sluicegate = Sluicegate::start(&config(&upstream, "", 1_000_000));
        let said = load(&format!("http://{}/", sluicegate.proxy));
        assert_eq!(said.line("requests:"), all_succeeded(), "{speaks:?}");
        assert_eq!(upstream.count(), REQUESTS);
    }
}

#[test]
fn every_stream_is_answered_with_tls() {
    let upstream = Upstream::start();
    let directory = tempfile::tempdir().unwrap();
    let signed = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    std::fs::write(
        directory.path().join("key.pem"),
        signed.signing_key.serialize_pem(),
    )
    .unwrap();
    std::fs::write(directory.path().join("cert.pem"), signed.cert.pem()).unwrap();
    let config = config(
        &upstream,
        ", tls: { cert: cert.pem, key: key.pem }",
        1_000_000,
    );
    std::fs::write(directory.path().join("sluicegate.yaml"), config).unwrap();
    let sluicegate = Sluicegate::start_in(directory);
    let said = load(&format!("https://{}/", sluicegate.proxy));
    assert_eq!(said.line("requests:"), all_succeeded());
    assert_eq!(
        said.line("Application protocol:"),
        "Application protocol: h2"
    );
    assert_eq!(upstream.count(), REQUESTS);
}

/// Every answer is one of two, and exactly as many pass as the limit allows.
#[test]
fn over_many_streams_a_limit_is_exact() {
    let upstream = Upstream::start();
    let sluicegate = Sluicegate::start(&config(&upstream, "", 1_234));
    let said = load(&format!("http://{}/", sluicegate.proxy));
    let refused = REQUESTS - 1_234;
    assert_eq!(
        said.line("status codes:"),
        format!("status codes: 1234 2xx, 0 3xx, {refused} 4xx, 0 5xx")
    );
    assert_eq!(upstream.count(), 1_234);
}
