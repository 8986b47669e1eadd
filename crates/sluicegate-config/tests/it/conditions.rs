//! Conditions on query and caller, and keys by query, cookie and TLS name.

use sluicegate_core::{ClaimMatch, KeyPart, Match, QueryMatch, ValueMatch};

use crate::limits::one;
use crate::schema::accepts;
use crate::{bad, good, wrong};

fn matching(conditions: &str) -> Match {
    let text = one(&format!("rate: 1/s, match: {conditions}"));
    accepts(&text).unwrap_or_else(|why| panic!("{why}\n{text}"));
    good(&text).policy.limits()[0].matching.clone()
}

#[test]
fn conditions_on_query_and_caller_arrive() {
    let mut query = Match::default().query("debug", "1");
    query.query.push(QueryMatch {
        name: "a b".to_owned(),
        value: None,
    });
    assert_eq!(
        matching("{ query: { debug: \"1\", a b: \"*\" } }"),
        query,
        "by name and value, or any value"
    );
    let listed = Match::default().principals(["ann", "bob"]);
    assert_eq!(matching("{ principal: [ann, bob] }"), listed);
    assert_eq!(
        matching("{ principal: ann }"),
        Match::default().principals(["ann"])
    );
    assert_eq!(
        matching("{ principal: \"*\" }"),
        Match::default().any_principal()
    );
    let mut claims = Match::default().claim("plan", ["gold", "silver"]);
    claims.claims.push(ClaimMatch {
        name: "team".to_owned(),
        values: ValueMatch::Any,
    });
    assert_eq!(
        matching("{ claim: { plan: [gold, silver], team: \"*\" } }"),
        claims
    );
    assert_eq!(
        matching("{ claim: { plan: gold } }"),
        Match::default().claim("plan", ["gold"])
    );
}

#[test]
fn keys_by_query_cookie_and_tls_name_arrive() {
    let text = "limits: [{ name: a, key: [\"query:user id\", \"cookie:sid\", sni], rate: 1/s }]";
    accepts(text).unwrap();
    let expected = [
        KeyPart::Query("user id".to_owned()),
        KeyPart::Cookie("sid".to_owned()),
        KeyPart::Sni,
    ];
    assert_eq!(good(text).policy.limits()[0].key, expected);
    for key in ["cookie:a b", "cookie:", "query:", "sni:a"] {
        let text = format!("limits: [{{ name: a, key: [\"{key}\"], rate: 1/s }}]");
        let reported = wrong(&text);
        assert!(
            reported.starts_with("limits[0].key[0]: expected "),
            "{reported}"
        );
        assert!(accepts(&text).is_err(), "the schema accepts {key}");
    }
}

#[test]
fn conditions_that_make_no_sense_are_refused_with_their_place() {
    for (conditions, message, is_seen_by_schema) in [
        (
            "{ query: debug }",
            "match.query: expected a section (got \"debug\")",
            true,
        ),
        (
            "{ query: { debug: 1 } }",
            "match.query.debug: expected text (got 1)",
            true,
        ),
        (
            "{ query: { \"\": x } }",
            "match.query.\"\": the name of a parameter must not be empty",
            true,
        ),
        (
            "{ principal: [] }",
            "match.principal: must name at least one value, or \"*\" for any",
            true,
        ),
        (
            "{ principal: \"\" }",
            "match.principal: must not be empty",
            true,
        ),
        (
            "{ principal: [ann, \"*\"] }",
            "match.principal: \"*\" is every value: leave the others out",
            false,
        ),
        (
            "{ claim: gold }",
            "match.claim: expected a section (got \"gold\")",
            true,
        ),
        (
            "{ claim: { plan: [] } }",
            "match.claim.plan: must name at least one value, or \"*\" for any",
            true,
        ),
        (
            "{ claim: { plan: true } }",
            "match.claim.plan: expected text (got true)",
            true,
        ),
        (
            "{ claim: { \"\": x } }",
            "match.claim.\"\": the name of a claim must not be empty",
            true,
        ),
        (
            "{ claims: { plan: x } }",
            "match: unknown key `claims`, did you mean `claim`?",
            true,
        ),
    ] {
        let text = one(&format!("rate: 1/s, match: {conditions}"));
        assert_eq!(bad(&text), [format!("limits[0].{message}")], "{conditions}");
        assert_eq!(accepts(&text).is_err(), is_seen_by_schema, "{conditions}");
    }
}

#[test]
fn conditions_and_keys_are_told_and_compared() {
    let limit = |matching: &str| {
        format!(
            "principals: {{ api_keys: {{ file: keys.yaml }} }}
limits: [{{ name: a, key: [\"query:user\", \"cookie:sid\", sni], rate: 1/s, match: {matching} }}]"
        )
    };
    let old = good(&limit("{ query: { debug: \"1\", x: \"*\" } }"));
    let new = good(&limit(
        "{ path: /a, principal: [ann, bob], claim: { plan: [gold, silver], team: \"*\" } }",
    ));
    let any = good(&limit("{ principal: \"*\" }"));
    let told = |config: &sluicegate_config::Config| {
        let words = config.in_words();
        words
            .into_iter()
            .find(|line| line.starts_with("a: "))
            .unwrap()
    };
    let numbers = "a: at most 1 request at once and 1 a second, for each user in the query, cookie sid and TLS server name";
    assert_eq!(
        told(&old),
        format!("{numbers}, with debug=1 and x in the query")
    );
    assert_eq!(
        told(&new),
        format!(
            "{numbers}, below /a for principal ann or bob for callers whose claim plan is gold or silver and claim team is there"
        )
    );
    assert_eq!(told(&any), format!("{numbers}, for verified callers"));
    let changes = old.changes_to(&any);
    let messages: Vec<&str> = changes
        .iter()
        .map(|change| change.message.as_str())
        .collect();
    assert_eq!(
        messages,
        ["a applies for verified callers now, and with debug=1 and x in the query before"]
    );
}
