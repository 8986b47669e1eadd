//! Real gateways, each run from the files of its example and as its README says, with Sluicegate to ask.

mod caddy;
mod envoy;
mod haproxy;
mod nginx;
mod traefik;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sluicegate_testkit::{
    HttpRequest, HttpResponse, STEP_TIMEOUT, UpstreamRecorder, eventually, free_port, needs,
};
use tempfile::TempDir;

use super::running::{Sluicegate, system_path};

/// The directory of a gateway in `examples`.
struct Example {
    readme: &'static str,
    /// The gateway's own files.
    files: &'static [(&'static str, &'static str)],
    sluicegate: &'static str,
    /// The variable in which `cargo xtask test` names the program; without one it is on the path.
    program: Option<&'static str>,
    /// How long the gateway waits for an answer, and settings with which it waits long.
    waits: &'static [(&'static str, &'static str)],
}

/// How long a gateway waits for an answer.
#[derive(Clone, Copy, PartialEq)]
enum Patience {
    AsWritten,
    /// A busy machine is not the fault of the one who is asked.
    Long,
}

/// The address of this machine at which gateways listen, and two more.
const HERE: Ipv4Addr = Ipv4Addr::LOCALHOST;
const ANN: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const BOB: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

/// A gateway in front of a service, and Sluicegate beside it.
struct Scene {
    example: &'static Example,
    upstream: UpstreamRecorder,
    /// Taken away in some tests.
    sluicegate: Option<Sluicegate>,
    asked_at: SocketAddr,
    gateway: Gateway,
}

impl Scene {
    fn start(example: &'static Example) -> Self {
        Self::start_with(example, |file| file)
    }

    /// The same with files that are not quite those of the example.
    fn start_with(example: &'static Example, edit: impl Fn(String) -> String) -> Self {
        let path = example.path();
        let upstream = UpstreamRecorder::start();
        let sluicegate = Sluicegate::start(&example.limits(free_port()));
        let asked_at = sluicegate.decisions.expect("it says where gateways ask");
        let ports = Ports {
            service: upstream.address.port(),
            sluicegate: asked_at.port(),
        };
        let gateway = Gateway::start(example, &path, ports, Patience::Long, edit);
        let scene = Self {
            example,
            upstream,
            sluicegate: Some(sluicegate),
            asked_at,
            gateway,
        };
        eventually("the gateway lets requests pass", || scene.get("/") == 200);
        scene
    }

    fn get(&self, target: &str) -> u16 {
        self.gateway.ask(HERE, "GET", target, &[]).status()
    }

    fn sign_in(&self, from: Ipv4Addr, headers: &[String]) -> u16 {
        let lines: Vec<&str> = headers.iter().map(String::as_str).collect();
        self.gateway
            .ask(from, "POST", "/signin?a=b", &lines)
            .status()
    }

    /// Ends Sluicegate without a warning.
    fn kill_sluicegate(&mut self) {
        let mut sluicegate = self.sluicegate.take().expect("it runs");
        sluicegate.signal("KILL");
        sluicegate.wait();
    }

    /// Starts Sluicegate where it was before.
    fn restart_sluicegate(&mut self) {
        self.sluicegate = Some(Sluicegate::start(
            &self.example.limits(self.asked_at.port()),
        ));
    }

    fn limited_clients_are_told_when_to_come_back(&self) {
        for from in [ANN, BOB] {
            let answers: Vec<u16> = (0..4).map(|_| self.sign_in(from, &[])).collect();
            assert_eq!(
                answers,
                [200, 200, 200, 429],
                "each client has its own: {from}"
            );
        }
        let refused = self.gateway.ask(ANN, "POST", "/signin", &[]);
        let wait: u64 = refused
            .header("retry-after")
            .expect("it says when")
            .parse()
            .unwrap();
        assert!((1..=360).contains(&wait), "{refused}");
        assert!(
            refused
                .header("ratelimit")
                .is_some_and(|value| value.starts_with("\"sign-in\";r=0;t=")),
            "{refused}"
        );
        assert!(refused.header("ratelimit-policy").is_some(), "{refused}");
        assert_eq!(
            self.gateway.ask(ANN, "GET", "/signin", &[]).status(),
            200,
            "another method, another limit"
        );
        let sign_ins = self
            .upstream
            .requests()
            .into_iter()
            .filter(|recorded| recorded.method == "POST")
            .count();
        assert_eq!(sign_ins, 6, "what is limited does not reach the service");
    }

