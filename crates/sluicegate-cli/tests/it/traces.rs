//! Spans for a collector: one that others have written takes them.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};
use sluicegate_testkit::{STEP_TIMEOUT, TlsFiles, eventually};
use tempfile::TempDir;

use super::clients::{file, python};
use super::running::Sluicegate;
use super::{decisions, envoy_rls};

/// The collector of Python's own packages, which ends with the test.
struct Collector {
    child: Child,
    port: String,
    spans: Receiver<Value>,
}

impl Collector {
    fn start() -> Self {
        Self::start_with(&[])
    }

    /// With a certificate and its key it speaks TLS.
    fn start_with(files: &[PathBuf]) -> Self {
        let mut child = Command::new(python())
            .arg(file("otlp_collector.py"))
            .args(files)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut port = String::new();
        lines.read_line(&mut port).unwrap();
        Self {
            child,
            port: port.trim().to_owned(),
            spans: collected(lines),
        }
    }

    fn next(&self) -> Value {
        self.spans.recv_timeout(STEP_TIMEOUT).expect("a span comes")
    }
}

impl Collector {
    /// Ends it; whatever it was sent before is there then.
    fn ends_without_a_span(mut self) -> bool {
        drop(self.child.stdin.take());
        // The lines end with the process.
        let _ = self.child.wait();
        self.spans.recv_timeout(STEP_TIMEOUT).is_err()
    }
}

