//! The same unusual requests to nginx, HAProxy, Envoy and Sluicegate, each as it is by default:
//! `docs/defaults.md` says which of them the server behind gets. `SLUICEGATE_UPDATE=1` writes what
//! was measured into the page.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use sluicegate_testkit::{UpstreamRecorder, eventually, free_port, needs, raw_socket};

use super::running::{LoggedProcess, Sluicegate, system_path};

/// One request, and the target or header by which it is known behind a proxy.
struct Unusual {
    /// As the page names it.
    name: &'static str,
    target: String,
    /// Method and lines; the target is put between the method and the version.
    method: &'static str,
    lines: Vec<String>,
    body: &'static str,
    /// The header that is asked for behind the proxy.
    watched: Option<&'static str>,
}

impl Unusual {
    fn get(name: &'static str, target: impl Into<String>) -> Self {
        Self {
            name,
            target: target.into(),
            method: "GET",
            lines: vec!["Host: a.example".to_owned()],
            body: "",
            watched: None,
        }
    }

    fn with(mut self, lines: &[&str]) -> Self {
        self.lines.extend(lines.iter().map(ToString::to_string));
        self
    }

    fn to_bytes(&self, line_end: &str) -> Vec<u8> {
        let first = format!("{} {} HTTP/1.1", self.method, self.target);
        let lines = [&first]
            .into_iter()
            .chain(&self.lines)
            .map(String::as_str)
            .chain(["Connection: close", ""]);
        let head: String = lines.map(|line| format!("{line}{line_end}")).collect();
        [head.as_bytes(), self.body.as_bytes()].concat()
    }
}

fn unusual_requests() -> Vec<Unusual> {
    let mut all = unusual_targets();
    all.extend(unusual_headers());
    all.extend(unusual_bodies());
    all
}

fn unusual_targets() -> Vec<Unusual> {
    let long = format!("/{}", "a".repeat(10 << 10));
    vec![
        Unusual::get("`/a/../b`", "/a/../b"),
        Unusual::get("`/a/%2e%2e/b`", "/a/%2e%2e/b"),
        Unusual::get("`//b`", "//b"),
        Unusual::get("`/%62`", "/%62"),
        Unusual::get("`/a%2fb`", "/a%2fb"),
        Unusual::get("`/a\\b`", "/a\\b"),
        Unusual::get("`/%00`", "/%00"),
        Unusual::get("`/%c0%af`", "/%c0%af"),
        Unusual::get("`/a#b`", "/a#b"),
        Unusual::get("a target of 10 KiB", long),
        Unusual {
            method: "get",
            ..Unusual::get("the method `get`", "/")
        },
    ]
}

