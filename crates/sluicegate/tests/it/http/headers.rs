//! The headers that tell a caller about its limits.

use sfv::{BareItem, List, ListEntry, Parser};
use sluicegate::http::{HeaderStyle, IetfDraft, ResponseHeaders};
use sluicegate::{Limit, Nanos, Quota};

use super::{App, get, header, header_lines};

const CLIENT: &str = "203.0.113.7";

fn per_ip() -> Limit {
    Limit::per_client("per-ip", Quota::per_second(100).burst(200))
}

fn styled<const STYLES: usize>(limit: Limit, styles: [HeaderStyle; STYLES]) -> App {
    App::with([limit], |layer| layer.headers(styles))
}

/// A structured list of strings as `name;parameter=number;…`, in the order of the header.
fn parsed(lines: &[&str]) -> Vec<String> {
    let list: List = Parser::new(&lines.join(", ")).parse().unwrap();
    let items = list.into_iter().map(|entry| {
        let ListEntry::Item(item) = entry else {
            panic!("an inner list")
        };
        let BareItem::String(name) = item.bare_item else {
            panic!("{:?} is no string", item.bare_item)
        };
        let parameters = item.params.iter().map(|(name, value)| {
            let value = i64::from(value.as_integer().unwrap());
            assert!(value >= 0);
            format!(";{}={value}", name.as_str())
        });
        format!("{}{}", name.as_str(), parameters.collect::<String>())
    });
    items.collect()
}
#[tokio::test]
async fn a_forwarded_response_carries_both_default_styles() {
    let app = App::new([per_ip()]);
    let response = app.send(get(CLIENT, "/")).await;
    assert_eq!(
        (response.status().as_u16(), response.body().as_str()),
        (200, "hello")
    );
    assert_eq!(
        header(&response, "ratelimit-policy"),
        "\"per-ip\";q=200;w=2"
    );
    assert_eq!(header(&response, "ratelimit"), "\"per-ip\";r=199;t=1");
    assert_eq!(header(&response, "x-ratelimit-limit"), "200");
    assert_eq!(header(&response, "x-ratelimit-remaining"), "199");
    assert_eq!(header(&response, "x-ratelimit-reset"), "1");
    for absent in ["retry-after", "x-ratelimit-clear"] {
        assert!(header_lines(&response, absent).is_empty(), "{absent}");
    }
}
#[tokio::test]
async fn the_ietf_fields_are_structured_lists_of_strings() {
    let daily = Limit::per_client("daily.all_callers-1", Quota::per_day(1000));
    let fast = Limit::per_client("fast", Quota::per_second(1000).burst(10));
    let app = App::new([per_ip(), daily, fast]);
    let response = app.send(get(CLIENT, "/")).await;
    let policy = parsed(&header_lines(&response, "ratelimit-policy"));
    assert_eq!(
        policy,
        [
            "per-ip;q=200;w=2",
            "daily.all_callers-1;q=1000;w=86400",
            "fast;q=10"
        ]
    );
    assert_eq!(
        parsed(&header_lines(&response, "ratelimit")),
        ["fast;r=9;t=1"]
    );
}
#[tokio::test]
async fn windows_are_whole_seconds_rounded_up_and_left_out_below_one() {
    for (quota, policy) in [
        (Quota::per_second(2).burst(3), "a;q=3;w=2"),
        (Quota::per_second(2).burst(2), "a;q=2;w=1"),
        (Quota::per_second(10).burst(9), "a;q=9"),
    ] {
        let app = App::new([Limit::per_client("a", quota)]);
        let response = app.send(get(CLIENT, "/")).await;
        assert_eq!(
            parsed(&header_lines(&response, "ratelimit-policy")),
            [policy]
        );
    }
}
#[tokio::test]
async fn headers_describe_the_tightest_limit_and_the_policy_names_all() {
    let api = Limit::per_client("api", Quota::per_second(10).burst(2));
    let app = App::new([per_ip(), api]);
    let first = app.send(get(CLIENT, "/")).await;
    assert_eq!(header(&first, "ratelimit"), "\"api\";r=1;t=1");
    assert_eq!(header(&first, "x-ratelimit-limit"), "2");
    app.send(get(CLIENT, "/")).await;
    let denied = app.send(get(CLIENT, "/")).await;
    assert_eq!(denied.status(), 429);
    assert_eq!(
        header(&denied, "ratelimit-policy"),
        "\"per-ip\";q=200;w=2, \"api\";q=2"
    );
    assert_eq!(header(&denied, "ratelimit"), "\"api\";r=0;t=1");
    assert_eq!(header(&denied, "x-ratelimit-remaining"), "0");
}
#[tokio::test]
async fn shadow_limits_are_not_told() {
    let shadow = Limit::per_client("shadow", Quota::per_second(1)).shadow();
    let app = App::new([per_ip(), shadow]);
    app.send(get(CLIENT, "/")).await;
    let response = app.send(get(CLIENT, "/")).await;
    assert_eq!(response.status(), 200);
    assert_eq!(
        header(&response, "ratelimit-policy"),
        "\"per-ip\";q=200;w=2"
    );
    let uncovered = App::new([Limit::per_client("shadow", Quota::per_second(1)).shadow()]);
    let response = uncovered.send(get(CLIENT, "/")).await;
    assert!(
        response
            .headers()
            .keys()
            .all(|name| !name.as_str().contains("ratelimit")),
        "{:?}",
        response.headers()
    );
}
#[tokio::test]
async fn the_x_ratelimit_reset_is_the_time_to_full_in_whole_seconds() {
    let app = styled(
        Limit::per_client("a", Quota::per_minute(60).burst(3)),
        [HeaderStyle::XRateLimit],
    );
    for (sent, reset) in ["1", "2", "3", "3"].into_iter().enumerate() {
        let response = app.send(get(CLIENT, "/")).await;
        assert_eq!(header(&response, "x-ratelimit-limit"), "3");
        assert_eq!(
            header(&response, "x-ratelimit-remaining"),
            2_usize.saturating_sub(sent).to_string()
        );
        assert_eq!(header(&response, "x-ratelimit-reset"), reset);
        assert!(header_lines(&response, "ratelimit").is_empty());
    }
    app.clock.advance(Nanos::from_millis(1));
    let denied = app.send(get(CLIENT, "/")).await;
    assert_eq!(
        header(&denied, "x-ratelimit-reset"),
        "3",
        "2.999 seconds, rounded up"
    );
}
#[tokio::test]
async fn the_clear_style_counts_in_milliseconds_and_says_when_to_retry() {
    let limit = Limit::per_client(
        "a",
        Quota::leaky_bucket(2, Nanos::from_millis(1_500), 1).unwrap(),
    );
    let app = styled(limit, [HeaderStyle::Clear]);
    let first = app.send(get(CLIENT, "/")).await;
    assert_eq!(header(&first, "x-ratelimit-remaining"), "1");
    assert_eq!(header(&first, "x-ratelimit-clear"), "1.5");
    for absent in [
        "x-ratelimit-reset",
        "x-ratelimit-limit",
        "ratelimit",
        "ratelimit-policy",
    ] {
        assert!(header_lines(&first, absent).is_empty(), "{absent}");
    }
    let second = app.send(get(CLIENT, "/")).await;
    assert_eq!(header(&second, "x-ratelimit-clear"), "3");
    app.clock.advance(Nanos::new(249_999_999));
    let denied = app.send(get(CLIENT, "/")).await;
    assert_eq!(denied.status(), 429);
    assert_eq!(header(&denied, "x-ratelimit-remaining"), "0");
    let (clear, reset) = (
        header(&denied, "x-ratelimit-clear"),
        header(&denied, "x-ratelimit-reset"),
    );
    assert_eq!(
        (clear, reset),
        ("2.751", "1.251"),
        "rounded up to the millisecond"
    );
}
#[tokio::test]
async fn beside_x_ratelimit_the_reset_keeps_one_meaning() {
    let limit = Limit::per_client(
        "a",
        Quota::leaky_bucket(2, Nanos::from_millis(1_500), 1).unwrap(),
    );
    let app = styled(limit, [HeaderStyle::Clear, HeaderStyle::XRateLimit]);
    for (status, reset, clear) in [(200, "2", "1.5"), (200, "3", "3"), (429, "3", "3")] {
        let response = app.send(get(CLIENT, "/")).await;
        assert_eq!(response.status().as_u16(), status);
        assert_eq!(header(&response, "x-ratelimit-reset"), reset);
        assert_eq!(header(&response, "x-ratelimit-clear"), clear);
    }
}
#[tokio::test]
async fn fields_of_the_service_behind_are_kept_and_ours_follow() {
    let app = App::new([per_ip()]);
    app.handler
        .reply_with("ratelimit-policy", "\"inner\";q=5;w=60");
    app.handler.reply_with("ratelimit", "\"inner\";r=4;t=60");
    let response = app.send(get(CLIENT, "/")).await;
    let members = |name| parsed(&header_lines(&response, name));
    assert_eq!(
        members("ratelimit-policy"),
        ["inner;q=5;w=60", "per-ip;q=200;w=2"]
    );
    assert_eq!(members("ratelimit"), ["inner;r=4;t=60", "per-ip;r=199;t=1"]);
}
#[tokio::test]
async fn of_two_limits_the_x_headers_tell_the_one_with_less_left() {
    for (inner, expected) in [
        ("4", ["5", "4", "60"]),
        ("199", ["200", "199", "1"]),
        ("many", ["200", "199", "1"]),
    ] {
        let app = App::new([per_ip()]);
        app.handler.reply_with("x-ratelimit-limit", "5");
        app.handler.reply_with("x-ratelimit-remaining", inner);
        app.handler.reply_with("x-ratelimit-reset", "60");
        let response = app.send(get(CLIENT, "/")).await;
        let names = [
            "x-ratelimit-limit",
            "x-ratelimit-remaining",
            "x-ratelimit-reset",
        ];
        assert_eq!(names.map(|name| header(&response, name)), expected);
    }
}
#[tokio::test]
async fn no_style_writes_no_header_but_retry_after() {
    let app = styled(Limit::per_client("a", Quota::per_second(1)), []);
    let passed = app.send(get(CLIENT, "/")).await;
    let denied = app.send(get(CLIENT, "/")).await;
    for response in [&passed, &denied] {
        assert!(
            response
                .headers()
                .keys()
                .all(|name| !name.as_str().contains("ratelimit"))
        );
    }
    assert_eq!(header(&denied, "retry-after"), "1");
}
#[tokio::test]
async fn the_draft_can_be_named() {
    let headers = ResponseHeaders::new([HeaderStyle::Ietf]).draft(IetfDraft::V8To11);
    let app = App::with([per_ip()], |layer| layer.headers(headers));
    let response = app.send(get(CLIENT, "/")).await;
    assert_eq!(header(&response, "ratelimit"), "\"per-ip\";r=199;t=1");
}
