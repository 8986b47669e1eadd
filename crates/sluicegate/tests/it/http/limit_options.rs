//! Keys by query, cookie and TLS name, conditions on the caller, and costs, at the layer.

use sluicegate::http::TlsServerName;
use sluicegate::{HeaderCost, KeyPart, Limit, Match, Principal, Quota};

use super::{App, get};

const CLIENT: &str = "203.0.113.7";

fn once(name: &str) -> Limit {
    Limit::new(name, Quota::per_hour(1))
}

#[tokio::test]
async fn query_cookie_and_tls_name_tell_callers_apart() {
    let app = App::new([once("by-user").key([KeyPart::Query("user".to_owned())])]);
    let with = |query: &str| get(CLIENT, &format!("/?{query}"));
    assert_eq!(app.status(with("user=ann")).await, 200);
    assert_eq!(app.status(with("x=y&user=%61nn")).await, 429);
    assert_eq!(app.status(with("user=ann&user=ann")).await, 400);

    let app = App::new([once("by-visit").key([KeyPart::Cookie("sid".to_owned())])]);
    let first = get(CLIENT, "/")
        .header("cookie", "a=b")
        .header("cookie", "sid=7");
    assert_eq!(app.status(first).await, 200);
    let again = get(CLIENT, "/").header("cookie", "sid=\"7\"; a=b");
    assert_eq!(app.status(again).await, 429);
    assert_eq!(app.status(get(CLIENT, "/")).await, 400);

    let app = App::new([once("by-name").key([KeyPart::Sni])]);
    let of = |name: &str| get(CLIENT, "/").extension(TlsServerName::new(name));
    assert_eq!(app.status(of("a.example")).await, 200);
    assert_eq!(app.status(of("A.example")).await, 429);
    assert_eq!(app.status(of("b.example")).await, 200);
    assert_eq!(app.status(get(CLIENT, "/")).await, 400);
}

#[tokio::test]
async fn a_limit_for_known_callers_leaves_the_others_to_the_limit_that_it_replaces() {
    let app = App::new([
        Limit::per_client("per-ip", Quota::per_hour(1)),
        Limit::new("per-user", Quota::per_hour(2))
            .key([KeyPart::Principal])
            .replaces("per-ip"),
        Limit::new("gold", Quota::per_hour(3))
            .key([KeyPart::Principal])
            .matching(Match::default().claim("plan", ["gold"]))
            .replaces("per-user"),
    ]);
    let ann = || get(CLIENT, "/").extension(Principal::new("ann").claim("plan", "gold"));
    let ben = || get(CLIENT, "/").extension(Principal::new("ben"));
    assert_eq!(app.passed((0..5).map(|_| get(CLIENT, "/"))).await, 1);
    assert_eq!(app.passed((0..5).map(|_| ben())).await, 2);
    assert_eq!(app.passed((0..5).map(|_| ann())).await, 3);
}

#[tokio::test]
async fn a_request_takes_the_units_of_its_limit_and_of_its_header() {
    let limit = Limit::new("all", Quota::per_hour(10).burst(10)).cost(5);
    let app = App::new([limit.clone()]);
    assert_eq!(app.passed((0..5).map(|_| get(CLIENT, "/"))).await, 2);
    let app = App::with([limit], |layer| layer.cost(|_| 2));
    assert_eq!(app.passed((0..5).map(|_| get(CLIENT, "/"))).await, 1);

    let by_header = Limit::new("batch", Quota::per_hour(10).burst(10))
        .cost(HeaderCost::new("X-Cost").default(2).max(9));
    let app = App::new([by_header]);
    let with = |cost: &str| get(CLIENT, "/").header("x-cost", cost);
    assert_eq!(app.status(with("8")).await, 200);
    assert_eq!(app.status(with("3")).await, 429);
    for refused in ["10", "x", ""] {
        assert_eq!(app.status(with(refused)).await, 400, "{refused:?}");
    }
    assert_eq!(
        app.status(with("1").header("x_cost", "9")).await,
        400,
        "a twin"
    );
    assert_eq!(
        app.status(with("1").header("x-cost", "1")).await,
        400,
        "twice"
    );
    let told = app.send(with("hunter2")).await;
    assert_eq!(
        told.body(),
        "key_extraction_failed: limit \"batch\": header:x-cost is no whole number, and the cost is read from it"
    );
    assert_eq!(app.status(with("0")).await, 200, "counts as the default");
    assert_eq!(app.status(get(CLIENT, "/")).await, 429, "nothing is left");
}
