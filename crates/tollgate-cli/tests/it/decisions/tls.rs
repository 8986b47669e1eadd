//! The decision service over TLS, asked by curl and redis-cli, with and without certificates of their own.

use std::fs;
use std::path::Path;
use std::process::Command;

use tollgate_testkit::TlsFiles;

use super::super::running::{Tollgate, eventually};

const CERTIFIED: &str = "tls: { cert: server.pem, key: server.key, client_ca_file: authority.pem }";
const OPEN: &str = "tls: { cert: server.pem, key: server.key }";

/// The three doors, with files of these.
fn start(files: &TlsFiles, tls: &str) -> Tollgate {
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
    fs::write(directory.path().join("tollgate.yaml"), config).unwrap();
    Tollgate::start_in(directory)
}

fn copy(files: &TlsFiles, to: &Path) {
    for file in [files.authority(), files.server_certificate(), files.server_key()] {
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
        command.args(["-sS", "--max-time", "20", "--cacert"]).arg(self.trusts.authority());
        if let Some(own) = self.shows {
            command.arg("--cert").arg(own.client_certificate()).arg("--key").arg(own.client_key());
        }
        command.args(arguments).output().unwrap().stdout
    }

    fn http(&self, tollgate: &Tollgate) -> bool {
        let url = format!("https://{}/v1/check", tollgate.decisions.unwrap());
        let body = r#"{"limit": "per-ip", "key": ["203.0.113.7"]}"#;
        let answer = self.curl(&["-H", "Content-Type: application/json", "-d", body, &url]);
        String::from_utf8_lossy(&answer).contains("\"allowed\":true")
    }

    /// An empty message of health, over HTTP/2 as ALPN has it.
    fn grpc(&self, tollgate: &Tollgate) -> bool {
        let message = tollgate.file("message");
        fs::write(&message, [0; 5]).unwrap();
        let url = format!("https://{}/grpc.health.v1.Health/Check", tollgate.grpc.unwrap());
        let data = format!("@{}", message.display());
        let headers = ["-H", "Content-Type: application/grpc", "-H", "TE: trailers"];
        let answer = self.curl(&[&headers[..], &["--http2", "--data-binary", &data, &url]].concat());
        answer == [0, 0, 0, 0, 2, 8, 1]
    }

    fn resp(&self, tollgate: &Tollgate) -> bool {
        let address = tollgate.resp.unwrap();
        let mut command = Command::new("timeout");
        command.args(["20", "redis-cli", "-h", "127.0.0.1", "-p", &address.port().to_string(), "--tls", "--cacert"]);
        command.arg(self.trusts.authority());
        if let Some(own) = self.shows {
            command.arg("--cert").arg(own.client_certificate()).arg("--key").arg(own.client_key());
        }
        let output = command.arg("PING").output().unwrap();
        output.stdout == b"PONG\n"
    }

    fn all(&self, tollgate: &Tollgate) -> [bool; 3] {
        [self.http(tollgate), self.grpc(tollgate), self.resp(tollgate)]
    }
}

#[test]
fn every_door_speaks_tls_and_no_other() {
    let (own, others) = (TlsFiles::generate(), TlsFiles::generate());
    let tollgate = start(&own, OPEN);
    assert_eq!(Asker { trusts: &own, shows: None }.all(&tollgate), [true; 3]);
    assert_eq!(Asker { trusts: &others, shows: None }.all(&tollgate), [false; 3], "a stranger's certificate");
    let plain = super::exchange(&tollgate, super::request("/v1/check", &[], "{}").as_bytes());
    assert!(!plain.starts_with("HTTP/"), "{plain}");
}

#[test]
fn whoever_shows_no_certificate_of_ours_is_not_let_in() {
    let (own, others) = (TlsFiles::generate(), TlsFiles::generate());
    let tollgate = start(&own, CERTIFIED);
    assert_eq!(Asker { trusts: &own, shows: Some(&own) }.all(&tollgate), [true; 3]);
    assert_eq!(Asker { trusts: &own, shows: None }.all(&tollgate), [false; 3]);
    assert_eq!(Asker { trusts: &own, shows: Some(&others) }.all(&tollgate), [false; 3]);
    assert!(tollgate.metric("tollgate_connections_refused_total{reason=\"tls\"}") >= 6);
}

#[test]
fn another_certificate_is_shown_without_a_restart() {
    let (first, second) = (TlsFiles::generate(), TlsFiles::generate());
    let tollgate = start(&first, CERTIFIED);
    assert_eq!(Asker { trusts: &first, shows: Some(&first) }.all(&tollgate), [true; 3]);
    copy(&second, &tollgate.file(""));
    let asker = Asker { trusts: &second, shows: Some(&second) };
    eventually("the new files are in force", || asker.all(&tollgate) == [true; 3]);
    assert_eq!(Asker { trusts: &second, shows: Some(&first) }.all(&tollgate), [false; 3]);
}
