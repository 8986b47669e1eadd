//! Bodies that are read, and the errors about those that are refused.

use proptest::prelude::*;

use super::*;

/// The mistake in a question that is refused.
#[track_caller]
fn mistake<T>(read: Result<T, QuestionError>) -> QuestionError {
    read.err().expect("a mistake was made")
}

/// The field that the mistake is in.
#[track_caller]
fn field_of<T>(read: Result<T, QuestionError>) -> String {
    let mistake = mistake(read);
    mistake
        .field
        .clone()
        .unwrap_or_else(|| panic!("no field: {mistake}"))
}

/// The field that the error about a wrong check names.
#[track_caller]
fn field(body: &str) -> String {
    field_of(check(body.as_bytes()))
}

#[test]
fn a_subject_arrives_whole_and_in_one_spelling() {
    let body = r#"{"subject": {"client_ip": "[::ffff:203.0.113.7]:80", "method": "PATCH", "host": "A.Example.:81",
        "path": "/a//b/../%63?q=1", "headers": {"X-Tenant": "t"}, "sni": "B.Example", "principal": {"id": "ann", "claims": {"plan": "gold"}},
        "descriptors": {"k": "v"}}, "cost": 3}"#;
    let CheckRequest {
        about: CheckTarget::Request(described),
        cost,
    } = check(body.as_bytes()).ok().unwrap()
    else {
        panic!()
    };
    assert_eq!((cost, described.client_ip), (3, "203.0.113.7".parse().ok()));
    assert_eq!(
        (described.method.as_str(), described.host.as_deref()),
        ("PATCH", Some("a.example"))
    );
    assert_eq!(
        (described.path.as_str(), &described.headers["x-tenant"]),
        ("/a/c", &HeaderValue::from_static("t"))
    );
    assert_eq!(
        described.principal,
        Some(Principal::new("ann").claim("plan", "gold"))
    );
    assert_eq!(described.descriptors, [("k".to_owned(), "v".to_owned())]);
    assert_eq!(
        (described.query.as_deref(), described.sni.as_deref()),
        (Some("q=1"), Some("b.example"))
    );
}

