//! Limits that count by the answer: read, checked, told and compared.

use sluicegate_config::Config;
use sluicegate_core::{Answer, Counting};

use crate::{good, schema, wrong};

fn keys(keys: &str) -> String {
    format!("limits:\n  - {{ name: a, key: global, rate: 1/s{keys} }}\n")
}

fn counting(config: &Config) -> Counting {
    config.policy.limits()[0].counting
}

#[test]
fn statuses_and_classes_are_read() {
    let text = keys(", count_when: { status: [401, \"403\", 5xx], grpc_status: 16 }");
    schema::accepts(&text).unwrap();
    let Counting::When(answers) = counting(&good(&text)) else {
        panic!("it counts by the answer");
    };
    assert_eq!(answers.to_string(), "401, 403, 5xx or the gRPC status 16");
    let text = keys(", refund_when: { status: 304 }");
    schema::accepts(&text).unwrap();
    let Counting::RefundWhen(answers) = counting(&good(&text)) else {
        panic!("it gives back by the answer");
    };
    assert!(answers.has(Answer::http(304)) && !answers.has(Answer::http(200)));
    assert_eq!(counting(&good(&keys(""))), Counting::Always);
}

#[test]
fn mistakes_about_answers_have_their_place() {
    let range = "expected a status from 100 to 599, or a class of them such as 5xx";
    for (keys, message) in [
        ("count_when: { status: [401, 99] }", "count_when.status[1]: must be 100 to 599 (got 99)".to_owned()),
        ("count_when: { status: 600 }", "count_when.status: must be 100 to 599 (got 600)".to_owned()),
        ("count_when: { status: 6xx }", format!("count_when.status: {range} (got \"6xx\")")),
        ("refund_when: { status: [ok] }", format!("refund_when.status[0]: {range} (got \"ok\")")),
        ("count_when: { grpc_status: 17 }", "count_when.grpc_status: must be 0 to 16 (got 17)".to_owned()),
        (
            "count_when: {}",
            "count_when: needs status, grpc_status or both, such as status: [401, 5xx]".to_owned(),
        ),
        (
            "refund_when: { status: [] }",
            "refund_when: needs status, grpc_status or both, such as status: [401, 5xx]".to_owned(),
        ),
        (
            "count_when: { statuses: 401, status: 401 }",
            "count_when: unknown key `statuses`, did you mean `status`?".to_owned(),
        ),
        (
            "count_when: { status: 401 }, refund_when: { status: 304 }",
            "refund_when: cannot be combined with count_when: a limit that counts by the answer has nothing to give back".to_owned(),
        ),
    ] {
        assert_eq!(wrong(&self::keys(&format!(", {keys}"))), format!("limits[0].{message}"));
    }
}

#[test]
fn what_is_counted_is_told() {
    let words = |keys: &str| good(&self::keys(keys)).in_words();
    assert!(words(", count_when: { status: [401, 5xx] }").contains(
        &"a counts requests that are answered with 401 or 5xx, and only looks at others".to_owned()
    ));
    assert!(words(", refund_when: { status: 304 }").contains(
        &"a counts every request, and gives back those that are answered with 304".to_owned()
    ));
    assert!(!words("").iter().any(|told| told.starts_with("a counts")));
}

#[test]
fn counting_other_requests_is_a_change() {
    for (old, new, kind, sentence) in [
        (
            "",
            ", count_when: { status: 401 }",
            "looser",
            "a counts requests that are answered with 401 now; before, every request",
        ),
        (
            ", refund_when: { status: 304 }",
            "",
            "tighter",
            "a counts every request now; before, every request, and gives back those that are answered with 304",
        ),
        (
            ", count_when: { status: 401 }",
            ", count_when: { status: 4xx }",
            "changed",
            "a counts requests that are answered with 4xx now; before, requests that are answered with 401",
        ),
    ] {
        let changes = good(&keys(old)).changes_to(&good(&keys(new)));
        let told: Vec<_> = changes
            .iter()
            .map(|change| (change.kind.name(), change.message.as_str()))
            .collect();
        assert_eq!(told, [(kind, sentence)]);
    }
}
