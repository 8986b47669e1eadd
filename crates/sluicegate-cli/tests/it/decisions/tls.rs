//! The decision service over TLS, asked by curl and redis-cli, with and without certificates of their own.

use std::fs;
use std::path::Path;
use std::process::Command;

use sluicegate_testkit::TlsFiles;

use super::super::running::{Sluicegate, eventually};

const CERTIFIED: &str = "tls: { cert: server.pem, key: server.key, client_ca_file: authority.pem }";
const OPEN: &str = "tls: { cert: server.pem, key: server.key }";

/// The three doors, with files of these.
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

/// Who asks: trusting this authority, and with or without a certificate of that.
struct Asker<'a> {
    trusts: &'a TlsFiles,
    shows: Option<&'a TlsFiles>,
}

impl Asker<'_> {
    fn curl(&self, arguments: &[&str]) -> Vec<u8> {
        let mut command = Command::new("curl");
        command
            .args(["-sS", "--max-time", "20", "--cacert"])
            .arg(self.trusts.authority());
        if let Some(own) = self.shows {
            command
                .arg("--cert")
                .arg(own.client_certificate())
                .arg("--key")
                .arg(own.client_key());
        }
        command.args(arguments).output().unwrap().stdout
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
        if let Some(own) = self.shows {
            command
                .arg("--cert")
                .arg(own.client_certificate())
                .arg("--key")
                .arg(own.client_key());
        }
        let output = command.arg("PING").output().unwrap();
        output.stdout == b"PONG\n"
    }

    fn all(&self, sluicegate: &Sluicegate) -> [bool; 3] {
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
    assert_eq!(
        Asker {
            trusts: &own,
            shows: None
        }
        .all(&sluicegate),
        [true; 3]
    );
    assert_eq!(
        Asker {
            trusts: &others,
            shows: None
        }
        .all(&sluicegate),
        [false; 3],
        "a stranger's certificate"
    );
    let plain = super::exchange(
        &sluicegate,
        super::request("/v1/check", &[], "{}").as_bytes(),
    );
    assert!(!plain.starts_with("HTTP/"), "{plain}");
}

#[test]
fn whoever_shows_no_certificate_of_ours_is_not_let_in() {
    let (own, others) = (TlsFiles::generate(), TlsFiles::generate());
    let sluicegate = start(&own, CERTIFIED);
    assert_eq!(
        Asker {
            trusts: &own,
            shows: Some(&own)
        }
        .all(&sluicegate),
        [true; 3]
    );
    assert_eq!(
        Asker {
            trusts: &own,
            shows: None
        }
        .all(&sluicegate),
        [false; 3]
    );
    assert_eq!(
        Asker {
            trusts: &own,
            shows: Some(&others)
        }
        .all(&sluicegate),
        [false; 3]
    );
    assert!(sluicegate.metric("sluicegate_connections_refused_total{reason=\"tls\"}") >= 6);
}

#[test]
fn another_certificate_is_shown_without_a_restart() {
    let (first, second) = (TlsFiles::generate(), TlsFiles::generate());
    let sluicegate = start(&first, CERTIFIED);
    assert_eq!(
        Asker {
            trusts: &first,
            shows: Some(&first)
        }
        .all(&sluicegate),
        [true; 3]
    );
    copy(&second, &sluicegate.file(""));
    let asker = Asker {
        trusts: &second,
        shows: Some(&second),
    };
    eventually("the new files are in force", || {
        asker.all(&sluicegate) == [true; 3]
    });
    assert_eq!(
        Asker {
            trusts: &second,
            shows: Some(&first)
        }
        .all(&sluicegate),
        [false; 3]
    );
}