#[test]
fn a_query_stands_in_the_path_or_beside_it() {
    let query = |subject: &str| {
        let read = check(format!(r#"{{"subject": {subject}}}"#).as_bytes()).ok();
        match read.unwrap().about {
            CheckTarget::Request(described) => (described.path, described.query),
            CheckTarget::Counter(_) => panic!(),
        }
    };
    let some = |path: &str, query: &str| (path.to_owned(), Some(query.to_owned()));
    assert_eq!(query(r#"{"path": "/a?b=c?d#e"}"#), some("/a", "b=c?d"));
    assert_eq!(
        query(r#"{"path": "/a", "query": "b=c"}"#),
        some("/a", "b=c")
    );
    assert_eq!(query(r#"{"query": ""}"#), some("/", ""));
    assert_eq!(query(r#"{"path": "/a#b?c"}"#), ("/a".to_owned(), None));
    for (body, expected) in [
        (r#"{"subject": {"sni": "a b"}}"#, "subject.sni"),
        (r#"{"subject": {"query": 1}}"#, "subject.query"),
        (r#"{"subject": {"query": "?a=b"}}"#, "subject.query"),
        (
            r#"{"subject": {"path": "/?a", "query": "b"}}"#,
            "subject.query",
        ),
    ] {
        assert_eq!(field(body), expected, "{body}");
    }
}

#[test]
fn what_is_left_out_or_null_has_its_default() {
    let all_null = r#"{"subject": {"client_ip": null, "method": null, "host": null, "path": null, "query": null, "sni": null,
        "headers": null, "principal": null, "descriptors": null}, "limit": null, "key": null, "cost": null}"#;
    for body in [r#"{"subject": {}}"#, all_null] {
        let CheckRequest {
            about: CheckTarget::Request(described),
            cost,
        } = check(body.as_bytes()).ok().unwrap()
        else {
            panic!()
        };
        assert_eq!(
            (cost, described.client_ip, described.principal.is_none()),
            (1, None, true)
        );
        assert_eq!(
            (described.method, described.path.as_str()),
            (Method::GET, "/")
        );
    }
    let named = check(br#"{"limit": "a", "key": []}"#).ok().unwrap();
    assert!(
        matches!(named.about, CheckTarget::Counter(CounterName { limit, key }) if limit == "a" && key.is_empty())
    );
    assert_eq!(
        refund(br#"{"limit": "a", "key": []}"#)
            .ok()
            .map(|refund| (refund.cost, refund.age)),
        Some((1, Nanos::ZERO))
    );
}

#[test]
fn every_mistake_is_told_with_its_field() {
    for (body, expected) in [
        ("{}", "subject"),
        (r#"{"limit": "a"}"#, "key"),
        (r#"{"key": []}"#, "limit"),
        (r#"{"subject": {}, "limit": "a"}"#, "limit"),
        (r#"{"subject": {}, "key": []}"#, "key"),
        (r#"{"subject": []}"#, "subject"),
        (
            r#"{"subject": ["::1", "GET", null, "/", {}, null, {}]}"#,
            "subject",
        ),
        (r#"{"subject": {}, "cost": -1}"#, "cost"),
        (r#"{"subject": {}, "cost": 1.5}"#, "cost"),
        (r#"{"subject": {}, "cost": "1"}"#, "cost"),
        (r#"{"subject": {}, "cost": 4294967296}"#, "cost"),
        (r#"{"limit": "a", "key": "b"}"#, "key"),
        (r#"{"limit": "a", "key": ["b", 1]}"#, "key[1]"),
        (r#"{"limit": 7, "key": []}"#, "limit"),
        (r#"{"subject": {"client_ip": 1}}"#, "subject.client_ip"),
        (r#"{"subject": {"client_ip": "ann"}}"#, "subject.client_ip"),
        (r#"{"subject": {"method": "A B"}}"#, "subject.method"),
        (r#"{"subject": {"method": ""}}"#, "subject.method"),
        (r#"{"subject": {"host": "a b"}}"#, "subject.host"),
        (r#"{"subject": {"path": "x"}}"#, "subject.path"),
        (r#"{"subject": {"path": "/a%2Fb"}}"#, "subject.path"),
        (r#"{"subject": {"headers": []}}"#, "subject.headers"),
        (r#"{"subject": {"headers": {"a": 1}}}"#, "subject.headers.a"),
        (
            r#"{"subject": {"headers": {"a b": "1"}}}"#,
            "subject.headers.a b",
        ),
        (
            r#"{"subject": {"headers": {"a": "\n"}}}"#,
            "subject.headers.a",
        ),
        (
            r#"{"subject": {"headers": {"a": "1", "A": "2"}}}"#,
            "subject.headers.A",
        ),
        (r#"{"subject": {"principal": ""}}"#, "subject.principal"),
        (r#"{"subject": {"principal": 1}}"#, "subject.principal"),
        (
            r#"{"subject": {"principal": {"id": 1}}}"#,
            "subject.principal.id",
        ),
        (
            r#"{"subject": {"principal": {"id": "a", "claims": {"b": []}}}}"#,
            "subject.principal.claims.b",
        ),
        (
            r#"{"subject": {"descriptors": {"a": null}}}"#,
            "subject.descriptors.a",
        ),
    ] {
        assert_eq!(field(body), expected, "{body}");
    }
}

#[test]
fn mistakes_in_refunds_resets_and_batches_are_told_with_their_field() {
    assert_eq!(field_of(refund(br#"{"limit": "a"}"#)), "key");
    assert_eq!(
        field_of(refund(br#"{"limit": "a", "key": [], "age_us": "x"}"#)),
        "age_us"
    );
    assert_eq!(field_of(reset(br#"{"key": []}"#)), "limit");
    assert_eq!(field_of(batch(b"{}")), "checks");
}

#[test]
fn names_that_are_not_known_or_stand_there_twice_are_named() {
    for (body, name) in [
        (r#"{"subject": {}, "costs": 1}"#, "costs"),
        (r#"{"subject": {"hots": "a"}}"#, "hots"),
        (
            r#"{"subject": {"principal": {"id": "a", "plan": "b"}}}"#,
            "plan",
        ),
        (r#"{"subject": {}, "subject": {}}"#, "subject"),
        (r#"{"subject": {}, "cost": 1, "cost": 2}"#, "cost"),
        (r#"{"subject": {"path": "/", "path": "/a"}}"#, "path"),
        (r#"{"subject": {"headers": {"aa": "1", "aa": "2"}}}"#, "aa"),
        (
            r#"{"subject": {"descriptors": {"bb": "1", "bb": "2"}}}"#,
            "bb",
        ),
    ] {
        let told = mistake(check(body.as_bytes())).to_string();
        assert!(told.contains(name), "{name} in {told}");
    }
    assert!(
        mistake(reset(br#"{"limit": "a", "key": [], "cost": 1}"#))
            .to_string()
            .contains("cost")
    );
    assert!(
        mistake(batch(br#"{"checks": [], "check": 1}"#))
            .to_string()
            .contains("`check`")
    );
}

#[test]
fn what_is_no_json_is_a_mistake_however_deep_it_is() {
    let deep = |depth: usize| "[".repeat(depth);
    for body in [
        String::new(),
        "nul".to_owned(),
        r#"[null, "per-ip", ["::1"], 1]"#.to_owned(),
        r#"{"subject": {"principal": ["ann", {}]}}"#.to_owned(),
        "{\"subject\": {}} x".to_owned(),
        "\u{feff}{}".to_owned(),
        deep(60_000),
        format!("{{\"key\": {}", deep(60_000)),
        format!("{{\"subject\": {}", "{\"subject\": ".repeat(5_000)),
        format!("{{\"x\": {}", deep(60_000)),
    ] {
        mistake(check(body.as_bytes()));
    }
    mistake(check(b"{\"limit\": \"\xff\"}"));
    let entry = format!("{}{}", deep(20_000), "]".repeat(20_000));
    let nested = format!("{{\"checks\": [{entry}]}}");
    let entries = batch(nested.as_bytes()).unwrap();
    mistake(check(entries[0].get().as_bytes()));
}

#[test]
fn a_batch_has_a_thousand_checks_at_most_and_each_is_read_alone() {
    let of = |count: usize| format!("{{\"checks\": [{}]}}", vec!["{\"x\":1}"; count].join(","));
    assert_eq!(batch(of(1_000).as_bytes()).unwrap().len(), 1_000);
    assert_eq!(field_of(batch(of(1_001).as_bytes())), "checks");
    assert_eq!(batch(b"{\"checks\": []}").unwrap().len(), 0);
}

#[test]
fn what_is_told_back_is_short() {
    let body = format!("{{\"cost\": \"{}\"}}", "é".repeat(20_000));
    let told = mistake(check(body.as_bytes())).to_string();
    assert!(told.len() < 600, "{}", told.len());
    let body = format!(
        "{{\"subject\": {{\"headers\": {{\"{}\": 1}}}}}}",
        "h".repeat(20_000)
    );
    let told = mistake(check(body.as_bytes())).to_string();
    assert!(told.len() < 1_200, "{}", told.len());
}

/// What the reader of all forms makes of a check that is about a counter.
fn counter_in_any_form(body: &[u8]) -> Option<(String, Vec<String>, u64)> {
    match check(body).ok()? {
        CheckRequest {
            about: CheckTarget::Counter(CounterName { limit, key }),
            cost,
        } => Some((limit, key, cost)),
        CheckRequest { .. } => None,
    }
}

/// Whatever the quick reader understands means the same to the other.
fn compare_readers(body: &[u8]) {
    if let Some(plain) = plain_counter_check(body) {
        let key = plain.key.iter().map(|part| (*part).to_owned()).collect();
        let read = (plain.limit.to_owned(), key, plain.cost);
        assert_eq!(Some(read), counter_in_any_form(body), "{body:?}");
    }
}

#[test]
fn the_usual_form_is_read_at_once_and_others_are_left_alone() {
    for usual in [
        r#"{"limit":"a","key":["b"]}"#,
        r#" { "key" : [ "b" , "ü" ] , "cost" : 4294967295 , "limit" : "" } "#,
        r#"{"limit":"a","key":[],"cost":0}"#,
    ] {
        assert!(plain_counter_check(usual.as_bytes()).is_some(), "{usual}");
        compare_readers(usual.as_bytes());
    }
    for other in [
        "",
        "{}",
        r#"{"limit":"a"}"#,
        r#"{"key":["b"]}"#,
        r#"{"limit":"a","key":["b"]}x"#,
        r#"{"limit":"a","key":["b"],}"#,
        r#"{"limit":"a","key":["b",]}"#,
        r#"{"limit":"a","limit":"a","key":["b"]}"#,
        r#"{"limit":"a","key":["b"],"more":1}"#,
        r#"{"limit":"a","key":["b"],"cost":null}"#,
        r#"{"limit":"a","key":["b"],"cost":01}"#,
        r#"{"limit":"a","key":["b"],"cost":1.0}"#,
        r#"{"limit":"a","key":["b"],"cost":1e1}"#,
        r#"{"limit":"a","key":["b"],"cost":-1}"#,
        r#"{"limit":"a","key":["b"],"cost":4294967296}"#,
        r#"{"limit":"a\n","key":["b"]}"#,
        r#"{"limit":"a","key":"b"}"#,
        r#"{"limit":"a","key":[1]}"#,
        r#"["a",["b"]]"#,
    ] {
        assert!(plain_counter_check(other.as_bytes()).is_none(), "{other}");
    }
    assert!(plain_counter_check(b"{\"limit\":\"\xff\",\"key\":[\"b\"]}").is_none());
    assert!(plain_counter_check(b"{\"limit\":\"\x01\",\"key\":[\"b\"]}").is_none());
}

proptest! {
    #[test]
    fn what_is_read_at_once_means_the_same_in_every_reader(
        pieces in proptest::collection::vec(
            prop_oneof![
                Just("{"), Just("}"), Just("["), Just("]"), Just(","), Just(":"), Just("\"limit\""),
                Just("\"key\""), Just("\"cost\""), Just("\"a\""), Just("\"ü\\u0041\""), Just("7"),
                Just("0"), Just(" "), Just("null"), Just("\"limit\":\"a\""), Just("\"key\":[\"b\"]"),
            ],
            0..14,
        )
    ) {
        let body = pieces.concat();
        compare_readers(body.as_bytes());
        compare_readers(format!("{{{body}}}").as_bytes());
    }
}
