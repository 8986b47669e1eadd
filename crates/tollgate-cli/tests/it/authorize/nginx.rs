//! A real nginx with the configuration of the guide.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::LIMITS;
use crate::running::{LONGEST, Tollgate, eventually, header, status};

const GUIDE: &str = include_str!("../../../../../docs/decisions.md");

/// A running nginx, ended with the test.
struct Nginx {
    child: Child,
    address: SocketAddr,
    directory: TempDir,
}

impl Nginx {
    /// In front of a server that says which target it was asked for.
    fn start(tollgate: &Tollgate) -> Self {
        let [front, back] = free_ports();
        let block = GUIDE.split_once("```nginx\n").and_then(|(_, rest)| rest.split_once("```")).unwrap().0;
        let block = block.replace("127.0.0.1:8081", &tollgate.decisions.unwrap().to_string());
        let block = block.replace("127.0.0.1:3000", &back.to_string());
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path().display();
        let config = format!(
            "user root;\nworker_processes 1;\npid {at}/pid;\nerror_log {at}/error.log warn;\ndaemon off;\n\
             events {{ worker_connections 256; }}\n\
             http {{\n access_log off;\n client_body_temp_path {at}/body;\n proxy_temp_path {at}/proxy;\n\
             fastcgi_temp_path {at}/fastcgi;\n uwsgi_temp_path {at}/uwsgi;\n scgi_temp_path {at}/scgi;\n\
             server {{ listen {front};\n{block}\n }}\n\
             server {{ listen {back};\n location / {{ return 200 \"served $request_uri\"; }}\n }}\n}}\n"
        );
        std::fs::write(directory.path().join("nginx.conf"), config).unwrap();
        let mut nginx = Command::new("nginx");
        nginx.arg("-p").arg(directory.path()).arg("-c").arg(directory.path().join("nginx.conf"));
        let child = nginx.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("nginx is installed");
        let nginx = Self { child, address: front, directory };
        eventually("nginx listens", || TcpStream::connect(front).is_ok() && TcpStream::connect(back).is_ok());
        nginx
    }

    fn ask(&self, method: &str, target: &str, headers: &[&str]) -> String {
        let lines: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(LONGEST)).unwrap();
        write!(stream, "{method} {target} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n{lines}\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn errors(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("error.log")).unwrap_or_default()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Its worker ends with it.
        let _ = Command::new("kill").args(["-s", "TERM", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
    }
}

/// Ports that were free a moment ago.
fn free_ports() -> [SocketAddr; 2] {
    let both = [0; 2].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    both.map(|listener| listener.local_addr().unwrap())
}

#[test]
fn nginx_lets_requests_pass_and_tells_its_client_429_and_when_to_come_back() {
    let tollgate = Tollgate::start(LIMITS);
    let nginx = Nginx::start(&tollgate);
    for _ in 0..2 {
        let passed = nginx.ask("GET", "/x?y=1", &[]);
        assert!(status(&passed) == 200 && passed.contains("served /x?y=1"), "{passed} {}", nginx.errors());
    }
    let refused = nginx.ask("GET", "/x", &[]);
    assert_eq!(status(&refused), 429, "{refused} {}", nginx.errors());
    let wait: u64 = header(&refused, "retry-after").expect("it says when").parse().unwrap();
    assert!((3_000..=3_600).contains(&wait), "{refused}");
}

#[test]
fn what_a_client_says_about_itself_changes_nothing_behind_nginx() {
    let tollgate = Tollgate::start(LIMITS);
    let nginx = Nginx::start(&tollgate);
    let claims = |turn: usize| {
        let address = format!("203.0.113.{turn}");
        [
            format!("X-Forwarded-For: {address}"),
            format!("X-Real-IP: {address}"),
            format!("Forwarded: for={address}"),
            "X-Original-Method: GET".to_owned(),
            format!("X-Original-URI: /free/{turn}"),
            "X-Original-Host: b.example".to_owned(),
            "X-Forwarded-Method: GET".to_owned(),
            "X-Forwarded-Uri: /free".to_owned(),
            "X-Forwarded-Host: b.example".to_owned(),
        ]
    };
    let sign_in = |turn: usize| {
        let lines = claims(turn);
        status(&nginx.ask("POST", "/signin", &lines.each_ref().map(String::as_str)))
    };
    let answers: Vec<u16> = (0..4).map(sign_in).collect();
    assert_eq!(answers, [200, 429, 429, 429], "{}", nginx.errors());
}

#[test]
fn what_is_refused_for_good_stays_403_behind_nginx() {
    let tollgate = Tollgate::start(LIMITS);
    let nginx = Nginx::start(&tollgate);
    let refused = nginx.ask("GET", "/a%2Fb", &[]);
    assert_eq!((status(&refused), header(&refused, "retry-after")), (403, None), "{refused} {}", nginx.errors());
}
