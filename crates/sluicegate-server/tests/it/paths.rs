//! Spellings of one path, and methods.

use std::collections::BTreeSet;

use sluicegate_core::{Limit, Match, Quota};
use sluicegate_testkit::{UpstreamRecorder, http_client};

use super::corpus;
use super::edge::Edge;

/// One request a day for each client.
fn one_a_day(name: &str, matching: Match) -> Limit {
    Limit {
        matching,
        ..Limit::per_client(name, Quota::per_day(1).burst(1))
    }
}

/// Percent codes, dots, slashes, case and absolute targets.
#[test]
fn every_spelling_of_a_path_meets_the_same_counter_or_is_refused() {
    let recorder = UpstreamRecorder::start();
    let login = one_a_day("login", Match::path("/api/login").unwrap());
    let edge = Edge::start(recorder.address, vec![login]);
    assert_eq!(
        http_client::request(edge.address, "GET", "/api/login", &[]).status(),
        200
    );
    let spellings = spellings();
    let refused = corpus::lines("paths.txt");
    assert!(spellings.len() + refused.len() >= 200);
    let in_other_case =
        ["/API/LOGIN", "/Api/login", "/api/Login", "/%41PI/login"].map(str::to_owned);
    for target in spellings.into_iter().chain(in_other_case) {
        assert_eq!(
            http_client::request(edge.address, "GET", &target, &[]).status(),
            429,
            "{target}"
        );
    }
    for target in refused {
        assert_eq!(
            http_client::request(edge.address, "GET", &target, &[]).status(),
            400,
            "{target}"
        );
    }
    assert_eq!(
        recorder.requests().len(),
        1,
        "a spelling led around the limit"
    );
}

/// The server gets the path in the spelling that the limit was looked up by.
#[test]
fn what_was_counted_is_what_is_forwarded() {
    let recorder = UpstreamRecorder::start();
    let edge = Edge::start(recorder.address, Vec::new());
    for (count, target) in spellings().into_iter().enumerate() {
        assert_eq!(
            http_client::request(edge.address, "GET", &target, &[]).status(),
            200,
            "{target}"
        );
        let recorded = recorder.requests();
        assert_eq!(recorded.len(), count + 1);
        let (path, query) = match recorded[count].target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (recorded[count].target.as_str(), None),
        };
        assert!(
            path == "/api/login" || path == "/api/login/",
            "{target} became {path}"
        );
        assert_eq!(
            query,
            target.split_once('?').map(|(_, query)| query),
            "{target}"
        );
    }
}

/// Everything that means `/api/login`, two deviations at a time.
fn spellings() -> BTreeSet<String> {
    const STARTS: [&str; 13] = [
        "",
        "/",
        "/.",
        "//",
        "/./.",
        "/x/..",
        "/x/y/../..",
        "/..",
        "/../..",
        "/%2e",
        "/x/%2e%2E",
        "/x/.%2e",
        "/%78/%2E.",
    ];
    const APIS: [&str; 5] = ["api", "%61pi", "a%70i", "ap%69", "%61%70%69"];
    const JOINS: [&str; 8] = [
        "/",
        "//",
        "/./",
        "/%2e/",
        "/x/../",
        "///",
        "/.//./",
        "/x/%2E%2e/",
    ];
    const LOGINS: [&str; 5] = ["login", "%6cogin", "%6Cogin", "log%69n", "%6c%6F%67%69%6e"];
    const ENDS: [&str; 9] = [
        "",
        "/",
        "/.",
        "//",
        "/x/..",
        "?x=1",
        "/?x=%2F..",
        "?/../..",
        "/%2e",
    ];
    let mut all = BTreeSet::new();
    let mut add = |start: &str, api: &str, join: &str, login: &str, end: &str| {
        all.insert(format!("{start}/{api}{join}{login}{end}"));
    };
    for start in STARTS {
        JOINS
            .iter()
            .for_each(|join| add(start, "api", join, "login", ""));
        ENDS.iter()
            .for_each(|end| add(start, "api", "/", "login", end));
        APIS.iter()
            .for_each(|api| add(start, api, "/", "login", ""));
        LOGINS
            .iter()
            .for_each(|login| add(start, "api", "/", login, ""));
    }
    for join in JOINS {
        ENDS.iter()
            .for_each(|end| add("", "api", join, "login", end));
        LOGINS
            .iter()
            .for_each(|login| add("", "%61pi", join, login, ""));
    }
    for api in APIS {
        LOGINS
            .iter()
            .for_each(|login| add("", api, "/", login, "?x"));
    }
    let origins = [
        "http://a.example",
        "HTTP://A.Example",
        "http://a.example:80",
    ];
    let absolute = |path: &String| origins.map(|origin| format!("{origin}{path}"));
    let absolute: Vec<_> = all.iter().step_by(12).flat_map(absolute).collect();
    all.extend(absolute);
    all
}

/// `/api` covers `/api/x` and not `/apix`.
#[test]
fn a_path_covers_segments_and_not_letters() {
    let recorder = UpstreamRecorder::start();
    let edge = Edge::start(
        recorder.address,
        vec![one_a_day("api", Match::path("/api").unwrap())],
    );
    let status = |target: &str| http_client::request(edge.address, "GET", target, &[]).status();
    assert_eq!(status("/api/x"), 200);
    for below in ["/api", "/api/", "/api/y", "/api?x", "/api/x/y/z"] {
        assert_eq!(status(below), 429, "{below}");
    }
    for beside in [
        "/apix",
        "/api.",
        "/api-x",
        "/api%78",
        "/x/api",
        "/",
        "/ap",
        "/apix/api",
        "/api%20",
    ] {
        assert_eq!(status(beside), 200, "{beside}");
    }
}

/// The method is that of the request line.
#[test]
fn unknown_methods_count_and_no_header_changes_the_method() {
    let recorder = UpstreamRecorder::start();
    let twice = Limit::per_client("all", Quota::per_day(1).burst(2));
    let edge = Edge::start(recorder.address, vec![twice]);
    let statuses = ["BREW", "WHEN", "M-SEARCH"]
        .map(|method| http_client::request(edge.address, method, "/", &[]).status());
    assert_eq!(statuses, [200, 200, 429]);
    assert_eq!(
        recorder
            .requests()
            .iter()
            .map(|recorded| recorded.method.to_owned())
            .collect::<Vec<_>>(),
        ["BREW", "WHEN"]
    );

    let edge = Edge::start(
        recorder.address,
        vec![one_a_day("posts", Match::default().methods(["POST"]))],
    );
    let names = [
        "X-HTTP-Method-Override",
        "X-HTTP-Method",
        "X-Method-Override",
    ];
    for name in names {
        assert_eq!(
            http_client::request(edge.address, "GET", "/", &[&format!("{name}: POST")]).status(),
            200,
            "{name}"
        );
    }
    assert_eq!(
        http_client::request(edge.address, "POST", "/?_method=GET", &[]).status(),
        200
    );
    for name in names {
        assert_eq!(
            http_client::request(edge.address, "POST", "/", &[&format!("{name}: GET")]).status(),
            429,
            "{name}"
        );
    }
}
