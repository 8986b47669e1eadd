//! Conditions on query and caller, and keys by query, cookie and TLS name.

use sluicegate_core::{
    Headers, KeyPart, Limit, Match, MissingReason, NoHeaders, Policy, Principal, Quota, Subject,
    ValueMatch,
};

fn is_covered(matching: &Match, subject: &Subject<'_>) -> bool {
    let limit = Limit::new("limit", Quota::per_second(1)).matching(matching.clone());
    let policy = Policy::new([limit]).unwrap();
    !policy.charges_for(subject, 1).unwrap().is_empty()
}

#[test]
fn a_query_parameter_is_matched_decoded_and_only_once() {
    let debug = Match::default().query("debug", "1 b");
    let mut any = Match::default().query("debug", "");
    any.query[0].value = None;
    let on = |matching: &Match, query: Option<&str>| {
        let subject = Subject {
            query,
            ..Subject::ANONYMOUS
        };
        is_covered(matching, &subject)
    };
    for (query, is_value, is_there) in [
        ("debug=1+b", true, true),
        ("x=y&d%65bug=%31%20b", true, true),
        ("debug=1", false, true),
        ("debug", false, true),
        ("debug=1+b&debug=1+b", false, true),
        ("debug=1+b&debug=2", false, true),
        ("Debug=1+b", false, false),
        ("xdebug=1+b", false, false),
        ("", false, false),
    ] {
        assert_eq!(on(&debug, Some(query)), is_value, "{query}");
        assert_eq!(on(&any, Some(query)), is_there, "{query}");
    }
    assert!(!on(&debug, None) && !on(&any, None));
}

#[test]
fn a_condition_on_the_caller_holds_for_verified_callers_only() {
    let on = |matching: &Match, principal: Option<&Principal>| {
        let subject = Subject {
            principal,
            ..Subject::ANONYMOUS
        };
        is_covered(matching, &subject)
    };
    let ann = Principal::new("ann").claim("plan", "gold");
    let bob = Principal::new("bob").claim("plan", "dev, gold");
    let cy = Principal::new("cy");
    let listed = Match::default().principals(["ann", "cy"]);
    let any = Match::default().any_principal();
    let gold = Match::default().claim("plan", ["silver", "gold"]);
    let mut planned = gold.clone();
    planned.claims[0].values = ValueMatch::Any;
    let whole = Match::default().claim("plan", ["dev, gold"]);
    for (matching, expected) in [
        (&listed, [false, true, false, true]),
        (&any, [false, true, true, true]),
        (&gold, [false, true, true, false]),
        (&planned, [false, true, true, false]),
        (&whole, [false, false, true, false]),
    ] {
        let found = [None, Some(&ann), Some(&bob), Some(&cy)];
        assert_eq!(found.map(|who| on(matching, who)), expected, "{matching:?}");
        let limit = Limit::new("limit", Quota::per_second(1)).matching(matching.clone());
        assert!(limit.needs_principal());
    }
}

/// The key of a request under a limit by one part, or the reason why it has none.
fn key_by(part: &str, subject: &Subject<'_>) -> Result<String, MissingReason> {
    let limit = Limit::new("by", Quota::per_second(1)).key([part.parse().unwrap()]);
    let policy = Policy::new([limit]).unwrap();
    let charges = policy
        .charges_for(subject, 1)
        .map_err(|missing| missing.reason)?;
    Ok(charges[0].key.to_string())
}

#[test]
fn a_query_parameter_names_a_caller_if_it_has_one_clear_value() {
    let by_user = |query: &str| {
        let subject = Subject {
            query: Some(query),
            ..Subject::ANONYMOUS
        };
        key_by("query:user", &subject)
    };
    assert_eq!(by_user("a=b&user=ann"), Ok("by:ann".to_owned()));
    assert_eq!(by_user("user=%61nn"), by_user("user=ann"));
    assert_eq!(by_user("user=a%3Ab"), Ok("by:a%3Ab".to_owned()));
    assert_eq!(by_user("user=%FF"), Ok("by:%FF".to_owned()));
    assert_ne!(by_user("user=Ann"), by_user("user=ann"));
    for (query, expected) in [
        ("", MissingReason::Missing),
        ("users=ann", MissingReason::Missing),
        ("user=", MissingReason::Empty),
        ("user", MissingReason::Empty),
        ("user=+%20", MissingReason::Empty),
        ("user=ann&user=bob", MissingReason::Repeated),
        ("user=ann%00", MissingReason::NotText),
        ("user=ann%0A", MissingReason::NotText),
        ("user=junk;user=ann", MissingReason::Ambiguous),
    ] {
        assert_eq!(by_user(query), Err(expected), "{query}");
    }
    let long = |bytes| format!("user={}", "%41".repeat(bytes));
    assert!(by_user(&long(4_096)).is_ok());
    assert_eq!(by_user(&long(4_097)), Err(MissingReason::TooLong));
}

#[test]
fn cookies_and_tls_names_make_keys() {
    let with = |headers: &dyn Headers| {
        let subject = Subject {
            headers,
            sni: Some("a.example"),
            ..Subject::ANONYMOUS
        };
        [key_by("cookie:sid", &subject), key_by("sni", &subject)]
    };
    let sni = Ok("by:a.example".to_owned());
    assert_eq!(
        with(&[("cookie", "a=b"), ("Cookie", "sid=\"x1\"")]),
        [Ok("by:x1".to_owned()), sni.clone()]
    );
    assert_eq!(
        with(&[("cookie", "sid=x1"), ("cookie", "sid=x1")]),
        [Err(MissingReason::Repeated), sni.clone()]
    );
    assert_eq!(with(&NoHeaders), [Err(MissingReason::Missing), sni]);
    assert_eq!(
        key_by("sni", &Subject::ANONYMOUS),
        Err(MissingReason::Missing)
    );
}

#[test]
fn every_new_part_is_written_as_it_is_read() {
    for text in ["query:user id", "query:a:b", "cookie:__Host-sid", "sni"] {
        let part: KeyPart = text.parse().unwrap();
        assert_eq!(part.to_string(), text);
    }
    for text in ["query:", "cookie:", "cookie:a b", "cookie:a=b", "sni:x"] {
        assert!(text.parse::<KeyPart>().is_err(), "{text}");
    }
}