fn unusual_headers() -> Vec<Unusual> {
    let without_host = |name| Unusual {
        lines: Vec::new(),
        ..Unusual::get(name, "/")
    };
    let with = |name, lines: &[&str], watched| Unusual {
        watched: Some(watched),
        ..Unusual::get(name, "/").with(lines)
    };
    let long = format!("X-A: {}", "a".repeat(20 << 10));
    let many: Vec<String> = (0..150).map(|number| format!("X-{number}: a")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    vec![
        without_host("no `Host`"),
        without_host("two `Host` headers").with(&["Host: a.example", "Host: b.example"]),
        with("`X_A: 1`", &["X_A: 1"], "x_a"),
        with("`X-A : 1`", &["X-A : 1"], "x-a"),
        with(
            "a header that goes on in the next line",
            &["X-A: 1", " 2"],
            "x-a",
        ),
        with("a NUL in a header", &["X-A: 1\0"], "x-a"),
        with(
            "`X-Original-URL: /b`",
            &["X-Original-URL: /b"],
            "x-original-url",
        ),
        with("a header of 20 KiB", &[&long], "x-a"),
        with("150 headers", &many, "x-149"),
    ]
}

fn unusual_bodies() -> Vec<Unusual> {
    let post = |name, lines: &[&str], body| Unusual {
        method: "POST",
        body,
        ..Unusual::get(name, "/").with(lines)
    };
    let chunks = "1\r\na\r\n0\r\n\r\n";
    vec![
        post(
            "`Content-Length` and `Transfer-Encoding`",
            &["Content-Length: 5", "Transfer-Encoding: chunked"],
            chunks,
        ),
        post(
            "`Content-Length` twice, the same",
            &["Content-Length: 1", "Content-Length: 1"],
            "a",
        ),
        post("`Content-Length: +1`", &["Content-Length: +1"], "a"),
        post(
            "`Transfer-Encoding: chunked, chunked`",
            &["Transfer-Encoding: chunked, chunked"],
            chunks,
        ),
        post(
            "`Transfer-Encoding: xchunked`",
            &["Transfer-Encoding: xchunked"],
            chunks,
        ),
    ]
}

/// What became of it, in the words of the page.
fn outcome(
    proxy: SocketAddr,
    upstream: &UpstreamRecorder,
    request: &Unusual,
    bytes: &[u8],
) -> String {
    let before = upstream.count();
    let response = raw_socket::exchange(proxy, bytes);
    let requests = upstream.requests();
    let Some(arrived) = requests.get(before) else {
        return if response.is_empty() {
            "closed".to_owned()
        } else {
            response.status().to_string()
        };
    };
    if request
        .watched
        .is_some_and(|header| arrived.header(header).is_none())
    {
        return "passes without it".to_owned();
    }
    if arrived.target != request.target {
        return format!("passes as `{}`", arrived.target);
    }
    "passes".to_owned()
}

fn outcomes(proxy: SocketAddr, upstream: &UpstreamRecorder) -> Vec<(&'static str, String)> {
    let mut all: Vec<(&str, String)> = unusual_requests()
        .iter()
        .map(|request| {
            let bytes = request.to_bytes("\r\n");
            (request.name, outcome(proxy, upstream, request, &bytes))
        })
        .collect();
    let plain = Unusual::get("lines that end in LF alone", "/");
    let bytes = plain.to_bytes("\n");
    all.push((plain.name, outcome(proxy, upstream, &plain, &bytes)));
    all
}

fn page() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/defaults.md")
}

/// Compares what was measured with a column of the page, or writes it there.
fn check_column(program: &str, measured: &[(&str, String)]) {
    let text = fs::read_to_string(page()).unwrap();
    let header = text
        .lines()
        .find(|line| line.starts_with("| request |"))
        .expect("the page has a table of requests");
    let column = header
        .split('|')
        .position(|cell| cell.trim().starts_with(program))
        .expect("the page has a column for the program");
    let mut written = text.clone();
    let mut wrong: Vec<String> = Vec::new();
    for (name, outcome) in measured {
        let row = text.lines().find(|line| {
            let first = line
                .strip_prefix("| ")
                .and_then(|rest| rest.split(" |").next());
            first == Some(*name)
        });
        let row = row.unwrap_or_else(|| panic!("{name} is not on the page"));
        let mut cells: Vec<&str> = row.split('|').collect();
        if cells[column].trim() != outcome {
            wrong.push(format!("{name}: {outcome}, not {}", cells[column].trim()));
            let cell = format!(" {outcome} ");
            cells[column] = &cell;
            written = written.replace(row, &cells.join("|"));
        }
    }
    if std::env::var_os("SLUICEGATE_UPDATE").is_some() {
        fs::write(page(), written).unwrap();
    } else {
        assert!(wrong.is_empty(), "{program}: {wrong:#?}");
    }
}

/// Another proxy in front of the server, and the version that it says it has.
struct Peer {
    program: &'static str,
    command: Command,
    file: &'static str,
    config: &'static str,
    /// The version on the page. Others may differ, and are measured all the same.
    version: &'static str,
    version_argument: &'static str,
}

