//! Keys made of headers, paths and principals.

use http::request::Builder;
use sluicegate::{KeyPart, Limit, Match, OnMissingKey, Principal, Quota};

use super::{App, get};

const CLIENT: &str = "203.0.113.7";

fn once() -> Quota {
    Quota::per_hour(1).into()
}

fn tenant() -> Limit {
    Limit::new("tenant", once()).key([KeyPart::header("X-Tenant-Id")])
}

fn from_tenant(tenant: &str) -> Builder {
    get(CLIENT, "/").header("x-tenant-id", tenant)
}
#[tokio::test]
async fn each_value_of_a_key_header_has_a_counter_of_its_own() {
    let app = App::new([tenant()]);
    assert_eq!(
        app.passed([from_tenant("a"), from_tenant("b"), from_tenant("A")])
            .await,
        3
    );
    assert_eq!(
        app.passed([
            from_tenant("a"),
            from_tenant("b"),
            from_tenant("A"),
            from_tenant(" a ")
        ])
        .await,
        0
    );
}
#[tokio::test]
async fn a_missing_key_is_told_by_limit_and_part_and_never_by_value() {
    let app = App::new([tenant()]);
    for (request, detail) in [
        (
            get(CLIENT, "/"),
            "limit \"tenant\": header:x-tenant-id is missing",
        ),
        (
            from_tenant(""),
            "limit \"tenant\": header:x-tenant-id is empty",
        ),
        (
            from_tenant("secret").header("x-tenant-id", "secret"),
            "limit \"tenant\": header:x-tenant-id has more than one value",
        ),
        (
            from_tenant("secret,secret"),
            "limit \"tenant\": header:x-tenant-id has more than one value",
        ),
        (
            from_tenant("secret\u{e9}"),
            "limit \"tenant\": header:x-tenant-id has characters beyond printable ASCII",
        ),
        (
            from_tenant(&"secret".repeat(1_000)),
            "limit \"tenant\": header:x-tenant-id is longer than 4096 bytes",
        ),
    ] {
        let response = app.send(request.header("accept", "application/json")).await;
        assert_eq!(response.status(), 400);
        assert_eq!(
            super::header(&response, "content-type"),
            "application/problem+json"
        );
        let problem: serde_json::Value = serde_json::from_str(response.body()).unwrap();
        let expected = serde_json::json!({
            "type": "about:blank", "title": "Bad Request", "status": 400,
            "code": "key_extraction_failed", "limit": "tenant", "part": "header:x-tenant-id", "detail": detail,
        });
        assert_eq!(problem, expected);
    }
    assert_eq!(app.handler.calls(), 0);
}
#[tokio::test]
async fn a_missing_key_meets_the_configured_choice_and_no_other() {
    let app = |rule| App::new([tenant().on_missing_key(rule)]);
    let nameless = |peer| get(peer, "/");

    let reject = app(OnMissingKey::Reject);
    assert_eq!(reject.status(nameless(CLIENT)).await, 400);

    let by_address = app(OnMissingKey::ClientIp);
    let sent = [
        nameless(CLIENT),
        nameless("203.0.113.8"),
        nameless(CLIENT),
        nameless("203.0.113.8"),
    ];
    assert_eq!(by_address.passed(sent).await, 2);
    assert_eq!(
        by_address
            .passed([
                from_tenant("203.0.113.7"),
                from_tenant("!client:203.0.113.7")
            ])
            .await,
        2,
        "apart from real keys"
    );

    let shared = app(OnMissingKey::Shared);
    assert_eq!(
        shared
            .passed([nameless(CLIENT), nameless("203.0.113.8")])
            .await,
        1
    );
    assert_eq!(
        shared
            .passed([from_tenant("!missing"), from_tenant("")])
            .await,
        1,
        "an empty value is a missing one"
    );

    let skip = app(OnMissingKey::Skip);
    assert_eq!(skip.passed((0..10).map(|_| nameless(CLIENT))).await, 10);
    assert_eq!(skip.passed([from_tenant("a"), from_tenant("a")]).await, 1);
}
#[tokio::test]
async fn a_header_that_passes_for_a_key_header_is_refused() {
    let app = App::new([tenant().on_missing_key(OnMissingKey::Skip)]);
    for name in ["X_Tenant_Id", "x_tenant_id", "X-Tenant_Id"] {
        let response = app.send(from_tenant("a").header(name, "secret")).await;
        assert_eq!(response.status(), 400, "{name} beside it");
        assert!(response.body().starts_with(
            "key_extraction_failed: limit \"tenant\": header:x-tenant-id is ambiguous"
        ));
        assert!(!response.body().contains("secret"));
        assert_eq!(
            app.status(get(CLIENT, "/").header(name, "secret")).await,
            400,
            "{name} instead of it"
        );
    }
    assert_eq!(app.handler.calls(), 0);
    assert_eq!(
        app.status(from_tenant("a").header("x_other", "fine")).await,
        200
    );
}
#[tokio::test]
async fn ambiguous_headers_follow_the_policy_in_force() {
    let clock = sluicegate::ManualClock::default();
    let limiter = super::limiter([Limit::per_client("per-ip", Quota::per_hour(9))], &clock);
    let app = App::behind(sluicegate::RateLimitLayer::new(limiter.clone()), clock);
    let ambiguous = || from_tenant("a").header("x_tenant_id", "b");
    assert_eq!(
        app.status(ambiguous()).await,
        200,
        "no limit is keyed by a header"
    );
    limiter.set_policy(sluicegate::Policy::new([tenant()]).unwrap());
    assert_eq!(app.status(ambiguous()).await, 400);
    limiter.set_policy(sluicegate::Policy::new([]).unwrap());
    assert_eq!(app.status(ambiguous()).await, 200);
}
#[tokio::test]
async fn a_connection_header_takes_nothing_out_of_the_key() {
    let key = [
        KeyPart::header("x-tenant-id"),
        KeyPart::Host,
        KeyPart::ClientIp,
    ];
    let proxy = sluicegate::http::ClientIp::behind(["10.0.0.0/8".parse().unwrap()]);
    let limit = Limit::new("tenant", Quota::per_hour(2)).key(key);
    let app = App::with([limit], |layer| layer.client_ip(proxy));
    let names = "close, X-Forwarded-For, X-Tenant-Id, Host, Authorization";
    let request = |forwarded: &str| {
        let request = get("10.0.0.1", "/")
            .header("x-forwarded-for", forwarded)
            .header("host", "a.example");
        request
            .header("x-tenant-id", "acme")
            .header("authorization", "Bearer t")
    };
    let hop_by_hop = |forwarded: &str| request(forwarded).header("connection", names);
    assert_eq!(
        app.passed([request("198.51.100.1"), hop_by_hop("198.51.100.1")])
            .await,
        2
    );
    let seen = app.handler.last().headers;
    for name in ["x-forwarded-for", "x-tenant-id", "host", "authorization"] {
        assert!(seen.contains_key(name), "{name} reaches the handler");
    }
    assert_eq!(
        app.passed([request("198.51.100.1"), hop_by_hop("198.51.100.1")])
            .await,
        0,
        "one counter for both"
    );
    assert_eq!(
        app.passed([hop_by_hop("198.51.100.2")]).await,
        1,
        "another client is another counter"
    );
}
#[tokio::test]
async fn a_header_and_the_first_segment_of_the_path_make_a_key() {
    let limit =
        Limit::new("tenant", once()).key([KeyPart::header("x-tenant-id"), KeyPart::PathSegment(1)]);
    let app = App::new([limit]);
    let at = |path| get(CLIENT, path).header("x-tenant-id", "acme-corp");
    assert_eq!(
        app.passed([
            at("/api/v1/users"),
            at("/api/v2"),
            at("/api"),
            at("//api/?x=1")
        ])
        .await,
        1
    );
    assert_eq!(
        app.passed([at("/"), at("/root"), at("/?x=1")]).await,
        1,
        "the first segment of / is root"
    );
    assert_eq!(
        app.passed([
            at("/web"),
            get(CLIENT, "/web").header("x-tenant-id", "other")
        ])
        .await,
        2
    );
}
#[tokio::test]
async fn the_longest_matching_path_replaces_the_global_limit_for_each_client() {
    let global = Limit::per_client("per-ip", Quota::per_hour(3));
    let replacing = |name: &str, path: &str, quota| {
        Limit::per_client(name, quota)
            .matching(Match::path(path).unwrap())
            .replaces("per-ip")
    };
    let api = replacing("api", "/api/", Quota::per_hour(2));
    let login = replacing("login", "/api/login", Quota::per_hour(1));
    let app = App::new([global, api, login]);
    let sent = |path: &'static str| (0..10).map(move |_| get(CLIENT, path));
    assert_eq!(app.passed(sent("/api/login")).await, 1);
    assert_eq!(app.passed(sent("/api/x")).await, 2);
    assert_eq!(
        app.passed(sent("/apix")).await,
        3,
        "the global limit, untouched by the other paths"
    );
    assert_eq!(
        app.passed(sent("/")).await,
        0,
        "and shared by all paths that have no limit of their own"
    );
    assert_eq!(
        app.status(get("203.0.113.8", "/api/login")).await,
        200,
        "each client has its own"
    );
}
#[tokio::test]
async fn a_verified_principal_is_charged_and_nobody_else() {
    let app = App::new([Limit::new("per-principal", Quota::per_hour(2)).key([KeyPart::Principal])]);
    let by = |id: &str, peer| get(peer, "/").extension(Principal::new(id));
    assert_eq!(
        app.passed([
            by("ada", CLIENT),
            by("ada", "203.0.113.8"),
            by("ada", CLIENT)
        ])
        .await,
        2
    );
    assert_eq!(app.passed([by("bob", CLIENT)]).await, 1);
    let anonymous = (0..10).map(|_| get(CLIENT, "/").header("authorization", "Bearer ada"));
    assert_eq!(
        app.passed(anonymous).await,
        10,
        "without a principal the limit does not apply"
    );
}
#[tokio::test]
async fn an_ambiguous_path_is_refused_and_another_spelling_is_the_same_path() {
    let login = Limit::per_client("login", once()).matching(Match::path("/api/login").unwrap());
    let app = App::new([login]);
    for path in ["/api%2Flogin", "/api/login;x", "/api/%2561", "/api/%00"] {
        let response = app.send(get(CLIENT, path)).await;
        assert_eq!(response.status(), 400, "{path}");
        assert!(
            response.body().starts_with("ambiguous_path: the path has "),
            "{}",
            response.body()
        );
    }
    assert_eq!(app.handler.calls(), 0);
    let spellings = [
        "/api/login",
        "//api//login",
        "/api/./login",
        "/x/../api/login",
        "/%61pi/login",
        "/api/login/",
    ];
    assert_eq!(app.passed(spellings.map(|path| get(CLIENT, path))).await, 1);
}
#[tokio::test]
async fn a_target_that_means_the_whole_server_counts_as_its_root() {
    let app = App::new([Limit::new("by-path", once()).key([KeyPart::Path])]);
    assert_eq!(app.passed([get(CLIENT, "*"), get(CLIENT, "/")]).await, 1);
}

#[tokio::test]
async fn the_path_that_was_limited_is_the_path_that_is_forwarded() {
    let app = App::new([Limit::per_client("per-ip", Quota::per_hour(9))]);
    for (sent, forwarded) in [
        ("/x/../api//%6cogin?next=/a/../b", "/api/login?next=/a/../b"),
        ("http://a.example:81/./x", "http://a.example:81/x"),
        ("/plain?x", "/plain?x"),
        ("/caf\u{e9}", "/caf%C3%A9"),
    ] {
        assert_eq!(app.status(get(CLIENT, sent)).await, 200);
        assert_eq!(app.handler.last().uri.to_string(), forwarded);
    }
    let too_long = format!("/{}", "\u{e9}".repeat(30_000));
    assert_eq!(
        app.status(get(CLIENT, &too_long)).await,
        414,
        "three times as long when escaped"
    );
}
