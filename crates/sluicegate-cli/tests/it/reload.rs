//! Another configuration while requests go on.

use std::fs;
use std::sync::atomic::Ordering::Relaxed;

use sluicegate_testkit::eventually;

use super::load::Load;
use super::running::{Sluicegate, times};

fn config(rate: &str, burst: u32) -> String {
    format!(
        "
proxy: {{ listen: '127.0.0.1:0' }}
admin: off
limits:
  - {{ name: per-client, key: [client_ip], rate: {rate}, burst: {burst} }}
"
    )
}

/// The limit that the proxy tells.
fn limit(sluicegate: &Sluicegate) -> Option<String> {
    sluicegate
        .get("/", &[])
        .header("x-ratelimit-limit")
        .map(str::to_owned)
}

#[test]
fn a_changed_file_is_taken_over_and_counters_are_kept() {
    let sluicegate = Sluicegate::start(&config("1/h", 10));
    for _ in 0..4 {
        assert_eq!(sluicegate.get("/", &[]).status(), 200);
    }
    fs::write(sluicegate.file("sluicegate.yaml"), config("1/h", 5)).unwrap();
    eventually("the new limit is in force", || {
        limit(&sluicegate).as_deref() == Some("5")
    });
    assert_eq!(
        sluicegate.get("/", &[]).status(),
        429,
        "what was spent before stays spent"
    );
}

#[test]
fn a_file_in_toml_is_served_watched_and_shown_with_its_mistakes() {
    let config = |burst: &str| {
        format!(
            "proxy.listen = '127.0.0.1:0'\nadmin.listen = '127.0.0.1:0'\n\n[[limits]]\nname = 'per-client'\n\
             key = ['client_ip']\nrate = '1/h'\nburst = {burst}\n"
        )
    };
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("sluicegate.toml"), config("10")).unwrap();
    let sluicegate = Sluicegate::start_in(directory);
    assert_eq!(limit(&sluicegate).as_deref(), Some("10"));
    fs::write(sluicegate.file("sluicegate.toml"), config("5")).unwrap();
    eventually("the new limit is in force", || {
        limit(&sluicegate).as_deref() == Some("5")
    });
    let shown = sluicegate.admin_get("/v1/config");
    let shown: serde_json::Value = serde_json::from_str(shown.body()).unwrap();
    assert_eq!(shown["text"], config("5"));
    fs::write(sluicegate.file("sluicegate.toml"), config("0")).unwrap();
    sluicegate.wait_for_log("sluicegate.toml:8:9: limits[0].burst: must be at least 1");
    assert_eq!(limit(&sluicegate).as_deref(), Some("5"));
}

#[test]
fn a_signal_makes_it_read_the_file_again() {
    let sluicegate = Sluicegate::start(&config("1/h", 10));
    fs::write(sluicegate.file("sluicegate.yaml"), config("1/h", 7)).unwrap();
    sluicegate.signal("HUP");
    eventually("the new limit is in force", || {
        limit(&sluicegate).as_deref() == Some("7")
    });
}

#[test]
fn a_file_full_of_mistakes_changes_nothing_and_all_of_them_are_told() {
    let sluicegate = Sluicegate::start(&config("1/h", 10));
    let broken = "
proxy: { listen: 'nowhere', timeuots: { idle: 60s } }
limits:
  - { name: per-client, key: [client_ipp], rate: 10/s, burst: 0 }
  - { name: per-client, key: [client_ip], rate: ten/s }
";
    fs::write(sluicegate.file("sluicegate.yaml"), broken).unwrap();
    sluicegate.wait_for_log("configuration refused, the one in force stays");
    let logged = sluicegate.logged.lock().unwrap().join("\n");
    for place in [
        "proxy.listen",
        "timeuots",
        "limits[0].key",
        "limits[0].burst",
        "limits[1].rate",
    ] {
        assert!(logged.contains(place), "{place} in {logged}");
    }
    assert_eq!(limit(&sluicegate).as_deref(), Some("10"));
}

fn with_admin(burst: u32) -> String {
    config("1/h", burst).replace("admin: off", "admin: { listen: '127.0.0.1:0' }")
}

fn reloads(sluicegate: &Sluicegate, result: &str) -> u64 {
    sluicegate.metric(&format!(
        "sluicegate_config_reloads_total{{result=\"{result}\"}}"
    ))
}

