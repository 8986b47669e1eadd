//! The limits that a request is charged to.

use sluicegate_core::{
    Charge, HeaderMatch, Headers, KeyPart, Limit, Match, NoHeaders, Policy, PolicyErrors, Quota,
    Subject,
};

fn limit(name: &str) -> Limit {
    Limit::new(name, Quota::per_second(1))
}

fn on_path(name: &str, path: &str) -> Limit {
    limit(name).matching(Match::path(path).unwrap())
}

fn policy(limits: impl IntoIterator<Item = Limit>) -> Policy {
    Policy::new(limits).unwrap()
}

/// The names of the limits that a request is charged to, in order.
fn charged(policy: &Policy, subject: &Subject<'_>) -> Vec<String> {
    let charges = policy.charges_for(subject, 1).unwrap();
    charges
        .iter()
        .map(|charge: &Charge<'_>| charge.key.limit().name.clone())
        .collect()
}

fn charged_on(policy: &Policy, path: &str) -> Vec<String> {
    charged(
        policy,
        &Subject {
            path,
            ..Subject::ANONYMOUS
        },
    )
}

#[test]
fn api_covers_what_lies_below_it_and_not_apix() {
    let policy = policy([on_path("api", "/api")]);
    for covered in [
        "/api",
        "/api/",
        "/api/v1",
        "/api/v1/users",
        "/API",
        "/aPi/x",
    ] {
        assert_eq!(charged_on(&policy, covered), ["api"], "{covered}");
    }
    for other in ["/", "/apix", "/apix/api", "/ap", "/v1/api"] {
        assert!(charged_on(&policy, other).is_empty(), "{other}");
    }
}

#[test]
fn a_template_stands_for_exactly_one_segment() {
    let policy = policy([on_path("orders", "/users/{id}/orders")]);
    for covered in [
        "/users/7/orders",
        "/users/ann/orders/3",
        "/users/{id}/orders",
    ] {
        assert_eq!(charged_on(&policy, covered), ["orders"], "{covered}");
    }
    for other in [
        "/users/orders",
        "/users/7/8/orders",
        "/users//orders",
        "/users/7/order",
        "/users/7",
    ] {
        assert!(charged_on(&policy, other).is_empty(), "{other}");
    }
}

#[test]
fn a_path_of_only_a_slash_covers_everything() {
    let policy = policy([on_path("root", "/")]);
    for path in ["/", "/a", "/a/b/c"] {
        assert_eq!(charged_on(&policy, path), ["root"], "{path}");
    }
}

#[test]
fn methods_are_compared_as_sent_and_unknown_ones_count() {
    let policy = policy([
        limit("all"),
        limit("writes").matching(Match::default().methods(["POST", "BREW"])),
    ]);
    let charged_for = |method| {
        charged(
            &policy,
            &Subject {
                method,
                ..Subject::ANONYMOUS
            },
        )
    };
    assert_eq!(charged_for("POST"), ["all", "writes"]);
    assert_eq!(charged_for("BREW"), ["all", "writes"]);
    for other in ["GET", "post", "FROBNICATE"] {
        assert_eq!(charged_for(other), ["all"], "{other}");
    }
}

#[test]
fn a_host_is_matched_whole_or_by_its_domain() {
    let matching = Match::default()
        .host("A.Example")
        .unwrap()
        .host("*.b.example")
        .unwrap();
    let policy = policy([limit("hosts").matching(matching)]);
    let charged_for = |host| {
        !charged(
            &policy,
            &Subject {
                host,
                ..Subject::ANONYMOUS
            },
        )
        .is_empty()
    };
    for covered in ["a.example", "x.b.example", "y.x.b.example"] {
        assert!(charged_for(Some(covered)), "{covered}");
    }
    for other in [
        "b.example",
        "xa.example",
        "a.a.example",
        "xb.example",
        "a.example.x",
        "example",
        "",
    ] {
        assert!(!charged_for(Some(other)), "{other}");
    }
    assert!(!charged_for(None), "a request without a host");
}

#[test]
fn headers_are_matched_by_value_or_by_presence() {
    let beta = limit("beta").matching(Match::default().header("X-Beta", "yes"));
    let traced = HeaderMatch {
        name: "traceparent".into(),
        value: None,
    };
    let traced = limit("traced").matching(Match {
        headers: vec![traced],
        ..Match::default()
    });
    let policy = policy([beta, traced]);
    let charged_for = |headers: &dyn Headers| {
        charged(
            &policy,
            &Subject {
                headers,
                ..Subject::ANONYMOUS
            },
        )
    };
    assert_eq!(charged_for(&[("x-beta", "yes")]), ["beta"]);
    assert_eq!(
        charged_for(&[("X-BETA", "yes"), ("TraceParent", "0")]),
        ["beta", "traced"]
    );
    assert_eq!(
        charged_for(&[("traceparent", "0"), ("traceparent", "1")]),
        ["traced"],
        "there, though twice"
    );
    assert!(
        charged_for(&[("x-beta", "yes"), ("x-beta", "yes")]).is_empty(),
        "which one counts would be a guess"
    );
    assert!(charged_for(&[("x-beta", "Yes")]).is_empty());
    assert!(charged_for(&NoHeaders).is_empty());
}

#[test]
fn all_conditions_of_a_limit_must_hold() {
    let matching = Match::path("/api")
        .unwrap()
        .methods(["POST"])
        .host("a.example")
        .unwrap()
        .header("x-beta", "yes");
    let policy = policy([limit("narrow").matching(matching)]);
    let headers = &[("x-beta", "yes")];
    let all = Subject {
        method: "POST",
        host: Some("a.example"),
        path: "/api",
        headers,
        ..Subject::ANONYMOUS
    };
    assert_eq!(charged(&policy, &all), ["narrow"]);
    let one_missing = [
        Subject {
            method: "GET",
            ..all
        },
        Subject {
            host: Some("b.example"),
            ..all
        },
        Subject { path: "/", ..all },
        Subject {
            headers: &NoHeaders,
            ..all
        },
    ];
    for subject in one_missing {
        assert!(charged(&policy, &subject).is_empty(), "{subject:?}");
    }
}

#[test]
fn the_longest_path_takes_the_place_of_the_global_limit() {
    let policy = policy([
        limit("global"),
        on_path("api", "/api").replaces("global"),
        on_path("upload", "/api/upload").replaces("global"),
        on_path("item", "/api/{item}").replaces("global"),
        limit("other"),
    ]);
    assert_eq!(charged_on(&policy, "/"), ["global", "other"]);
    assert_eq!(charged_on(&policy, "/api"), ["api", "other"]);
    assert_eq!(charged_on(&policy, "/api/x"), ["item", "other"]);
    assert_eq!(
        charged_on(&policy, "/api/upload/1"),
        ["upload", "other"],
        "text is longer than a template"
    );
    assert_eq!(charged_on(&policy, "/apix"), ["global", "other"]);
}

#[test]
fn an_override_is_keyed_per_client_like_the_limit_it_replaces() {
    let policy = policy([
        Limit::per_client("global", Quota::per_second(1)),
        Limit::per_client("api", Quota::per_second(5))
            .matching(Match::path("/api").unwrap())
            .replaces("global"),
    ]);
    let key = |ip: &str, path| {
        let subject = Subject {
            client_ip: Some(ip.parse().unwrap()),
            path,
            ..Subject::ANONYMOUS
        };
        policy.charges_for(&subject, 1).unwrap()[0].key.to_string()
    };
    assert_eq!(key("203.0.113.1", "/"), "global:203.0.113.1");
    assert_eq!(key("203.0.113.1", "/api/x"), "api:203.0.113.1");
    assert_eq!(key("203.0.113.2", "/api/x"), "api:203.0.113.2");
}

#[test]
fn between_equal_paths_more_conditions_win_and_then_the_first() {
    let same = |name: &str| on_path(name, "/api").replaces("global");
    let posts = |name: &str| {
        limit(name)
            .matching(Match::path("/api").unwrap().methods(["POST"]))
            .replaces("global")
    };
    let policy = policy([
        limit("global"),
        same("first"),
        same("second"),
        posts("posts"),
        posts("more-posts"),
    ]);
    let charged_for = |method| {
        charged(
            &policy,
            &Subject {
                method,
                path: "/api",
                ..Subject::ANONYMOUS
            },
        )
    };
    assert_eq!(charged_for("GET"), ["first"]);
    assert_eq!(charged_for("POST"), ["posts"]);
}

#[test]
fn a_chain_of_replacements_ends_with_the_last_that_matches() {
    let posts = limit("posts")
        .matching(Match::path("/api").unwrap().methods(["POST"]))
        .replaces("api");
    let policy = policy([
        limit("global"),
        on_path("api", "/api").replaces("global"),
        posts,
    ]);
    let charged_for = |method, path| {
        charged(
            &policy,
            &Subject {
                method,
                path,
                ..Subject::ANONYMOUS
            },
        )
    };
    assert_eq!(charged_for("GET", "/"), ["global"]);
    assert_eq!(charged_for("GET", "/api"), ["api"]);
    assert_eq!(charged_for("POST", "/api"), ["posts"]);
    assert_eq!(charged_for("POST", "/"), ["global"]);
}

/// A replacement with a shorter path than what it replaces, and a rival between them: one of them
/// must count.
#[test]
fn replacements_never_cancel_each_other_out() {
    let policy = policy([
        limit("global"),
        on_path("long", "/a/b/c").replaces("global"),
        on_path("short", "/a").replaces("long"),
        on_path("middle", "/a/b").replaces("global"),
    ]);
    assert_eq!(charged_on(&policy, "/a/b/c"), ["middle"]);
}

#[test]
fn an_unlimited_limit_is_a_hole_in_what_it_replaces() {
    let hole = Limit::unlimited("health")
        .matching(Match::path("/health").unwrap())
        .replaces("global");
    let policy = policy([limit("global"), hole]);
    assert!(charged_on(&policy, "/health").is_empty());
    assert_eq!(charged_on(&policy, "/healthy"), ["global"]);
}

#[test]
fn charges_carry_place_quota_cost_and_whether_they_are_enforced() {
    let policy = policy([
        limit("watched").shadow(),
        Limit::new("tight", Quota::per_minute(7).burst(3)),
    ]);
    let charges = policy.charges_for(&Subject::ANONYMOUS, 2).unwrap();
    let facts: Vec<_> = charges
        .iter()
        .map(|charge| (charge.limit_index, charge.cost, charge.enforced))
        .collect();
    assert_eq!(facts, [(0, 2, false), (1, 2, true)]);
    assert_eq!(charges[1].quota, Quota::per_minute(7).burst(3).into());
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let PolicyErrors(mistakes) = Policy::new([
        limit("fine"),
        limit("fine"),
        limit("has space"),
        limit(""),
        limit(&"x".repeat(65)),
        limit("keyless").key([]),
        limit("lost").replaces("nowhere"),
        limit("self").replaces("self"),
        limit("hen").replaces("egg"),
        limit("egg").replaces("hen"),
    ])
    .unwrap_err();
    let places: Vec<_> = mistakes
        .iter()
        .map(|mistake| (mistake.index, mistake.field))
        .collect();
    let expected = [
        (1, "name"),
        (2, "name"),
        (3, "name"),
        (4, "name"),
        (5, "key"),
        (6, "replaces"),
        (7, "replaces"),
        (8, "replaces"),
        (9, "replaces"),
    ];
    assert_eq!(places, expected);
    let written = PolicyErrors(mistakes).to_string();
    assert_eq!(written.lines().count(), expected.len());
    for line in [
        r#"limits[1].name: "fine" is also the name of limits[0]"#,
        r#"limits[6].replaces: there is no limit named "nowhere""#,
        r#"limits[7].replaces: "self" replaces this limit in turn"#,
        r#"limits[8].replaces: "egg" replaces this limit in turn"#,
    ] {
        assert!(
            written.lines().any(|written| written == line),
            "{line}\nis not in\n{written}"
        );
    }
}

#[test]
fn a_limit_that_leads_into_a_cycle_is_not_followed_for_ever() {
    let refused = Policy::new([
        limit("a").replaces("b"),
        limit("b").replaces("c"),
        limit("c").replaces("b"),
        limit("d").replaces("a"),
    ]);
    let PolicyErrors(mistakes) = refused.unwrap_err();
    assert_eq!(
        mistakes
            .iter()
            .map(|mistake| mistake.index)
            .collect::<Vec<_>>(),
        [1, 2]
    );
}

#[test]
fn a_limit_can_be_charged_by_name_and_parts() {
    let tenant = limit("tenant").key([KeyPart::header("x-tenant-id"), KeyPart::ClientIp]);
    let policy = policy([tenant, Limit::unlimited("free")]);
    let key = |parts: &[&str]| {
        policy
            .charge_named("tenant", parts, 1)
            .map(|charge| charge.unwrap().key.to_string())
    };
    assert_eq!(
        key(&["acme", "203.0.113.7:80"]).unwrap(),
        "tenant:acme:203.0.113.7"
    );
    let refused =
        |name, parts: &[&str]| policy.charge_named(name, parts, 1).unwrap_err().to_string();
    assert_eq!(
        refused("tenant", &["acme"]),
        r#"limit "tenant": client_ip is missing"#
    );
    assert_eq!(
        refused("tenant", &["acme", "x"]),
        r#"limit "tenant": client_ip is not an IP address"#
    );
    assert_eq!(
        refused("tenant", &["a", "203.0.113.7", "b"]),
        r#"limit "tenant": the key has only 2 parts"#
    );
    assert_eq!(
        refused("nobody", &[]),
        r#"limit "nobody": there is no limit of this name"#
    );
    assert!(
        policy.charge_named("free", &["all"], 1).unwrap().is_none(),
        "unlimited"
    );
}

#[test]
fn debug_output_of_a_subject_leaves_query_and_headers_out() {
    let subject = Subject {
        path: "/shown",
        query: Some("token=hidden"),
        headers: &[("authorization", "hidden"), ("hidden", "x")],
        ..Subject::ANONYMOUS
    };
    let shown = format!("{subject:?}");
    assert!(
        shown.contains("/shown") && !shown.contains("hidden"),
        "{shown}"
    );
}
