//! Own rejections: read, checked, told and compared.

use std::fs;
use std::path::Path;

use sluicegate_config::{Config, Mistakes, Source, Syntax, load};
use sluicegate_core::{OwnRejection, RejectionValues};

use crate::{good, schema, wrong};

/// A limit with this `reject`, and `response` in front of it.
fn text(response: &str, reject: &str) -> String {
    format!(
        "response: {{ {response} }}\nlimits:\n  - {{ name: a, key: global, rate: 1/s{reject} }}\n"
    )
}

fn load_in(directory: &Path, text: &str) -> Result<Config, Mistakes> {
    let source = Source {
        name: "sluicegate.yaml".to_owned(),
        text: text.to_owned(),
        syntax: Syntax::Yaml,
        base_dir: directory.to_owned(),
    };
    load(&source, &|_| None)
}

fn of_limit(config: &Config) -> &OwnRejection {
    config.policy.limits()[0]
        .reject
        .as_deref()
        .expect("the limit has one")
}

fn filled(own: &OwnRejection) -> String {
    let mut out = Vec::new();
    let values = RejectionValues {
        limit: "a",
        retry_after_secs: 3,
        request_id: "1f",
    };
    own.body()
        .expect("it has a body")
        .text
        .fill(&values, &mut out);
    String::from_utf8(out).expect("the texts are UTF-8")
}

#[test]
fn status_body_type_and_headers_are_read() {
    let text = text(
        "",
        ", reject: { status: 403, body: 'wait {retry_after}s', content_type: text/x-wait, headers: { X-Support: 'mail {request_id}' } }",
    );
    let config = good(&text);
    schema::accepts(&text).unwrap();
    let own = of_limit(&config);
    assert_eq!(own.status(), Some(403));
    assert_eq!(filled(own), "wait 3s");
    assert_eq!(own.body().unwrap().content_type, "text/x-wait");
    assert_eq!(own.headers()[0].0, "x-support");
    assert!(
        good("limits: [{ name: a, key: global, rate: 1/s }]")
            .policy
            .limits()[0]
            .reject
            .is_none()
    );
}

#[test]
fn what_a_limit_leaves_out_comes_from_the_response_section() {
    let default = "reject: { status: 503, body: all, headers: { x-a: '1' } }";
    let config = good(&text(default, ""));
    assert_eq!(
        (of_limit(&config).status(), filled(of_limit(&config))),
        (Some(503), "all".into())
    );
    let config = good(&text(default, ", reject: { body: own }"));
    let own = of_limit(&config);
    assert_eq!((own.status(), filled(own)), (Some(503), "own".into()));
    assert_eq!(own.headers().len(), 1);
    let config = good(&text(default, ", reject: { headers: { x-b: '2' } }"));
    assert_eq!(of_limit(&config).headers()[0].0, "x-b");
}

#[test]
fn a_body_comes_from_a_file_beside_the_configuration() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("sorry.html"), "<p>{limit}").unwrap();
    fs::write(directory.path().join("sorry"), "{\"limit\": \"{limit}\"}\n").unwrap();
    let file = |rest: &str| {
        let text = text("", &format!(", reject: {{ {rest} }}"));
        load_in(directory.path(), &text).unwrap_or_else(|mistakes| panic!("{mistakes}"))
    };
    let config = file("body_file: sorry.html");
    assert_eq!(filled(of_limit(&config)), "<p>a");
    assert_eq!(
        of_limit(&config).body().unwrap().content_type,
        "text/html; charset=utf-8"
    );
    let read = &config.response.body_files[0];
    assert_eq!(read.path, directory.path().join("sorry.html"));
    assert_eq!(read.text, "<p>{limit}");
    let own = file("body_file: sorry");
    assert_eq!(
        of_limit(&own).body().unwrap().content_type,
        "application/json"
    );
    let own = file("body_file: sorry, content_type: application/problem+json");
    assert_eq!(
        of_limit(&own).body().unwrap().content_type,
        "application/problem+json"
    );
    // Two limits with the same file share it.
    let both = "limits:\n  - { name: a, key: global, rate: 1/s, reject: { body_file: sorry } }\n  - { name: b, key: path, rate: 1/s, reject: { body_file: sorry } }\n";
    assert_eq!(
        load_in(directory.path(), both)
            .unwrap()
            .response
            .body_files
            .len(),
        1
    );
}

