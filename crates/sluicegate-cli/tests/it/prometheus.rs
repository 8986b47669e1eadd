//! Prometheus itself: reads our metrics, our rules and our scrape configuration, and answers with what was counted.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use sluicegate_testkit::{HttpRequest, HttpResponse, RedisServer, eventually, free_port};

use super::running::{LoggedProcess, Sluicegate};

const RULES: &str = include_str!("../../../../deploy/prometheus/rules.yml");
const RULES_TEST: &str = include_str!("../../../../deploy/prometheus/rules_test.yml");
const RULES_DAY_TEST: &str = include_str!("../../../../deploy/prometheus/rules_day_test.yml");
const SCRAPES: &str = include_str!("../../../../deploy/prometheus/prometheus.yml");
const DASHBOARD: &str = include_str!("../../../../deploy/grafana/sluicegate.json");

const TOKEN: &str = "0123456789abcdef";

/// With everything that has series of its own.
fn sluicegate(redis: &RedisServer) -> Sluicegate {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("admin.token"), TOKEN).unwrap();
    let config = format!(
        "
proxy: {{ listen: '127.0.0.1:0' }}
admin: {{ listen: '127.0.0.1:0', token_file: admin.token }}
decisions: {{ http: '127.0.0.1:0' }}
store: {{ kind: redis, deadline: 1s, redis: {{ endpoints: ['{}'] }} }}
external: {{ http: {{ url: 'http://127.0.0.1:1/limits' }} }}
traces: {{ otlp: 'http://127.0.0.1:1', one_in: 1 }}
limits:
  - {{ name: per-client, key: [client_ip], rate: 1/h, burst: 3 }}
",
        redis.address()
    );
    fs::write(directory.path().join("sluicegate.yaml"), config).unwrap();
    Sluicegate::start_in(directory)
}

#[test]
fn promtool_finds_nothing_to_improve_in_the_metrics() {
    let redis = RedisServer::start();
    let sluicegate = sluicegate(&redis);
    let answers: Vec<u16> = (0..4).map(|_| sluicegate.get("/", &[]).status()).collect();
    assert_eq!(answers, [200, 200, 200, 429]);
    let metrics = scrape(&sluicegate, "text/plain");
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool is installed by `cargo xtask test`");
    promtool
        .stdin
        .take()
        .unwrap()
        .write_all(metrics.as_bytes())
        .unwrap();
    let checked = promtool.wait_with_output().unwrap();
    assert!(
        checked.status.success() && told(&checked).is_empty(),
        "{}\n{metrics}",
        told(&checked)
    );
}

#[test]
fn rules_and_scrape_configuration_are_good_and_their_tests_pass() {
    for arguments in [
        ["check", "rules", "rules.yml"],
        ["check", "config", "prometheus.yml"],
        ["test", "rules", "rules_test.yml"],
        ["test", "rules", "rules_day_test.yml"],
    ] {
        let checked = Command::new("timeout")
            .args(["120", "promtool"])
            .args(arguments)
            .current_dir(directory())
            .output()
            .unwrap();
        assert!(
            checked.status.success(),
            "{arguments:?}: {}",
            told(&checked)
        );
    }
}

/// `promtool test rules` does not say which rules have no test.
#[test]
fn every_alert_is_seen_firing_and_seen_quiet_and_names_a_command() {
    let rules = yaml(RULES);
    let alerts: BTreeSet<&str> = rules_of(&rules)
        .map(|rule| rule["alert"].as_str().unwrap())
        .collect();
    let tests = [yaml(RULES_TEST), yaml(RULES_DAY_TEST)];
    let tests: Vec<&Value> = tests
        .iter()
        .flat_map(|file| list(&file["tests"]))
        .flat_map(|test| list(&test["alert_rule_test"]))
        .collect();
    let tested = |fires: bool| -> BTreeSet<&str> {
        let tests = tests
            .iter()
            .filter(|test| test["exp_alerts"].is_array() == fires);
        tests
            .map(|test| test["alertname"].as_str().unwrap())
            .collect()
    };
    assert_eq!((&tested(true), &tested(false)), (&alerts, &alerts));
    for rule in rules_of(&rules) {
        let description = rule["annotations"]["description"].as_str().unwrap();
        let command = description
            .split_once("Next")
            .is_some_and(|(_, next)| next.contains('`'));
        assert!(command, "which command is next? {description}");
        assert!(
            rule["annotations"]["summary"].is_string() && rule["labels"]["severity"].is_string()
        );
    }
}

