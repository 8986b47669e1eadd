//! Services in web frameworks that others have written, behind the proxy: whatever spelling a
//! request has, a handler is reached only by requests that its limit has counted.
//!
//! Every limit is spent first. From then on a response of a handler is a way around its limit.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use sluicegate_testkit::h2_frames::{Field, StreamEnd, exchange};
use sluicegate_testkit::{HttpRequest, needs, raw_socket};

use super::running::Sluicegate;

/// A service that runs until it is dropped.
struct Service {
    child: Child,
    address: SocketAddr,
}

impl Service {
    /// Starts a program that prints its port.
    fn start(program: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).env("PYTHONDONTWRITEBYTECODE", "1");
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut printed = BufReader::new(child.stdout.take().unwrap());
        printed.read_line(&mut line).unwrap();
        let port: u16 = line.trim().parse().expect("it prints its port");
        Self {
            child,
            address: ([127, 0, 0, 1], port).into(),
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// SHA-256 of `key-of-ann`.
const KEYS: &str =
    "- { id: ann, sha256: ca64daa8b294dc4835d29ca02a6a47427ebc6a225ea3ac2e15f8417fb6601db2 }
";

fn in_front_of(service: &Service) -> Sluicegate {
    let directory = tempfile::tempdir().unwrap();
    let config = format!(
        r#"
proxy:
  listen: "127.0.0.1:0"
  upstream: "http://{}"
  refused_requests: {{ enabled: false }}
admin: off
principals:
  api_keys: {{ header: X-Api-Key, file: keys.yaml }}
limits:
  - {{ name: login, key: [global], rate: 1/d, burst: 1, match: {{ path: /api/login }} }}
  - {{ name: profile, key: [path], rate: 1/d, burst: 1, match: {{ path: /u }} }}
  - {{ name: reads, key: [global], rate: 1/d, burst: 1, match: {{ path: /reads, methods: [GET] }} }}
  - {{ name: free, key: [global], rate: 1/d, burst: 1, match: {{ path: /plan, headers: {{ X-Plan: free }} }} }}
  - {{ name: tenant, key: ["header:X-Tenant-Id"], rate: 1/d, burst: 1, match: {{ path: /tenant }} }}
  - {{ name: session, key: ["cookie:sid"], rate: 1/d, burst: 1, match: {{ path: /session }} }}
  - {{ name: mine, key: [principal], rate: 1/d, burst: 1, match: {{ path: /mine }} }}
"#,
        service.address
    );
    std::fs::write(directory.path().join("sluicegate.yaml"), config).unwrap();
    std::fs::write(directory.path().join("keys.yaml"), KEYS).unwrap();
    Sluicegate::start_in(directory)
}

/// One request of HTTP/1, as bytes; `lines` are further header lines.
fn bytes(method: &str, target: &str, lines: &[&str]) -> Vec<u8> {
    let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    format!("{method} {target} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n{lines}\r\n")
        .into_bytes()
}

/// Requests that spend the limits, and what their handlers say.
fn first_requests() -> Vec<(Vec<u8>, &'static str)> {
    vec![
        (bytes("GET", "/api/login", &[]), "login"),
        (bytes("GET", "/u/@ann", &[]), "profile"),
        (bytes("GET", "/reads", &[]), "reads"),
        (bytes("GET", "/plan", &["X-Plan: free"]), "plan free"),
        (
            bytes("GET", "/tenant", &["X-Tenant-Id: acme"]),
            "tenant acme",
        ),
        (bytes("GET", "/session", &["Cookie: sid=s1"]), "session s1"),
        (
            bytes("GET", "/mine", &["X-Api-Key: key-of-ann"]),
            "mine key-of-ann",
        ),
    ]
}

/// What no handler may say again.
const SPENT: [&str; 7] = [
    "login",
    "profile",
    "reads",
    "plan free",
    "tenant acme",
    "session s1",
    "mine key-of-ann",
];

fn spellings_of_paths() -> Vec<Vec<u8>> {
    let mut targets: Vec<String> = Vec::new();
    for start in [
        "", "/", "/.", "/x/..", "/%2e", "/%2E%2e", "/%5c..", "/;", "/..;", "/x;/..",
    ] {
        for middle in [
            "/api/login",
            "/api//login",
            "/api/./login",
            "/api/x/../login",
        ] {
            targets.push(format!("{start}{middle}"));
        }
    }
    for target in [
        "/api%2flogin",
        "/api%2Flogin",
        "/api%5clogin",
        "/api\\login",
        "/api/login;x=1",
        "/api;x/login",
        "/api/login%3bx",
        "/%61pi/login",
        "/%2561pi/login",
        "/API/login",
        "/api/LOGIN",
        "/Api/Login/",
        "/api/login/",
        "/api/login//",
        "/api/login/.",
        "/api/login%20",
        "/api/login%09",
        "/api/login%00",
        "/api/login%0d",
        "/api/login.",
        "/api/login%2e",
        "/api/login#x",
        "/api/login?x",
        "/api/login%3fx",
        "/api/login%23",
        "/%c0%afapi/login",
        "/api%c0%aflogin",
        "/%e0%80%afapi/login",
        "/api/logi%6e",
        "/api/%6cogin/",
        "/api/lo%67in?a=b",
        "http://a.example/api/login",
        "http://a.example//api/login",
        "HTTP://A.EXAMPLE/api/login",
        "//a.example/api/login",
        "/u/%40ann",
        "/u/@ann/",
        "/u/%40%61nn",
        "/U/@ann",
        "/u/@Ann",
        "/u//@ann",
        "/u/./@ann",
        "/u/x/../@ann",
        "/u/%40ann/",
        "/u/@ann?x",
        "/u/@an%6e",
        "/u/%40ANN",
        "/u;/@ann",
    ] {
        targets.push(target.to_owned());
    }
    let mut requests: Vec<Vec<u8>> = Vec::new();
    for target in &targets {
        requests.push(bytes("GET", target, &[]));
    }
    for header in [
        "X-Original-URL",
        "X-Rewrite-URL",
        "X_Original_Url",
        "X-Original-Uri",
    ] {
        requests.push(bytes("GET", "/", &[&format!("{header}: /api/login")]));
    }
    requests
}

fn spellings_of_methods() -> Vec<Vec<u8>> {
    let mut requests: Vec<Vec<u8>> = Vec::new();
    for method in [
        "get", "Get", "gET", "GeT", "head", "Head", "hEAD", "HEAD", "options", "post", "Post",
    ] {
        requests.push(bytes(method, "/reads", &[]));
    }
    for header in [
        "X-HTTP-Method-Override",
        "X-HTTP-Method",
        "X-Method-Override",
    ] {
        for method in ["GET", "get"] {
            requests.push(bytes("POST", "/reads", &[&format!("{header}: {method}")]));
        }
    }
    requests
}

fn spellings_of_headers() -> Vec<Vec<u8>> {
    let mut requests: Vec<Vec<u8>> = Vec::new();
    for (target, name, value) in [
        ("/plan", "X-Plan", "free"),
        ("/tenant", "X-Tenant-Id", "acme"),
        ("/mine", "X-Api-Key", "key-of-ann"),
    ] {
        let other = "Other";
        let twin = name.replace('-', "_");
        let dotted = name.replace('-', ".");
        for lines in [
            vec![format!("{name}: {value}")],
            vec![format!("{name}:{value}")],
            vec![format!("{name}:   {value}\t ")],
            vec![format!("{}: {value}", name.to_lowercase())],
            vec![format!("{}: {value}", name.to_uppercase())],
            vec![format!("{name}: {value}"), format!("{name}: {other}")],
            vec![format!("{name}: {other}"), format!("{name}: {value}")],
            vec![format!("{name}: {value}, {other}")],
            vec![format!("{name}: {other}, {value}")],
            vec![format!("{twin}: {value}")],
            vec![format!("{dotted}: {value}")],
            vec![format!("{name}: {other}"), format!("{twin}: {value}")],
            vec![format!("{twin}: {value}"), format!("{name}: {other}")],
            vec![format!("{dotted}: {value}"), format!("{name}: {other}")],
            vec![format!("{name} : {value}")],
            vec![format!(" {name}: {value}")],
            vec![format!("{name}:\r\n {value}")],
            vec![format!("{name}: {value}\0")],
            vec![format!("Connection: {name}"), format!("{name}: {value}")],
            vec![format!("X-Other: a\n{name}: {value}")],
        ] {
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            requests.push(bytes("GET", target, &lines));
        }
    }
    requests
}

fn spellings_of_cookies() -> Vec<Vec<u8>> {
    [
        &["Cookie: sid=s1"][..],
        &["Cookie:sid=s1"],
        &["Cookie: a=b; sid=s1"],
        &["Cookie: sid=s1; a=b"],
        &["Cookie: a=b;sid=s1"],
        &["Cookie: sid=s1;"],
        &["Cookie: sid=s1; sid=s2"],
        &["Cookie: sid=s2; sid=s1"],
        &["Cookie: sid=\"s1\""],
        &["Cookie: sid = s1"],
        &["Cookie: a=b", "Cookie: sid=s1"],
        &["Cookie: sid=s1", "Cookie: sid=s2"],
        &["Cookie: sid=s2", "Cookie: sid=s1"],
        &["cookie: sid=s1"],
        &["COOKIE: sid=s1"],
        &["Cookie: $Version=1; sid=s1"],
        &["Cookie: ; sid=s1"],
        &["Cookie: sid=s1, a=b"],
    ]
    .into_iter()
    .map(|lines| bytes("GET", "/session", lines))
    .collect()
}

/// Requests over HTTP/2 that must not be answered by a handler.
fn over_http2() -> Vec<Vec<Field>> {
    let fields = |path: &str, further: &[(&str, &str)]| -> Vec<Field> {
        let usual = [
            (":method", "GET"),
            (":scheme", "http"),
            (":authority", "a.example"),
            (":path", path),
        ];
        let all = usual.iter().chain(further);
        all.map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
            .collect()
    };
    vec![
        fields("/plan", &[("x-plan", " free")]),
        fields("/plan", &[("x-plan", "free ")]),
        fields("/plan", &[("x-plan", "\tfree")]),
        fields("/tenant", &[("x-tenant-id", " acme")]),
        fields("/tenant", &[("x-tenant-id", "acme\t")]),
        fields("/mine", &[("x-api-key", " key-of-ann")]),
        fields("/mine", &[("x-api-key", "key-of-ann ")]),
        fields("/session", &[("cookie", "a=b"), ("cookie", "sid=s1")]),
        fields("/session", &[("cookie", "sid=s1"), ("cookie", "a=b")]),
        fields("/session", &[("cookie", " sid=s1")]),
        fields("/api/login", &[]),
        fields("/api%2flogin", &[]),
        fields("/u/%40ann", &[]),
    ]
}

/// Sends every spelling, and fails with all that led around a limit.
fn nobody_comes_around(service: &Service) {
    let sluicegate = in_front_of(service);
    for (request, said) in first_requests() {
        let answered = raw_socket::exchange(sluicegate.proxy, &request);
        assert_eq!((answered.status(), answered.body()), (200, said));
    }
    let requests: Vec<Vec<u8>> = [
        spellings_of_paths(),
        spellings_of_methods(),
        spellings_of_headers(),
        spellings_of_cookies(),
    ]
    .concat();
    let frames = over_http2();
    let sent = requests.len() + frames.len();
    assert!(sent >= 200, "{sent} spellings");
    let mut around: Vec<String> = Vec::new();
    for request in &requests {
        let answered = raw_socket::exchange(sluicegate.proxy, request);
        let is_spent = |said: &str| SPENT.contains(&said);
        let is_answered = !answered.is_empty() && answered.status() == 200;
        // HEAD has no body: its status says enough.
        if is_answered && (is_spent(answered.body()) || request.starts_with(b"HEAD")) {
            around.push(format!(
                "{} → {}",
                String::from_utf8_lossy(request).escape_debug(),
                answered.body()
            ));
        }
    }
    for fields in &frames {
        if let StreamEnd::Response { status: 200, .. } = exchange(sluicegate.proxy, fields, None) {
            let texts = fields.iter().map(|(name, value)| {
                let [name, value] = [name, value].map(|text| String::from_utf8_lossy(text));
                format!("{name}: {value:?}")
            });
            around.push(texts.collect::<Vec<_>>().join(", "));
        }
    }
    assert!(around.is_empty(), "{} of {sent}: {around:#?}", around.len());
    let fresh = HttpRequest::get("/tenant")
        .headers(&["X-Tenant-Id: other"])
        .send(sluicegate.proxy);
    assert_eq!(fresh.body(), "tenant other", "others go on");
}

/// A file of these tests.
fn file(name: &str) -> String {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = manifest.join("tests/it/frameworks").join(name);
    path.to_string_lossy().into_owned()
}

#[test]
#[ignore = "needs web frameworks in Python"]
fn no_spelling_leads_around_a_limit_in_front_of_flask() {
    let python = needs::program("SLUICEGATE_FRAMEWORKS_PYTHON");
    nobody_comes_around(&Service::start(&python, &[&file("flask_app.py")]));
}

#[test]
#[ignore = "needs web frameworks in Python"]
fn no_spelling_leads_around_a_limit_in_front_of_django() {
    let python = needs::program("SLUICEGATE_FRAMEWORKS_PYTHON");
    nobody_comes_around(&Service::start(&python, &[&file("django_app.py")]));
}

#[test]
#[ignore = "needs Express"]
fn no_spelling_leads_around_a_limit_in_front_of_express() {
    // Node looks for packages beside the program, and nowhere else that can be named.
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("express_app.mjs");
    std::fs::copy(file("express/express_app.mjs"), &program).unwrap();
    let packages = needs::program("SLUICEGATE_EXPRESS");
    symlink(packages, directory.path().join("node_modules")).unwrap();
    let service = Service::start(Path::new("node"), &[&program.to_string_lossy()]);
    nobody_comes_around(&service);
}