    /// A client at the address of the gateway, too: that one is trusted.
    fn what_a_client_says_about_itself_changes_nothing(&self) {
        for from in [HERE, ANN] {
            // Envoy takes no request whose `Connection` names many headers.
            let is_taken = |answer: &u16| *answer != 400;
            let elsewhere: Vec<u16> = (0..5)
                .map(|turn| {
                    let claims = claims(turn, "POST", "/signin");
                    let lines: Vec<&str> = claims.iter().map(String::as_str).collect();
                    self.gateway.ask(from, "GET", "/free", &lines).status()
                })
                .filter(is_taken)
                .collect();
            assert!(
                elsewhere.len() >= 4 && elsewhere.iter().all(|answer| *answer == 200),
                "{from}: {elsewhere:?}"
            );
            let sign_ins = (0..9).map(|turn| self.sign_in(from, &claims(turn, "GET", "/free")));
            let answers: Vec<u16> = sign_ins.filter(is_taken).collect();
            let (passed, limited) = answers.split_at(3);
            assert_eq!(passed, [200; 3], "{from} signs in");
            assert!(
                limited.len() >= 3 && limited.iter().all(|answer| *answer == 429),
                "{from}: {answers:?}"
            );
        }
        assert_eq!(self.sign_in(BOB, &[]), 200, "and nobody else was charged");
    }

    /// With gateways that pass on the headers of an answer that is yes.
    fn responses_that_pass_tell_the_limit(&self) {
        let passed = self.gateway.ask(ANN, "GET", "/", &[]);
        assert!(
            passed.header("ratelimit").is_some() && passed.header("retry-after").is_none(),
            "{passed}"
        );
    }

    /// A path that no server should get; a later attempt would not pass either.
    fn what_is_refused_for_good_says_no_time(&self, expected: u16) {
        let refused = self.gateway.ask(ANN, "GET", "/a%2Fb", &[]);
        assert_eq!(
            (refused.status(), refused.header("retry-after")),
            (expected, None),
            "{refused}"
        );
    }

    fn without_sluicegate_clients_get(&mut self, expected: u16) {
        assert_eq!([0; 4].map(|_| self.sign_in(ANN, &[])), [200, 200, 200, 429]);
        self.kill_sluicegate();
        assert_eq!([0; 3].map(|_| self.sign_in(ANN, &[])), [expected; 3]);
        self.restart_sluicegate();
        eventually("the gateway asks again", || self.get("/") == 200);
        assert_eq!([0; 4].map(|_| self.sign_in(BOB, &[])), [200, 200, 200, 429]);
    }
}

/// With somebody in Sluicegate's place who listens and says nothing: a second attempt could charge a second time.
fn one_question_is_enough(example: &'static Example, expected: u16) {
    let path = example.path();
    let silent = TcpListener::bind((HERE, 0)).unwrap();
    let upstream = UpstreamRecorder::start();
    let ports = Ports {
        service: upstream.address.port(),
        sluicegate: silent.local_addr().unwrap().port(),
    };
    let gateway = Gateway::start(example, &path, ports, Patience::AsWritten, |file| file);
    eventually("the gateway listens", || {
        TcpStream::connect(gateway.address).is_ok()
    });
    let answer = gateway.ask(HERE, "GET", "/", &[]);
    assert_eq!(answer.status(), expected, "{answer}");
    silent.set_nonblocking(true).unwrap();
    let questions = silent.incoming().take_while(Result::is_ok).count();
    assert_eq!((questions, upstream.count()), (1, 0));
}

/// All that a client could say so that another address, path or method is believed; a little else each time.
fn claims(turn: usize, method: &str, target: &str) -> Vec<String> {
    let address = format!("203.0.113.{turn}");
    let mut claims = vec![
        format!("X-Forwarded-For: {address}"),
        format!("X-Real-IP: {address}"),
        format!("Forwarded: for={address}"),
        format!("True-Client-IP: {address}"),
        format!("X_Forwarded_For: {address}"),
    ];
    for set in ["X-Forwarded-", "X-Original-", "x_forwarded_"] {
        claims.extend([
            format!("{set}Method: {method}"),
            format!("{set}Uri: {target}/{turn}"),
            format!("{set}Host: {turn}.example"),
        ]);
    }
    claims.extend([
        format!("X-Original-URL: {target}"),
        format!("X-HTTP-Method-Override: {method}"),
    ]);
    match turn % 3 {
        // The same twice, as two lines.
        1 => claims.extend(claims.clone()),
        // Named as concerns of this connection alone, so that a gateway might take out its own.
        2 => {
            let names: Vec<&str> = claims
                .iter()
                .filter_map(|line| Some(line.split_once(':')?.0))
                .collect();
            let line = format!("Connection: close, {}", names.join(", "));
            claims.push(line);
        }
        _ => {}
    }
    claims
}