#[test]
fn every_series_of_rules_and_dashboard_is_exposed() {
    let redis = RedisServer::start();
    let sluicegate = sluicegate(&redis);
    assert_eq!(sluicegate.get("/", &[]).status(), 200);
    let metrics = scrape(&sluicegate, "application/openmetrics-text");
    let exposed: BTreeSet<&str> = metrics
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(['{', ' ']).next())
        .collect();
    let rules = yaml(RULES);
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let mut used = BTreeSet::new();
    rules_of(&rules).for_each(|rule| used.extend(series(rule["expr"].as_str().unwrap())));
    assert!(used.len() > 10, "{used:?}");
    let in_rules = used.len();
    texts(&dashboard, &mut |text| used.extend(series(text)));
    assert!(used.len() > in_rules + 5, "{used:?}");
    let unknown: Vec<&String> = used
        .iter()
        .filter(|name| !exposed.contains(name.as_str()))
        .collect();
    assert!(unknown.is_empty(), "nobody exposes {unknown:?}:\n{metrics}");
}

/// By it `SluicegateConfigsDiffer` knows.
#[test]
fn replicas_with_the_same_file_show_the_same_hash_and_a_reload_changes_it() {
    let config = |burst: u32| {
        format!(
            "
proxy: {{ listen: '127.0.0.1:0' }}
admin: {{ listen: '127.0.0.1:0' }}
limits:
  - {{ name: per-client, key: [client_ip], rate: 10/s, burst: {burst} }}
"
        )
    };
    let replicas = [20, 20, 21].map(|burst| Sluicegate::start(&config(burst)));
    let hash = |replica: &Sluicegate| replica.metric("sluicegate_config_hash");
    let [one, same, other] = &replicas;
    assert_eq!(hash(one), hash(same));
    assert_ne!(hash(one), hash(other));
    fs::write(one.file("sluicegate.yaml"), config(21)).unwrap();
    assert_eq!(one.admin_request("POST", "/v1/reload").status(), 200);
    assert_eq!(hash(one), hash(other));
}

/// The fields that Grafana wants in a file that it imports.
#[test]
fn the_dashboard_has_its_panels_apart_and_asks_the_chosen_prometheus() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    assert!(dashboard["schemaVersion"].as_u64().unwrap() >= 39);
    assert_eq!(dashboard["templating"]["list"][0]["type"], "datasource");
    let panels = list(&dashboard["panels"]);
    let ids: BTreeSet<u64> = panels
        .iter()
        .map(|panel| panel["id"].as_u64().unwrap())
        .collect();
    assert_eq!(ids.len(), panels.len());
    let mut cells = BTreeSet::new();
    for panel in panels {
        let place = |name: &str| panel["gridPos"][name].as_u64().unwrap();
        assert!(place("x") + place("w") <= 24, "{panel}");
        for (x, y) in (0..place("w")).flat_map(|x| (0..place("h")).map(move |y| (x, y))) {
            assert!(
                cells.insert((place("x") + x, place("y") + y)),
                "two panels share a place: {panel}"
            );
        }
        if panel["type"] != "row" {
            assert_eq!(panel["datasource"]["uid"], "${datasource}");
            assert!(
                !list(&panel["targets"]).is_empty() && panel["description"].is_string(),
                "{panel}"
            );
        }
    }
}

