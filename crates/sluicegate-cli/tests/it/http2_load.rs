//! Many streams on many connections, driven by h2load.

use std::process::Command;

use sluicegate_testkit::{UpstreamProtocol, UpstreamRecorder};

use super::running::{Sluicegate, write_certificate};

const REQUESTS: usize = 5_000;

fn config(upstream: &UpstreamRecorder, tls: &str, burst: usize) -> String {
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

/// The report of h2load.
struct LoadReport(String);

impl LoadReport {
    /// The line that begins with a word.
    #[track_caller]
    fn line(&self, word: &str) -> &str {
        let Self(report) = self;
        report
            .lines()
            .find(|line| line.starts_with(word))
            .unwrap_or_else(|| panic!("{word} in {report}"))
    }
}

fn load(url: &str) -> LoadReport {
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
    let report = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{report}");
    LoadReport(report)
}

fn all_succeeded() -> String {
    format!(
        "requests: {REQUESTS} total, {REQUESTS} started, {REQUESTS} done, {REQUESTS} succeeded, 0 failed, 0 errored, 0 timeout"
    )
}

#[test]
fn every_stream_is_answered_without_tls() {
    for protocol in UpstreamProtocol::ALL {
        let upstream = UpstreamRecorder::start_with(protocol);
        let sluicegate = Sluicegate::start(&config(&upstream, "", 1_000_000));
        let report = load(&format!("http://{}/", sluicegate.proxy));
        assert_eq!(report.line("requests:"), all_succeeded(), "{protocol:?}");
        assert_eq!(upstream.count(), REQUESTS);
    }
}

#[test]
fn every_stream_is_answered_with_tls() {
    let upstream = UpstreamRecorder::start();
    let directory = tempfile::tempdir().unwrap();
    write_certificate(directory.path(), "127.0.0.1");
    let config = config(
        &upstream,
        ", tls: { cert: cert.pem, key: key.pem }",
        1_000_000,
    );
    std::fs::write(directory.path().join("sluicegate.yaml"), config).unwrap();
    let sluicegate = Sluicegate::start_in(directory);
    let report = load(&format!("https://{}/", sluicegate.proxy));
    assert_eq!(report.line("requests:"), all_succeeded());
    assert_eq!(
        report.line("Application protocol:"),
        "Application protocol: h2"
    );
    assert_eq!(upstream.count(), REQUESTS);
}

/// Every answer is one of two, and exactly as many pass as the limit allows.
#[test]
fn over_many_streams_a_limit_is_exact() {
    let upstream = UpstreamRecorder::start();
    let sluicegate = Sluicegate::start(&config(&upstream, "", 1_234));
    let report = load(&format!("http://{}/", sluicegate.proxy));
    let refused = REQUESTS - 1_234;
    assert_eq!(
        report.line("status codes:"),
        format!("status codes: 1234 2xx, 0 3xx, {refused} 4xx, 0 5xx")
    );
    assert_eq!(upstream.count(), 1_234);
}
