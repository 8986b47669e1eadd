//! A Redis server for the tests of dialing.

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;

use super::super::{ClientCert, Endpoint};

/// A server that stops when it goes out of scope.
pub(super) struct Server {
    process: Child,
    pub(super) port: u16,
    _directory: TempDir,
}

impl Server {
    /// Starts one with these arguments besides; `{port}` in them is its port.
    pub(super) fn start(arguments: &[&str]) -> Self {
        const ATTEMPTS: usize = 20;
        // Somebody else may take a port between our look and its bind.
        (0..ATTEMPTS).find_map(|_| Self::start_on(free_port(), arguments)).expect("one of twenty ports is free")
    }

    /// Starts one for TLS, with certificates of `authority`.
    pub(super) fn start_with_tls(authority: &Authority, arguments: &[&str]) -> Self {
        let own = authority.certify("server");
        let [ca, cert, key] = [&authority.ca_file, &own.cert_file, &own.key_file].map(|path| path.to_str().unwrap());
        let files = ["--tls-ca-cert-file", ca, "--tls-cert-file", cert, "--tls-key-file", key];
        Self::start(&[&["--tls-port", "{port}", "--port", "0"], &files[..], arguments].concat())
    }

    fn start_on(port: u16, arguments: &[&str]) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let port_text = port.to_string();
        let process = Command::new("redis-server")
            .args(["--port", &port_text, "--save", "", "--appendonly", "no", "--dir"])
            .arg(directory.path())
            .args(arguments.iter().map(|argument| argument.replace("{port}", &port_text)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut server = Self { process, port, _directory: directory };
        server.is_up().then_some(server)
    }

    pub(super) fn endpoint(&self) -> Endpoint {
        Endpoint::new("127.0.0.1", self.port)
    }

    fn is_up(&mut self) -> bool {
        let until = Instant::now() + Duration::from_secs(10);
        while Instant::now() < until {
            if self.process.try_wait().unwrap().is_some() {
                return false;
            }
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return true;
            }
            // bounded wait: the server is starting.
            thread::sleep(Duration::from_millis(5));
        }
        panic!("redis-server does not listen on {}", self.port);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Makes certificates for 127.0.0.1 and `redis.test`.
pub(super) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    pub(super) ca_file: PathBuf,
    directory: TempDir,
}

impl Authority {
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        // With the name that its certificates bear by default, they would pass for signed by themselves.
        params.distinguished_name.push(DnType::CommonName, "authority of a test");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let ca_file = directory.path().join("ca.pem");
        fs::write(&ca_file, issuer.pem()).unwrap();
        Self { issuer, ca_file, directory }
    }

    pub(super) fn certify(&self, whom: &str) -> ClientCert {
        let key = KeyPair::generate().unwrap();
        let names = ["127.0.0.1", "redis.test"].map(String::from);
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &self.issuer).unwrap();
        let [cert_file, key_file] = ["crt", "key"].map(|end| self.directory.path().join(format!("{whom}.{end}")));
        fs::write(&cert_file, certificate.pem()).unwrap();
        fs::write(&key_file, key.serialize_pem()).unwrap();
        ClientCert { cert_file, key_file }
    }
}