impl Example {
    /// Where its program is looked for: the path, with a directory of its own in front.
    fn path(&self) -> String {
        let path = system_path();
        let Some(variable) = self.program else {
            return path;
        };
        let program = needs::program(variable);
        let directory = program.parent().expect("a program is in a directory");
        format!("{}:{path}", directory.display())
    }

    /// The line of the README that runs the gateway.
    fn command(&self) -> &'static str {
        let block = self
            .readme
            .split_once("```sh\n")
            .and_then(|(_, rest)| rest.split_once("```"));
        let lines: Vec<&str> = block
            .expect("the README says how to run it")
            .0
            .lines()
            .collect();
        let ["sluicegate serve --config sluicegate.yaml", command] = lines[..] else {
            panic!("{lines:?}")
        };
        command
    }

    fn limits(&self, port: u16) -> String {
        assert!(
            self.sluicegate.contains("127.0.0.1:8081"),
            "{}",
            self.sluicegate
        );
        let rest = "proxy: { listen: \"127.0.0.1:0\" }\nadmin: { listen: \"127.0.0.1:0\" }\n";
        self.sluicegate
            .replace("127.0.0.1:8081", &format!("127.0.0.1:{port}"))
            + rest
    }
}

struct Ports {
    service: u16,
    sluicegate: u16,
}

/// A running gateway, ended with the test.
struct Gateway {
    child: Child,
    address: SocketAddr,
    directory: TempDir,
}

impl Gateway {
    fn start(
        example: &Example,
        path: &str,
        ports: Ports,
        patience: Patience,
        edit: impl Fn(String) -> String,
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let address = SocketAddr::from((HERE, free_port()));
        for (name, file) in example.files {
            let ports = [
                (8000, address.port()),
                (3000, ports.service),
                (8081, ports.sluicegate),
            ];
            // The name of a socket is the same on the whole machine, like a port.
            let file = file.replace(
                "abns@sluicegate",
                &format!("abns@sluicegate-{}", address.port()),
            );
            // All of them are found before any is written: a port may begin like another.
            let place = |place: usize| format!("<port {place}>");
            let file = ports
                .iter()
                .enumerate()
                .fold(file, |file, (at, (from, _))| {
                    let before = ["127.0.0.1:", "http://:", "port_value: "];
                    before.into_iter().fold(file, |file, before| {
                        file.replace(
                            &format!("{before}{from}"),
                            &(before.to_owned() + &place(at)),
                        )
                    })
                });
            let mut file = ports.iter().enumerate().fold(file, |file, (at, (_, to))| {
                file.replace(&place(at), &to.to_string())
            });
            if patience == Patience::Long {
                file = example.waits.iter().fold(file, |file, (as_written, long)| {
                    file.replace(as_written, long)
                });
            }
            fs::write(directory.path().join(name), edit(file)).unwrap();
        }
        let log = fs::File::create(directory.path().join("log")).unwrap();
        let child = Command::new("sh")
            .args(["-c", &format!("exec {}", example.command())])
            .current_dir(directory.path())
            .env("PATH", path)
            .env("PWD", directory.path())
            .env("HOME", directory.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        Self {
            child,
            address,
            directory,
        }
    }

    /// The response to a client at this address; empty while nobody listens.
    fn ask(&self, from: Ipv4Addr, method: &str, target: &str, headers: &[&str]) -> HttpResponse {
        let mut request = HttpRequest::new(method, target).from(from).headers(headers);
        if method == "POST" {
            request = request.body("body");
        }
        request.send(self.address)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let has_ended = |child: &mut Child| !child.try_wait().is_ok_and(|ended| ended.is_none());
        // Told first, so that workers end with it.
        if !has_ended(&mut self.child) {
            let _ = Command::new("kill")
                .args(["-s", "TERM", &self.child.id().to_string()])
                .status();
        }
        let deadline = Instant::now() + STEP_TIMEOUT;
        while !has_ended(&mut self.child) && Instant::now() < deadline {
            // bounded wait: the deadline is above
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!(
                "{}",
                fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
            );
        }
    }
}