#[test]
fn files_that_cannot_be_a_body_are_mistakes_with_their_place() {
    let directory = tempfile::tempdir().unwrap();
    let write =
        |name: &str, content: &[u8]| fs::write(directory.path().join(name), content).unwrap();
    write("long.txt", &vec![b'a'; OwnRejection::BODY_MAX + 1]);
    write("odd.txt", b"\xff");
    write("unknown.txt", b"hello {name}");
    fs::create_dir(directory.path().join("directory")).unwrap();
    for (name, message) in [
        ("missing.txt", "No such file or directory (os error 2)"),
        ("directory", "it is not a regular file"),
        ("long.txt", "it is longer than 64 KiB"),
        ("odd.txt", "it is not UTF-8"),
    ] {
        let text = text("", &format!(", reject: {{ body_file: {name} }}"));
        let mistakes = load_in(directory.path(), &text).unwrap_err().to_string();
        let path = directory.path().join(name);
        let expected = format!(
            "limits[0].reject.body_file: cannot read {}: {message}",
            path.display()
        );
        assert!(mistakes.contains(&expected), "{mistakes}");
        assert!(mistakes.contains("sluicegate.yaml:3:"), "{mistakes}");
    }
    let text = text("reject: { body_file: unknown.txt }", "");
    let mistakes = load_in(directory.path(), &text).unwrap_err().to_string();
    assert!(
        mistakes.contains("response.reject.body_file: unknown placeholder {name}"),
        "{mistakes}"
    );
}

#[test]
fn mistakes_have_their_place_and_the_way_out() {
    let long = "a".repeat(OwnRejection::BODY_MAX + 1);
    for (keys, message) in [
        ("status: 200", "status: must be 400 to 599 (got 200)"),
        ("status: 600", "status: must be 400 to 599 (got 600)"),
        (
            "body: 'a {name}'",
            "body: unknown placeholder {name} (known: {limit}, {retry_after}, {request_id}); write {{name}} for the text {name}",
        ),
        (
            &format!("body: {long}"),
            "body: must be at most 64 KiB (got 65537 bytes)",
        ),
        (
            "body: a, body_file: b",
            "body_file: cannot be combined with body: use one of them",
        ),
        (
            "content_type: text/html",
            "content_type: needs body or body_file beside it",
        ),
        (
            "body: a, content_type: html",
            "content_type: expected a media type such as text/html (got \"html\")",
        ),
        (
            "headers: { Retry-After: '1' }",
            "headers.Retry-After: cannot be set here: it is written by the limiter",
        ),
        (
            "headers: { Content-Length: '1' }",
            "headers.Content-Length: cannot be set here: it is written by HTTP itself",
        ),
        (
            "headers: { 'a b': '1' }",
            "headers.\"a b\": is not a valid header name",
        ),
        (
            "headers: { x-a: '1', X-A: '2' }",
            "headers.X-A: is listed twice",
        ),
        (
            "headers: { x-a: \"a\\nb\" }",
            "headers.x-a: must be printable ASCII, without line ends",
        ),
        (
            "headers: { x-a: '{ip}' }",
            "headers.x-a: unknown placeholder {ip} (known: {limit}, {retry_after}, {request_id}); write {{ip}} for the text {ip}",
        ),
    ] {
        let of_limit = wrong(&text("", &format!(", reject: {{ {keys} }}")));
        assert_eq!(of_limit, format!("limits[0].reject.{message}"));
        let of_all = wrong(&text(&format!("reject: {{ {keys} }}"), ""));
        assert_eq!(of_all, format!("response.reject.{message}"));
    }
}

#[test]
fn the_response_to_denied_requests_is_told() {
    let config = good(
        "response: { reject: { status: 403 } }\nlimits:\n  - { name: a, key: global, rate: 1/s }\n  - { name: b, key: path, rate: 1/s, reject: { body: <html>no, headers: { x-a: '1', x-b: '2' } } }\n",
    );
    let words = config.in_words();
    for sentence in [
        "denied requests get 403",
        "requests that b denies get 403, a body of text/html (8 bytes), the header x-a and the header x-b",
    ] {
        assert!(words.iter().any(|told| told == sentence), "{words:#?}");
    }
    assert!(
        !words.iter().any(|told| told.contains("that a denies")),
        "{words:#?}"
    );
}

#[test]
fn another_response_is_a_change_told_once() {
    let changes = |old: &str, new: &str| {
        let changes = good(old).changes_to(&good(new));
        let told = changes
            .into_iter()
            .map(|change| (change.key, change.message));
        told.collect::<Vec<_>>()
    };
    let of_all = |reject: &str| text(&format!("reject: {{ {reject} }}"), "");
    let of_limit = |reject: &str| text("", &format!(", reject: {{ {reject} }}"));
    let changed = |key: &str, message: &str| vec![(key.to_owned(), message.to_owned())];
    assert_eq!(
        changes(&text("", ""), &of_all("status: 403")),
        changed(
            "response.reject",
            "denied requests get 403 now, and got 429 before"
        )
    );
    assert_eq!(
        changes(&of_limit("body: a"), &of_limit("body: b")),
        changed(
            "limits.a",
            "requests that a denies get 429 and a body of text/plain (1 byte) as before, in other words"
        )
    );
    assert_eq!(
        changes(&of_limit("status: 503"), &text("", "")),
        changed(
            "limits.a",
            "requests that a denies get 429 now, and got 503 before"
        )
    );
    assert_eq!(
        changes(&of_limit("status: 503"), &of_limit("status: 503")),
        []
    );
}
