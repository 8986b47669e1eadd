//! docs/admin.md: everything on it is asked, and what comes back has the keys that it shows.

use serde_json::Value;
use sluicegate_testkit::{RedisServer, eventually};

use super::super::running::Sluicegate;
use super::{CONFIG, ask, from};

const PAGE: &str = include_str!("../../../../../docs/admin.md");

/// A question of the page: its method and path, its body, and the answer that is shown.
struct Question<'a> {
    method: &'a str,
    path: &'a str,
    body: Option<&'a str>,
    answer: Value,
}

fn questions() -> Vec<Question<'static>> {
    let sections = PAGE.split("\n## `").skip(1);
    let questions = sections.filter_map(|section| {
        let (title, text) = section.split_once("`\n")?;
        let (method, path) = title.split_once(' ')?;
        let block = |begin: &str| {
            text.split_once(begin)
                .and_then(|(_, rest)| rest.split("\n```").next())
        };
        let answer = serde_json::from_str(block("\n```json\n")?)
            .unwrap_or_else(|error| panic!("{title}: {error}"));
        Some(Question {
            method,
            path,
            body: block("\n```json body\n"),
            answer,
        })
    });
    questions.collect()
}

/// Returns true when two values have the same keys, all the way down; the first entry of a list counts.
fn differs(shown: &Value, told: &Value, place: &str) -> Option<String> {
    match (shown, told) {
        (Value::Object(shown), Value::Object(told)) => {
            let keys =
                |map: &serde_json::Map<String, Value>| map.keys().cloned().collect::<Vec<_>>();
            if shown.len() != told.len() || shown.keys().any(|key| !told.contains_key(key)) {
                return Some(format!(
                    "{place}: {:?} is shown, {:?} comes back",
                    keys(shown),
                    keys(told)
                ));
            }
            shown
                .iter()
                .find_map(|(key, value)| differs(value, &told[key], &format!("{place}.{key}")))
        }
        (Value::Array(shown), Value::Array(told)) => match (shown.first(), told.first()) {
            (Some(shown), Some(told)) => differs(shown, told, &format!("{place}[0]")),
            (Some(_), None) => Some(format!("{place}: nothing comes back")),
            _ => None,
        },
        (Value::Object(_) | Value::Array(_), told) => Some(format!("{place}: {told} comes back")),
        (shown, Value::Object(_) | Value::Array(_)) => Some(format!("{place}: {shown} is shown")),
        _ => None,
    }
}

#[test]
fn everything_on_the_page_is_asked_and_has_the_keys_that_it_shows() {
    let server = RedisServer::start();
    let redis = format!(
        "store: {{ kind: redis, deadline: 1s, redis: {{ endpoints: ['{}'] }} }}\n",
        server.address()
    );
    let sluicegate = Sluicegate::start(
        &format!("{CONFIG}{redis}").replace("  - { name: watched", "# - { name: watched"),
    );
    for _ in 0..6 {
        from(&sluicegate, "203.0.113.7");
    }
    eventually(
        "a second has passed, and the replica is on the board",
        || {
            let (_, stats) = ask(&sluicegate, "GET", "/v1/stats?history=true", None);
            !stats["history"]["allowed"].as_array().unwrap().is_empty()
                && stats["replicas"][0]["is_this"] == true
        },
    );
    let questions = questions();
    assert_eq!(
        questions.len(),
        11,
        "a section without an answer, or a new one"
    );
    for Question {
        method,
        path,
        body,
        answer,
    } in questions
    {
        let (code, told) = ask(&sluicegate, method, path, body);
        assert!(matches!(code, 200 | 201), "{method} {path}: {code} {told}");
        assert_eq!(differs(&answer, &told, ""), None, "{method} {path}");
    }
}