/// Nothing but what each needs to forward.
const NGINX: &str = "
daemon off;
master_process off;
pid nginx.pid;
error_log stderr;
events {}
http {
    access_log off;
    server { listen 127.0.0.1:8000; location / { proxy_pass http://127.0.0.1:3000; } }
}
";

const HAPROXY: &str = "
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend www
    bind 127.0.0.1:8000
    default_backend app
backend app
    server one 127.0.0.1:3000
";

const ENVOY: &str = r#"
static_resources:
  listeners:
    - address: { socket_address: { address: 127.0.0.1, port_value: 8000 } }
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: www
                route_config:
                  virtual_hosts: [{ name: all, domains: ["*"], routes: [{ match: { prefix: "/" }, route: { cluster: app } }] }]
                http_filters:
                  - name: envoy.filters.http.router
                    typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }
  clusters:
    - name: app
      load_assignment:
        cluster_name: app
        endpoints: [{ lb_endpoints: [{ endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: 3000 } } } }] }]
"#;

impl Peer {
    fn is_that_of_the_page(&self) -> bool {
        let mut command = Command::new(self.command.get_program());
        command
            .arg(self.version_argument)
            .env("PATH", system_path());
        let output = command.output().unwrap();
        let printed = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&printed).contains(self.version)
    }

    fn check(mut self) {
        let is_that_of_the_page = self.is_that_of_the_page();
        let upstream = UpstreamRecorder::start();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let directory = tempfile::tempdir().unwrap();
        let config = self
            .config
            .replace(
                "port_value: 8000",
                &format!("port_value: {}", address.port()),
            )
            .replace(
                "port_value: 3000",
                &format!("port_value: {}", upstream.address.port()),
            )
            .replace("127.0.0.1:8000", &address.to_string())
            .replace("127.0.0.1:3000", &upstream.address.to_string());
        fs::write(directory.path().join(self.file), config).unwrap();
        let command = self
            .command
            .env("PATH", system_path())
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let _process = LoggedProcess::start(command, directory);
        eventually("it listens", || TcpStream::connect(address).is_ok());
        let measured = outcomes(address, &upstream);
        if is_that_of_the_page {
            check_column(self.program, &measured);
        } else {
            println!("{} is not {}: {measured:#?}", self.program, self.version);
        }
    }
}

#[test]
fn unusual_requests_meet_what_the_page_says_of_nginx() {
    let mut command = Command::new("nginx");
    command.args(["-p", ".", "-c", "nginx.conf", "-e", "stderr"]);
    let nginx = Peer {
        program: "nginx",
        command,
        file: "nginx.conf",
        config: NGINX,
        version: "nginx/1.22.",
        version_argument: "-v",
    };
    nginx.check();
}

#[test]
fn unusual_requests_meet_what_the_page_says_of_haproxy() {
    let mut command = Command::new("haproxy");
    command.args(["-db", "-f", "haproxy.cfg"]);
    let haproxy = Peer {
        program: "HAProxy",
        command,
        file: "haproxy.cfg",
        config: HAPROXY,
        version: "version 2.6.",
        version_argument: "-v",
    };
    haproxy.check();
}

#[test]
#[ignore = "needs Envoy"]
fn unusual_requests_meet_what_the_page_says_of_envoy() {
    let mut command = Command::new(needs::program("SLUICEGATE_ENVOY"));
    command.args([
        "-c",
        "envoy.yaml",
        "--use-dynamic-base-id",
        "--log-level",
        "warn",
    ]);
    let envoy = Peer {
        program: "Envoy",
        command,
        file: "envoy.yaml",
        config: ENVOY,
        version: "/1.40.",
        version_argument: "--version",
    };
    envoy.check();
}

#[test]
fn unusual_requests_meet_what_the_page_says_of_sluicegate() {
    let upstream = UpstreamRecorder::start();
    let sluicegate = Sluicegate::in_front_of(&upstream.url());
    check_column("Sluicegate", &outcomes(sluicegate.proxy, &upstream));
}