fn collected(lines: BufReader<ChildStdout>) -> Receiver<Value> {
    let (sender, spans) = channel();
    std::thread::spawn(move || {
        for line in lines.lines().map_while(Result::ok) {
            let _ = sender.send(serde_json::from_str(&line).unwrap());
        }
    });
    spans
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn config(otlp_port: &str, more: &str) -> String {
    format!(
        "
proxy: {{ listen: '127.0.0.1:0' }}
admin: off
traces: {{ otlp: 'http://127.0.0.1:{otlp_port}', one_in: 1, service_name: edge }}
limits: [{{ name: per-client, key: [client_ip], rate: 1/h, burst: 2 }}]
{more}"
    )
}

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

#[test]
#[ignore = "needs clients in Python"]
fn a_collector_gets_the_spans_and_the_server_behind_is_told_the_trace() {
    let collector = Collector::start();
    let mut sluicegate = Sluicegate::start(&config(
        &collector.port,
        "log: { access: true, format: json }\n",
    ));
    let answer = sluicegate.get(
        "/x?secret=1",
        &[&format!("traceparent: {PARENT}"), "tracestate: other=1"],
    );
    assert_eq!(answer.status(), 200);
    let span = collector.next();
    assert_eq!(span["trace_id"], "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(span["parent_span_id"], "b7ad6b7169203331");
    assert_eq!(
        (&span["name"], &span["scope"]),
        (&"GET".into(), &"sluicegate".into())
    );
    assert_eq!(span["kind"], 2, "a server's");
    assert_eq!(
        (
            &span["resource"]["service.name"],
            &span["attributes"]["url.path"]
        ),
        (&"edge".into(), &"/x".into())
    );
    assert_eq!(span["attributes"]["http.response.status_code"], 200);
    assert_eq!(span["attributes"]["sluicegate.outcome"], "forwarded");
    assert_eq!(
        span["attributes"]["sluicegate.request_id"],
        answer.header("x-request-id").unwrap()
    );
    assert!(span["took_ns"].as_u64().unwrap() > 0);
    let told = format!(
        "traceparent: 00-0af7651916cd43dd8448eb211c80319c-{}-01\n",
        span["span_id"].as_str().unwrap()
    );
    assert!(
        answer.contains(&told),
        "the built-in server shows what it got: {told}\n{answer}"
    );
    assert!(answer.contains("tracestate: other=1\n"), "{answer}");

    assert_eq!(sluicegate.get("/", &[]).status(), 200);
    let alone = collector.next();
    assert_eq!(alone["parent_span_id"], "");
    assert_ne!(alone["trace_id"], span["trace_id"]);
    for trace in [&span, &alone].map(|span| &span["trace_id"]) {
        let is_of_it = |line: &Value| line["trace_id"] == *trace;
        eventually("the access log names the trace", || {
            let printed = sluicegate.printed.lock().unwrap();
            printed
                .iter()
                .filter_map(|line| serde_json::from_str(line).ok())
                .any(|line| is_of_it(&line))
        });
    }

    assert_eq!(sluicegate.get("/", &[]).status(), 429);
    // Spans that are under way at the end are sent before it.
    sluicegate.signal("TERM");
    let denied = collector.next();
    assert_eq!(denied["attributes"]["sluicegate.limit"], "per-client");
    assert_eq!(
        (
            &denied["attributes"]["sluicegate.outcome"],
            &denied["status"]
        ),
        (&"limited".into(), &0.into())
    );
    assert!(sluicegate.wait().success());
}

#[test]
#[ignore = "needs clients in Python"]
fn questions_to_the_decision_service_have_spans_in_the_trace_of_who_asks() {
    let collector = Collector::start();
    let more = "
decisions: { http: '127.0.0.1:0', grpc: '127.0.0.1:0' }
client_ip: { trusted_proxies: [127.0.0.0/8] }
";
    let config = config(&collector.port, more).replace("one_in: 1,", "one_in: 1000000000,");
    let limits = "limits: [{ name: per-user, key: ['descriptor:user'], rate: 1/h, burst: 1 },";
    let mut sluicegate = Sluicegate::start(&config.replace("limits: [", limits));
    let sampled = format!("{}-01", PARENT.strip_suffix("-00").unwrap());
    let parent = format!("traceparent: {sampled}");

    let question = json!({ "limit": "per-user", "key": ["ann"] }).to_string();
    let check = decisions::request("/v1/check", &[&parent], &question);
    for _ in 0..2 {
        assert_eq!(
            decisions::exchange(&sluicegate, check.as_bytes()).status(),
            200
        );
    }
    let unknown = decisions::request("/v1/check", &[&parent], "{}");
    assert_eq!(
        decisions::exchange(&sluicegate, unknown.as_bytes()).status(),
        400
    );
    let original = [
        "X-Original-Method: GET",
        "X-Original-URI: /secret",
        "X-Original-Host: a.example",
        &parent,
    ];
    let authorize = decisions::request("/v1/authorize/nginx", &original, "");
    assert_eq!(
        decisions::exchange(&sluicegate, authorize.as_bytes()).status(),
        200
    );
    let untraced = decisions::request("/v1/check", &[], &question);
    assert_eq!(
        decisions::exchange(&sluicegate, untraced.as_bytes()).status(),
        200
    );
    envoy_rls::client(&sluicegate, async |channel| {
        let of_ann = envoy_rls::request([envoy_rls::descriptor("user", "ann")]);
        envoy_rls::ask_with(&channel, of_ann, Some(("traceparent", &sampled)))
            .await
            .unwrap();
    });
    sluicegate.signal("TERM");
    assert!(sluicegate.wait().success());

    let http = |route: &str, outcome: &str, status: u16| {
        json!({
            "http.request.method": "POST", "http.route": route, "http.response.status_code": status,
            "sluicegate.outcome": outcome,
        })
    };
    let mut limited = http("/v1/check", "limited", 200);
    limited["sluicegate.limit"] = "per-user".into();
    let by_envoy = json!({
        "rpc.system": "grpc", "rpc.service": "envoy.service.ratelimit.v3.RateLimitService",
        "rpc.method": "ShouldRateLimit", "sluicegate.outcome": "limited", "sluicegate.limit": "per-user",
    });
    for (name, attributes) in [
        ("POST /v1/check", http("/v1/check", "allowed", 200)),
        ("POST /v1/check", limited),
        ("POST /v1/check", http("/v1/check", "refused", 400)),
        (
            "POST /v1/authorize/nginx",
            http("/v1/authorize/nginx", "allowed", 200),
        ),
        (
            "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
            by_envoy,
        ),
    ] {
        let span = collector.next();
        assert_eq!(
            (&span["name"], &span["attributes"]),
            (&name.into(), &attributes)
        );
        assert_eq!(span["trace_id"], "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(
            (&span["parent_span_id"], &span["kind"]),
            (&"b7ad6b7169203331".into(), &2.into())
        );
    }
    assert!(
        collector.ends_without_a_span(),
        "nobody asked for a trace of the sixth"
    );
}

#[test]
#[ignore = "needs clients in Python"]
fn a_collector_with_tls_is_sent_spans_if_its_authority_is_trusted() {
    let files = TlsFiles::generate();
    let collector = Collector::start_with(&[files.server_certificate(), files.server_key()]);
    let secure = config(&collector.port, "").replace("http://127.0.0.1", "https://localhost");
    let trusting = format!("one_in: 1, ca_file: '{}',", files.authority().display());
    for (config, is_trusted) in [
        (secure.clone(), false),
        (secure.replace("one_in: 1,", &trusting), true),
    ] {
        let mut sluicegate = Sluicegate::start(&config);
        assert_eq!(sluicegate.get("/", &[]).status(), 200);
        sluicegate.signal("TERM");
        assert!(sluicegate.wait().success());
        if is_trusted {
            assert_eq!(collector.next()["name"], "GET");
        }
    }
    assert!(
        collector.ends_without_a_span(),
        "a stranger was sent a span"
    );
}

/// Runs a command with no variables of OpenTelemetry but these.
fn with_variables(variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluicegate"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("OTEL_")) {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied());
    command
}

fn directory_with(config: &str) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("sluicegate.yaml"), config).unwrap();
    directory
}

const WITHOUT_TRACES: &str = "
proxy: { listen: '127.0.0.1:0' }
admin: { listen: '127.0.0.1:0' }
client_ip: { trusted_proxies: [127.0.0.0/8] }
";

