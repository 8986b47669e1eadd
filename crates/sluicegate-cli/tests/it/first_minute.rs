//! The first minute with the program: a few requests, and the lines that it prints.

use std::process::Command;

use super::running::Sluicegate;

const TEN_A_SECOND: &str = "
proxy: { listen: '127.0.0.1:0' }
admin: off
limits:
  - { name: per-client, key: [client_ip], rate: 10/s, burst: 20 }
";

#[test]
fn thirty_quick_requests_give_twenty_answers_and_then_429() {
    let sluicegate = Sluicegate::start(TEN_A_SECOND);
    let answers: Vec<_> = (0..30).map(|_| sluicegate.get("/", &[])).collect();
    let passed = answers
        .iter()
        .filter(|answer| answer.status() == 200)
        .count();
    assert!((20..30).contains(&passed), "{passed} passed");
    let refused = answers
        .iter()
        .find(|answer| answer.status() == 429)
        .expect("one was refused");
    assert!(refused.body() == "Too Many Requests", "{refused}");
    assert_eq!(refused.header("retry-after"), Some("1"));
    for name in [
        "ratelimit",
        "ratelimit-policy",
        "x-ratelimit-limit",
        "x-ratelimit-remaining",
        "x-ratelimit-reset",
    ] {
        assert!(refused.header(name).is_some(), "{name} in {refused}");
        assert!(
            answers[0].header(name).is_some(),
            "{name} in {}",
            answers[0]
        );
    }
}

#[test]
fn what_it_prints_is_true() {
    let sluicegate = Sluicegate::start(TEN_A_SECOND);
    let printed = sluicegate.printed.lock().unwrap().clone();
    let to_try = printed
        .iter()
        .find_map(|line| line.strip_prefix("try it: "))
        .expect("a line to try");
    let mut words = to_try.split(' ');
    let tried = Command::new(words.next().unwrap())
        .args(words)
        .output()
        .unwrap();
    let answer = String::from_utf8_lossy(&tried.stdout);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(
        answer.contains("GET / HTTP/1.1"),
        "the built-in server says what it received: {answer}"
    );
}
