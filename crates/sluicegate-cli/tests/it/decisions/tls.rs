//! The decision service over TLS, asked by curl and redis-cli, with and without certificates of their own.

use std::fs;
use std::path::Path;
use std::process::Command;

use sluicegate_testkit::{TlsFiles, eventually};

use super::super::running::Sluicegate;

const CERTIFIED: &str = "tls: { cert: server.pem, key: server.key, client_ca_file: authority.pem }";
const OPEN: &str = "tls: { cert: server.pem, key: server.key }";

/// The three listeners, with the certificates of these files.
fn start(files: &TlsFiles, tls: &str) -> Sluicegate {
    let directory = tempfile::tempdir().unwrap();
    copy(files, directory.path());
    let config = format!(
        "
proxy: {{ listen: '127.0.0.1:0' }}
admin: {{ listen: '127.0.0.1:0' }}
decisions:
  http: '127.0.0.1:0'
  grpc: '127.0.0.1:0'
  resp: '127.0.0.1:0'
  {tls}
limits:
  - {{ name: per-ip, key: [client_ip], rate: 1/h, burst: 1000 }}
"
    );
    fs::write(directory.path().join("sluicegate.yaml"), config).unwrap();
    Sluicegate::start_in(directory)
}

fn copy(files: &TlsFiles, to: &Path) {
    for file in [
        files.authority(),
        files.server_certificate(),
        files.server_key(),
    ] {
        fs::copy(&file, to.join(file.file_name().unwrap())).unwrap();
    }
}

/// True for each of HTTP, gRPC and the Redis protocol that answers a client which trusts the authority of
/// `trusts` and shows the certificate of `shows`.
fn asked_by(sluicegate: &Sluicegate, trusts: &TlsFiles, shows: Option<&TlsFiles>) -> [bool; 3] {
    TlsClient { trusts, shows }.ask_all(sluicegate)
}

struct TlsClient<'a> {
    trusts: &'a TlsFiles,
    shows: Option<&'a TlsFiles>,
}

impl TlsClient<'_> {
    fn curl(&self, arguments: &[&str]) -> Vec<u8> {
        let mut command = Command::new("curl");
        command
            .args(["-sS", "--max-time", "20", "--cacert"])
            .arg(self.trusts.authority());
        self.show_certificate(&mut command);
        command.args(arguments).output().unwrap().stdout
    }

    /// Both programs have the same options for it.
    fn show_certificate(&self, command: &mut Command) {
        if let Some(own) = self.shows {
            command
                .arg("--cert")
                .arg(own.client_certificate())
                .arg("--key")
                .arg(own.client_key());
        }
    }

    fn http(&self, sluicegate: &Sluicegate) -> bool {
        let url = format!("https://{}/v1/check", sluicegate.decisions.unwrap());
        let body = r#"{"limit": "per-ip", "key": ["203.0.113.7"]}"#;
        let answer = self.curl(&["-H", "Content-Type: application/json", "-d", body, &url]);
        String::from_utf8_lossy(&answer).contains("\"allowed\":true")
    }

    /// An empty message of health, over HTTP/2 as ALPN has it.
    fn grpc(&self, sluicegate: &Sluicegate) -> bool {
        let message = sluicegate.file("message");
        fs::write(&message, [0; 5]).unwrap();
        let url = format!(
            "https://{}/grpc.health.v1.Health/Check",
            sluicegate.grpc.unwrap()
        );
        let data = format!("@{}", message.display());
        let headers = ["-H", "Content-Type: application/grpc", "-H", "TE: trailers"];
        let answer =
            self.curl(&[&headers[..], &["--http2", "--data-binary", &data, &url]].concat());
        answer == [0, 0, 0, 0, 2, 8, 1]
    }

    fn resp(&self, sluicegate: &Sluicegate) -> bool {
        let address = sluicegate.resp.unwrap();
        let mut command = Command::new("timeout");
        command.args([
            "20",
            "redis-cli",
            "-h",
            "127.0.0.1",
            "-p",
            &address.port().to_string(),
            "--tls",
            "--cacert",
        ]);
        command.arg(self.trusts.authority());
        self.show_certificate(&mut command);
        let output = command.arg("PING").output().unwrap();
        output.stdout == b"PONG\n"
    }

    fn ask_all(&self, sluicegate: &Sluicegate) -> [bool; 3] {
        [
            self.http(sluicegate),
            self.grpc(sluicegate),
            self.resp(sluicegate),
        ]
    }
}

#[test]
fn every_door_speaks_tls_and_no_other() {
    let (own, others) = (TlsFiles::generate(), TlsFiles::generate());
    let sluicegate = start(&own, OPEN);
    assert_eq!(asked_by(&sluicegate, &own, None), [true; 3]);
    assert_eq!(
        asked_by(&sluicegate, &others, None),
        [false; 3],
        "a stranger's certificate"
    );
    let plain = super::exchange(
        &sluicegate,
        super::request("/v1/check", &[], "{}").as_bytes(),
    );
    assert!(!plain.text.starts_with("HTTP/"), "{plain}");
}

#[test]
fn whoever_shows_no_certificate_of_ours_is_not_let_in() {
    let (own, others) = (TlsFiles::generate(), TlsFiles::generate());
    let sluicegate = start(&own, CERTIFIED);
    assert_eq!(asked_by(&sluicegate, &own, Some(&own)), [true; 3]);
    assert_eq!(asked_by(&sluicegate, &own, None), [false; 3]);
    assert_eq!(asked_by(&sluicegate, &own, Some(&others)), [false; 3]);
    // A client learns of it a moment before it is counted.
    eventually("all six are counted", || {
        sluicegate.metric("sluicegate_connections_refused_total{reason=\"tls\"}") >= 6
    });
}

#[test]
fn another_certificate_is_shown_without_a_restart() {
    let (first, second) = (TlsFiles::generate(), TlsFiles::generate());
    let sluicegate = start(&first, CERTIFIED);
    assert_eq!(asked_by(&sluicegate, &first, Some(&first)), [true; 3]);
    copy(&second, &sluicegate.file(""));
    eventually("the new files are in force", || {
        asked_by(&sluicegate, &second, Some(&second)) == [true; 3]
    });
    assert_eq!(asked_by(&sluicegate, &second, Some(&first)), [false; 3]);
}