#[test]
#[ignore = "needs clients in Python"]
fn the_variables_of_opentelemetry_say_where_spans_go_and_what_they_carry() {
    let collector = Collector::start();
    let endpoint = format!("http://127.0.0.1:{}", collector.port);
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        (
            "OTEL_EXPORTER_OTLP_HEADERS",
            "x-api-key=hunter%32,x-tenant=a",
        ),
        ("OTEL_SERVICE_NAME", "edge"),
        (
            "OTEL_RESOURCE_ATTRIBUTES",
            "deployment.environment=test,service.version=9",
        ),
        ("OTEL_TRACES_SAMPLER", "parentbased_always_on"),
        // Two batches, and not at the end only.
        ("OTEL_BSP_SCHEDULE_DELAY", "10"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"),
    ];
    let directory = directory_with(WITHOUT_TRACES);
    let sluicegate = Sluicegate::start_by(with_variables(&variables), directory);
    let parent = format!("traceparent: {PARENT}");
    assert_eq!(sluicegate.get("/unsampled", &[&parent]).status(), 200);
    for _ in 0..2 {
        assert_eq!(sluicegate.get("/x", &[]).status(), 200);
    }
    for _ in 0..2 {
        let span = collector.next();
        assert_eq!(span["attributes"]["url.path"], "/x", "the peer decided");
        assert_eq!(span["batch"], 1);
        let metadata = json!({ "x-api-key": "hunter2", "x-tenant": "a" });
        assert_eq!(span["metadata"], metadata);
        let resource = json!({
            "service.name": "edge", "service.version": "9", "deployment.environment": "test",
        });
        assert_eq!(span["resource"], resource);
    }
    sluicegate.wait_for_log("OTEL_EXPORTER_OTLP_TIMEOUT is ignored: expected milliseconds");
    let shown = sluicegate.admin_get("/v1/config");
    assert!(shown.contains("x-api-key"), "{shown}");
    let printed = sluicegate.printed.lock().unwrap().join("\n");
    let logged = sluicegate.logged.lock().unwrap().join("\n");
    for text in [shown.body(), &printed, &logged] {
        assert!(!text.contains("hunter"), "{text}");
    }
    assert!(collector.ends_without_a_span());
}

#[test]
#[ignore = "needs clients in Python"]
fn a_collector_of_the_environment_with_tls_is_verified_with_its_certificate() {
    let files = TlsFiles::generate();
    let collector = Collector::start_with(&[files.server_certificate(), files.server_key()]);
    let endpoint = format!("localhost:{}", collector.port);
    let authority = files.authority();
    let variables = [
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", endpoint.as_str()),
        (
            "OTEL_EXPORTER_OTLP_CERTIFICATE",
            authority.to_str().unwrap(),
        ),
        ("OTEL_TRACES_SAMPLER", "always_on"),
    ];
    let directory = directory_with(WITHOUT_TRACES);
    let mut sluicegate = Sluicegate::start_by(with_variables(&variables), directory);
    assert_eq!(sluicegate.get("/", &[]).status(), 200);
    sluicegate.signal("TERM");
    assert!(sluicegate.wait().success());
    assert_eq!(collector.next()["name"], "GET");
}

#[test]
fn check_says_what_the_environment_sets_and_warns_about_the_rest() {
    let directory = directory_with(WITHOUT_TRACES);
    let check = |arguments: &[&str]| {
        let variables = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=hunter2"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"),
        ];
        let mut command = with_variables(&variables);
        command.arg("check").args(arguments).arg("sluicegate.yaml");
        let output = command.current_dir(directory.path()).output().unwrap();
        assert!(output.status.success());
        let texts = [output.stdout, output.stderr];
        texts.map(|text| String::from_utf8(text).unwrap())
    };
    let warning = "OTEL_EXPORTER_OTLP_TIMEOUT is ignored: expected milliseconds, 1 to 3600000";
    let sentence = "the environment sets of traces: otlp (OTEL_EXPORTER_OTLP_ENDPOINT), \
                    the headers api-key (OTEL_EXPORTER_OTLP_HEADERS)\n";
    let [told, warned] = check(&[]);
    assert!(told.contains(sentence), "{told}");
    assert_eq!(warned, format!("warning: {warning}\n"));
    let [json, _] = check(&["--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["warnings"], json!([warning]));
    let [github, _] = check(&["--format", "github"]);
    assert!(
        github.ends_with(&format!("::warning::{warning}\n")),
        "{github}"
    );
}

#[test]
fn a_collector_that_is_away_holds_up_nobody() {
    let mut sluicegate = Sluicegate::start(
        &config("1", "log: { access: true }\n").replace("burst: 2", "burst: 500"),
    );
    for _ in 0..200 {
        assert_eq!(sluicegate.get("/", &[]).status(), 200);
    }
    sluicegate.signal("TERM");
    assert!(sluicegate.wait().success());
}

#[test]
fn without_the_section_a_trace_passes_through_as_it_is() {
    let config = config("1", "");
    let sluicegate = Sluicegate::start(&config.replace("traces:", "# traces:"));
    let answer = sluicegate.get("/", &[&format!("traceparent: {PARENT}")]);
    assert!(
        answer.contains(&format!("traceparent: {PARENT}\n")),
        "{answer}"
    );
    assert!(!sluicegate.get("/", &[]).contains("traceparent"));
}
