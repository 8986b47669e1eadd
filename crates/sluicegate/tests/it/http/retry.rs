//! A caller who waits as long as a header says passes.

use proptest::prelude::*;
use sluicegate::http::HeaderStyle;
use sluicegate::{Limit, Nanos, Quota, Timestamp};

use super::{App, get, header, header_lines};

const CLIENT: &str = "203.0.113.7";

fn quota() -> impl Strategy<Value = Quota> {
    let span = 1_u64..20_000;
    prop_oneof![
        (1_u64..5_000, span.clone(), 1_u64..50)
            .prop_filter_map("rates that can be kept", |(count, millis, burst)| {
                Quota::new(count, Nanos::from_millis(millis), burst).ok()
            }),
        (1_u64..50, span.clone(), 1_u64..10).prop_map(|(size, millis, drip)| {
            Quota::leaky_bucket(size, Nanos::from_millis(millis), drip).unwrap()
        }),
        (1_u64..50, span.clone()).prop_map(|(limit, millis)| {
            Quota::fixed_window(limit, Nanos::from_millis(millis)).unwrap()
        }),
        (1_u64..50, span).prop_map(|(limit, millis)| {
            Quota::sliding_window(limit, Nanos::from_millis(millis)).unwrap()
        }),
    ]
}

/// Sends until denied, at random moments; then waits as long as the header says and sends again.
async fn passes_after_waiting(
    quotas: [Quota; 2],
    start: u64,
    steps: &[u64],
    cost: u64,
    wait_header: WaitHeader,
) -> bool {
    let [first, second] = quotas.map(|quota| quota.limit());
    let cost = cost.min(first).min(second);
    let limits = [
        Limit::per_client("a", quotas[0]),
        Limit::per_client("b", quotas[1]),
    ];
    let app = App::with(limits, |layer| {
        layer
            .cost(move |_| cost)
            .headers(wait_header.styles())
            .log_rejections(false)
    });
    app.clock.set(Timestamp::from_nanos(start));
    for step in steps.iter().cycle().take(400) {
        let response = app.send(get(CLIENT, "/")).await;
        if response.status() == 429 {
            app.clock.advance(wait_header.wait(&response));
            return app.status(get(CLIENT, "/")).await == 200;
        }
        app.clock.advance(Nanos::new(*step));
    }
    true
}

/// The header that the caller goes by.
#[derive(Clone, Copy, Debug)]
enum WaitHeader {
    RetryAfter,
    RateLimit,
    XReset,
    ClearReset,
}

impl WaitHeader {
    const ALL: [Self; 4] = [
        Self::RetryAfter,
        Self::RateLimit,
        Self::XReset,
        Self::ClearReset,
    ];

    fn styles(self) -> [HeaderStyle; 1] {
        match self {
            Self::RetryAfter | Self::RateLimit => [HeaderStyle::Ietf],
            Self::XReset => [HeaderStyle::XRateLimit],
            Self::ClearReset => [HeaderStyle::Clear],
        }
    }

    fn wait<B>(self, response: &http::Response<B>) -> Nanos {
        match self {
            Self::RetryAfter => Nanos::from_secs(header(response, "retry-after").parse().unwrap()),
            Self::RateLimit => {
                let (_, seconds) = header(response, "ratelimit").rsplit_once(";t=").unwrap();
                Nanos::from_secs(seconds.parse().unwrap())
            }
            Self::XReset => {
                Nanos::from_secs(header(response, "x-ratelimit-reset").parse().unwrap())
            }
            Self::ClearReset => {
                let text = header(response, "x-ratelimit-reset");
                let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
                let millis: u64 = format!("{whole}{decimals:0<3}").parse().unwrap();
                Nanos::from_millis(millis)
            }
        }
    }
}

proptest! {
    #[test]
    fn retry_after_is_never_early(
        quotas in [quota(), quota()],
        start in 1_700_000_000_000_000_000_u64..1_700_000_100_000_000_000,
        steps in prop::collection::vec(0_u64..300_000_000, 1..5),
        cost in 1_u64..20,
        header in prop::sample::select(WaitHeader::ALL.to_vec()),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let passed = runtime.block_on(passes_after_waiting(quotas, start, &steps, cost, header));
        prop_assert!(passed, "by {:?}", header);
    }
}
#[tokio::test]
async fn retry_after_is_whole_seconds_rounded_up_and_at_least_one() {
    for (interval_ms, burst, waits) in [
        (100, 1, "1"),
        (1_000, 1, "1"),
        (1_001, 1, "2"),
        (59_999, 1, "60"),
    ] {
        let quota = Quota::new(1, Nanos::from_millis(interval_ms), burst).unwrap();
        let app = App::new([Limit::per_client("a", quota)]);
        let passed = app.send(get(CLIENT, "/")).await;
        assert!(header_lines(&passed, "retry-after").is_empty());
        let denied = app.send(get(CLIENT, "/")).await;
        assert_eq!(header(&denied, "retry-after"), waits, "{interval_ms} ms");
    }
}
#[tokio::test]
async fn a_caller_who_waits_as_told_passes_and_one_who_does_not_is_denied() {
    let app = App::new([Limit::per_client("a", Quota::per_minute(1))]);
    app.send(get(CLIENT, "/")).await;
    app.clock.advance(Nanos::new(1));
    let denied = app.send(get(CLIENT, "/")).await;
    assert_eq!(header(&denied, "retry-after"), "60");
    app.clock.advance(Nanos::new(59_999_999_998));
    assert_eq!(app.status(get(CLIENT, "/")).await, 429);
    app.clock.advance(Nanos::new(1));
    assert_eq!(app.status(get(CLIENT, "/")).await, 200);
}
