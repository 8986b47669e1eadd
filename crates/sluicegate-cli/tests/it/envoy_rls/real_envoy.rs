//! A real Envoy with the example's configuration, which asks us about every request.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;

use sluicegate_testkit::{
    HttpRequest, HttpResponse, UpstreamRecorder, eventually, free_port, needs,
};

use crate::running::{LoggedProcess, Sluicegate};

/// A running Envoy.
struct Envoy {
    process: LoggedProcess,
    address: SocketAddr,
}

impl Envoy {
    /// The configuration of the example, with other ports.
    fn start(program: &PathBuf, upstream: &UpstreamRecorder, sluicegate: SocketAddr) -> Self {
        let example = include_str!("../../../../../examples/envoy/envoy.yaml");
        Self::start_with(example, program, upstream, sluicegate)
    }

    fn start_with(
        example: &str,
        program: &PathBuf,
        upstream: &UpstreamRecorder,
        sluicegate: SocketAddr,
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let ports = [
            ("port_value: 10000", address.port().to_string()),
            ("port_value: 3000", upstream.address.port().to_string()),
            ("port_value: 8082", sluicegate.port().to_string()),
            // A busy machine is not the fault of the one who is asked.
            ("timeout: 0.2s", "5s".to_owned()),
        ];
        let config = ports.iter().fold(example.to_owned(), |config, (from, to)| {
            assert!(config.contains(from), "{from}");
            let key = from.split_once(' ').unwrap().0;
            config.replace(from, &format!("{key} {to}"))
        });
        let file = directory.path().join("envoy.yaml");
        fs::write(&file, config).unwrap();
        let access_log = fs::File::create(directory.path().join("access")).unwrap();
        let mut command = Command::new(program);
        command
            .arg("-c")
            .arg(&file)
            .args(["--disable-hot-restart", "--concurrency", "1"])
            .args(["-l", "warning"])
            .stdout(access_log);
        let process = LoggedProcess::start(&mut command, directory);
        eventually("Envoy listens", || TcpStream::connect(address).is_ok());
        Self { process, address }
    }

    fn get(&self, path: &str, user: Option<&str>) -> HttpResponse {
        let user: Vec<String> = user
            .map(|user| format!("x-user: {user}"))
            .into_iter()
            .collect();
        HttpRequest::get(path).headers(&user).send(self.address)
    }

    /// Its access log.
    fn access(&self) -> String {
        fs::read_to_string(self.process.directory.path().join("access")).unwrap()
    }

    fn statuses(&self, path: &str, user: Option<&str>, count: usize) -> Vec<u16> {
        (0..count).map(|_| self.get(path, user).status()).collect()
    }
}

/// The example's limits, behind a port.
fn example(port: u16) -> String {
    let example = include_str!("../../../../../examples/envoy/sluicegate.yaml");
    let rest = "proxy: { listen: \"127.0.0.1:0\" }\nadmin: { listen: \"127.0.0.1:0\" }\n";
    example.replace("127.0.0.1:8082", &format!("127.0.0.1:{port}")) + rest
}

#[test]
#[ignore = "needs Envoy"]
fn envoy_lets_pass_what_we_let_pass_and_tells_its_clients_why() {
    let program = needs::program("SLUICEGATE_ENVOY");
    let upstream = UpstreamRecorder::start();
    let sluicegate = Sluicegate::start(&example(0));
    let envoy = Envoy::start(&program, &upstream, sluicegate.grpc.unwrap());
    eventually("Envoy reaches Sluicegate", || {
        envoy.get("/", None).header("x-ratelimit-limit").is_some()
    });
    let first = envoy.get("/", Some("ann"));
    assert_eq!(
        (first.status(), first.header("x-ratelimit-remaining")),
        (200, Some("2")),
        "{first}"
    );
    assert!(first.header("ratelimit").is_some(), "{first}");
    assert_eq!(envoy.statuses("/", Some("ann"), 3), [200, 200, 429]);
    let denied = envoy.get("/", Some("ann"));
    assert_eq!(
        denied.header("x-ratelimit-remaining"),
        Some("0"),
        "{denied}"
    );
    let wait: u64 = denied.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{denied}");
    assert_eq!(
        envoy.statuses("/", Some("bob"), 4),
        [200, 200, 200, 429],
        "each user has his own"
    );
    assert_eq!(
        envoy.statuses("/", Some("vip"), 6),
        [200, 200, 200, 200, 200, 429]
    );
    assert_eq!(
        envoy.statuses("/plan", None, 3),
        [200, 200, 429],
        "the plan of the route comes along"
    );
    assert_eq!(envoy.get("/", None).status(), 200);
    let passed = upstream
        .requests()
        .iter()
        .filter(|request| request.target == "/plan")
        .count();
    assert_eq!(passed, 2, "what is limited does not reach the service");
    eventually("the log says which limit it was", || {
        envoy.access().contains("429 / limited_by=per-user")
    });
    assert!(
        envoy.access().contains("200 / limited_by=-"),
        "{}",
        envoy.access()
    );
}

#[test]
#[ignore = "needs Envoy"]
fn without_us_envoy_does_as_it_is_told_and_asks_again_when_we_are_back() {
    let program = needs::program("SLUICEGATE_ENVOY");
    let upstream = UpstreamRecorder::start();
    let mut sluicegate = Sluicegate::start(&example(free_port()));
    let address = sluicegate.grpc.unwrap();
    let envoy = Envoy::start(&program, &upstream, address);
    eventually("Envoy reaches Sluicegate", || {
        envoy.get("/", None).header("x-ratelimit-limit").is_some()
    });
    assert_eq!(envoy.statuses("/", Some("ann"), 4), [200, 200, 200, 429]);
    sluicegate.signal("KILL");
    sluicegate.wait();
    assert_eq!(
        envoy.statuses("/", Some("ann"), 5),
        [200; 5],
        "nobody says no"
    );
    let _again = Sluicegate::start(&example(address.port()));
    eventually("Envoy asks again", || {
        envoy
            .get("/", Some("eve"))
            .header("x-ratelimit-limit")
            .is_some()
    });
    eventually("and is told no again", || {
        envoy.get("/", Some("eve")).status() == 429
    });
}

#[test]
#[ignore = "needs Envoy"]
fn without_us_envoy_refuses_if_it_is_told_to() {
    let program = needs::program("SLUICEGATE_ENVOY");
    let upstream = UpstreamRecorder::start();
    let mut sluicegate = Sluicegate::start(&example(free_port()));
    let address = sluicegate.grpc.unwrap();
    let open = include_str!("../../../../../examples/envoy/envoy.yaml");
    let closed = open.replace("failure_mode_deny: false", "failure_mode_deny: true");
    assert_ne!(open, closed);
    let envoy = Envoy::start_with(&closed, &program, &upstream, address);
    eventually("Envoy reaches Sluicegate", || {
        envoy.get("/", None).header("x-ratelimit-limit").is_some()
    });
    sluicegate.signal("KILL");
    sluicegate.wait();
    let before = upstream.count();
    assert_eq!(
        envoy.statuses("/", Some("ann"), 5),
        [500; 5],
        "nobody says yes"
    );
    assert_eq!(upstream.count(), before);
    let _again = Sluicegate::start(&example(address.port()));
    eventually("Envoy asks again", || {
        envoy.get("/", Some("eve")).status() == 200
    });
}