/// With the files of `deploy/prometheus`, except for the port, the pace, and the token that they only mention.
#[test]
fn prometheus_scrapes_with_a_token_and_answers_with_what_was_counted() {
    let redis = RedisServer::start();
    let sluicegate = sluicegate(&redis);
    let answers: Vec<_> = (0..5).map(|_| sluicegate.get("/", &[])).collect();
    assert_eq!(
        answers
            .iter()
            .map(|answer| answer.status())
            .collect::<Vec<_>>(),
        [200, 200, 200, 429, 429]
    );
    let scrapes = SCRAPES
        .replace("127.0.0.1:9090", &sluicegate.admin.unwrap().to_string())
        .replace("15s", "1s")
        .replace("# authorization:", "authorization:");
    let prometheus = Prometheus::start(&scrapes, TOKEN);
    for (query, expected) in [
        ("up{job=\"sluicegate\"}", "1"),
        ("sluicegate_requests_total{outcome=\"forwarded\"}", "3"),
        ("sluicegate_requests_total{outcome=\"limited\"}", "2"),
        (
            "sluicegate_limit_decisions_total{limit=\"per-client\",outcome=\"denied\"}",
            "2",
        ),
        (
            "sluicegate_request_duration_seconds_bucket{le=\"+Inf\"}",
            "5",
        ),
        ("sluicegate_build_info", "1"),
    ] {
        eventually(query, || {
            prometheus.value(query).as_deref() == Some(expected)
        });
    }
    eventually("every rule was evaluated", || {
        let rules = prometheus.ask("/api/v1/rules");
        let rules: Vec<&Value> = list(&rules["data"]["groups"])
            .iter()
            .flat_map(|group| list(&group["rules"]))
            .collect();
        rules.len() == rules_of(&yaml(RULES)).count()
            && rules.iter().all(|rule| rule["health"] == "ok")
    });
    // A trace that begins here has the id that the client was told.
    let ids: Vec<&str> = answers
        .iter()
        .filter_map(|answer| answer.header("x-request-id"))
        .collect();
    let of_durations = "/api/v1/query_exemplars?start=0&end=4102444800&query=sluicegate_request_duration_seconds_bucket";
    eventually("a bucket of durations names a trace", || {
        let answer = prometheus.ask(of_durations);
        let exemplars = list(&answer["data"])
            .iter()
            .flat_map(|series| list(&series["exemplars"]));
        let traces: Vec<&str> = exemplars
            .filter_map(|exemplar| exemplar["labels"]["trace_id"].as_str())
            .collect();
        !traces.is_empty() && traces.iter().all(|trace| ids.contains(trace))
    });
    // Another token shows nothing.
    let stranger = Prometheus::start(&scrapes, "fedcba9876543210");
    eventually("the stranger is refused", || {
        stranger.value("up{job=\"sluicegate\"}").as_deref() == Some("0")
    });
    assert_eq!(stranger.value("sluicegate_connections"), None);
}

/// A Prometheus of the test's own.
struct Prometheus {
    _process: LoggedProcess,
    address: SocketAddr,
}

impl Prometheus {
    fn start(scrapes: &str, token: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let files = [
            ("prometheus.yml", scrapes),
            ("rules.yml", RULES),
            ("admin.token", token),
        ];
        files
            .iter()
            .for_each(|(name, text)| fs::write(directory.path().join(name), text).unwrap());
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        // Installed by `cargo xtask test`.
        let mut command = Command::new("prometheus");
        command
            .arg("--config.file=prometheus.yml")
            .arg("--storage.tsdb.path=data")
            .arg("--enable-feature=exemplar-storage")
            .arg(format!("--web.listen-address={address}"))
            .current_dir(directory.path())
            .stdout(Stdio::null());
        let process = LoggedProcess::start(&mut command, directory);
        eventually("Prometheus listens", || TcpStream::connect(address).is_ok());
        Self {
            _process: process,
            address,
        }
    }

    /// The value of the only series that a query finds.
    fn value(&self, query: &str) -> Option<String> {
        let answer = self.ask(&format!("/api/v1/query?query={}", percent_encoded(query)));
        match list(&answer["data"]["result"]) {
            [series] => series["value"][1].as_str().map(str::to_owned),
            _ => None,
        }
    }

    fn ask(&self, path: &str) -> Value {
        let answer = get(self.address, path, &[]);
        serde_json::from_str(answer.body()).unwrap_or_default()
    }
}

/// The metrics in the format that is asked for.
fn scrape(sluicegate: &Sluicegate, accept: &str) -> String {
    let headers = [
        format!("Accept: {accept}"),
        format!("Authorization: Bearer {TOKEN}"),
    ];
    let answer = get(sluicegate.admin.unwrap(), "/metrics", &headers);
    assert_eq!(answer.status(), 200, "{answer}");
    assert!(
        answer
            .header("content-type")
            .is_some_and(|kind| kind.starts_with(accept)),
        "{answer}"
    );
    answer.body().to_owned()
}

fn get(address: SocketAddr, path: &str, headers: &[String]) -> HttpResponse {
    HttpRequest::get(path)
        .host(address)
        .headers(headers)
        .send(address)
}

fn percent_encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/prometheus")
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn rules_of(rules: &Value) -> impl Iterator<Item = &Value> {
    list(&rules["groups"])
        .iter()
        .flat_map(|group| list(&group["rules"]))
}

/// The names of our series in an expression.
fn series(expression: &str) -> Vec<String> {
    let names = expression.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    names
        .filter(|name| name.starts_with("sluicegate_") || name.starts_with("process_"))
        .map(str::to_owned)
        .collect()
}

/// Every expression and query in a dashboard.
fn texts(value: &Value, see: &mut impl FnMut(&str)) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| match value {
            Value::String(text) if key == "expr" || key == "query" => see(text),
            value => texts(value, see),
        }),
        Value::Array(list) => list.iter().for_each(|value| texts(value, see)),
        _ => {}
    }
}