/// The operator asks at once, and what follows the file notices the change a little later.
#[test]
fn a_change_that_several_ask_for_is_applied_once() {
    let sluicegate = Sluicegate::start(&with_admin(10));
    fs::write(sluicegate.file("sluicegate.yaml"), with_admin(7)).unwrap();
    let told = sluicegate.admin_request("POST", "/v1/reload");
    assert_eq!(told.status(), 200, "{told}");
    eventually("the change was noticed as well", || {
        reloads(&sluicegate, "unchanged") == 1
    });
    assert_eq!(reloads(&sluicegate, "applied"), 1);
    assert_eq!(sluicegate.metric("sluicegate_config_version"), 2);
    let told = sluicegate.admin_request("POST", "/v1/reload");
    assert!(told.contains("unchanged: version 2 is in force"), "{told}");
    assert_eq!(limit(&sluicegate).as_deref(), Some("7"));
}

#[test]
fn nothing_new_is_told_as_such_from_the_start() {
    let sluicegate = Sluicegate::start(&with_admin(10));
    let told = sluicegate.admin_request("POST", "/v1/reload");
    assert!(
        told.status() == 200 && told.contains("unchanged: version 1 is in force"),
        "{told}"
    );
    assert_eq!(reloads(&sluicegate, "applied"), 0);
}

/// The configuration is the same, but not what it names.
#[test]
fn another_file_of_keys_is_a_change() {
    let directory = tempfile::tempdir().unwrap();
    let keys = |id: &str| format!("- {{ id: {id}, sha256: {} }}\n", "ab".repeat(32));
    fs::write(directory.path().join("keys.yaml"), keys("ann")).unwrap();
    let config = with_admin(10) + "principals: { api_keys: { file: keys.yaml } }\n";
    fs::write(directory.path().join("sluicegate.yaml"), config).unwrap();
    let sluicegate = Sluicegate::start_in(directory);
    fs::write(sluicegate.file("keys.yaml"), keys("bob")).unwrap();
    let told = sluicegate.admin_request("POST", "/v1/reload");
    assert!(told.contains("\"version 2 is in force\""), "{told}");
}

#[test]
fn counters_of_the_process_go_on_over_a_reload() {
    let with = |burst| with_admin(burst) + "client_ip: { trusted_proxies: ['127.0.0.0/8'] }\n";
    let sluicegate = Sluicegate::start(&with(10));
    sluicegate.get("/", &[]);
    let unused = || sluicegate.metric("sluicegate_client_ip_unused_total{reason=\"missing\"}");
    assert_eq!(unused(), 1);
    fs::write(sluicegate.file("sluicegate.yaml"), with(7)).unwrap();
    assert_eq!(sluicegate.admin_request("POST", "/v1/reload").status(), 200);
    assert_eq!(unused(), 1);
    sluicegate.get("/", &[]);
    assert_eq!(unused(), 2);
}

#[test]
fn a_file_that_was_emptied_changes_nothing() {
    let sluicegate = Sluicegate::start(&config("1/h", 7));
    fs::write(sluicegate.file("sluicegate.yaml"), "").unwrap();
    sluicegate.wait_for_log("the file is empty");
    assert_eq!(limit(&sluicegate).as_deref(), Some("7"));
    fs::write(sluicegate.file("sluicegate.yaml"), config("1/h", 8)).unwrap();
    eventually("the new limit is in force", || {
        limit(&sluicegate).as_deref() == Some("8")
    });
}

/// `cargo xtask chaos` does a thousand.
#[test]
fn reloads_under_load_fail_no_request() {
    let reloads = times(40);
    let sluicegate = Sluicegate::start(&config("1000000/s", 1_000_000));
    let load = Load::start(sluicegate.proxy, 2);
    for reload in 1..=reloads {
        fs::write(
            sluicegate.file("sluicegate.yaml"),
            config("1000000/s", 1_000_000 - reload),
        )
        .unwrap();
        sluicegate.signal("HUP");
        let wanted = (1_000_000 - reload).to_string();
        eventually("the new limit is in force", || {
            limit(&sluicegate).as_deref() == Some(wanted.as_str())
        });
        load.go_on_for(5);
    }
    let counts = load.stop().unwrap();
    assert_eq!(counts.limited.load(Relaxed), 0, "nobody was near the limit");
}
