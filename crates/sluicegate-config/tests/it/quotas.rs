//! The numbers of limits: every notation, and every way to get them wrong.

use sluicegate_core::{LegacyLimit, Nanos, Quota};

use crate::limits::one;
use crate::{bad, good, wrong};

#[track_caller]
fn quota(keys: &str) -> Option<Quota> {
    good(&one(keys)).policy.limits()[0].quota
}

#[test]
fn every_algorithm_is_what_its_numbers_say() {
    let bucket = Quota::new(100, Nanos::SECOND, 200).ok();
    assert_eq!(quota("rate: 100/s, burst: 200"), bucket);
    assert_eq!(quota("average: 100, period: 1s, burst: 200"), bucket);
    assert_eq!(
        quota("average: 100, burst: 200, algorithm: token_bucket"),
        bucket
    );
    assert_eq!(quota("rate: 100/s, burst: 200, algorithm: gcra"), bucket);
    assert_eq!(
        quota("rate: 5/30s"),
        Quota::new(5, Nanos::from_secs(30), 5).ok()
    );
    assert_eq!(
        quota("rate: 1/year"),
        Quota::new(1, Nanos::from_secs(31_536_000), 1).ok()
    );
    assert_eq!(
        quota("rate: 1000000/s, burst: 1"),
        Quota::new(1_000_000, Nanos::SECOND, 1).ok()
    );
    assert_eq!(
        quota("rate: 10/m, algorithm: fixed_window"),
        Quota::fixed_window(10, Nanos::MINUTE).ok()
    );
    assert_eq!(
        quota("average: 10, algorithm: sliding_window"),
        Quota::sliding_window(10, Nanos::SECOND).ok()
    );
    let drips = Quota::leaky_bucket(10, Nanos::from_secs(60), 2).ok();
    assert_eq!(
        quota("algorithm: leaky_bucket, size: 10, drip_rate: 60s, drip_size: 2"),
        drips
    );
    assert_eq!(
        quota("size: 10"),
        Quota::leaky_bucket(10, Nanos::SECOND, 1).ok()
    );
    let legacy = LegacyLimit {
        max: Some(100),
        duration: Some(Nanos::HOUR),
        min_interval: Some(Nanos::SECOND),
    };
    assert_eq!(
        quota("max: 100, duration: 1h, min_interval: 1s"),
        legacy.quota().unwrap()
    );
    assert_eq!(
        quota("min_interval: 1s"),
        Quota::leaky_bucket(1, Nanos::SECOND, 1).ok()
    );
}
#[test]
fn an_average_of_zero_is_unlimited_and_other_zeros_are_refused() {
    assert_eq!(quota("average: 0"), None);
    assert_eq!(quota("average: 0, burst: 5, period: 1m"), None);
    for (keys, message) in [
        (
            "rate: 0/s",
            "limits[0].rate: expected at least 1 unit; a limit that is meant to be off is written average: 0",
        ),
        (
            "rate: 1/0s",
            "limits[0].rate: expected a period longer than zero",
        ),
        (
            "rate: 1/s, burst: 0",
            "limits[0].burst: must be at least 1; write 1 for a burst of one request, or leave it out for those of one period (got 0)",
        ),
        (
            "rate: 1/s, burst: -1",
            "limits[0].burst: must be at least 1 (got -1)",
        ),
        (
            "rate: 1/s, burst: .nan",
            "limits[0].burst: expected a whole number (got NaN)",
        ),
        (
            "rate: 1/s, burst: .inf",
            "limits[0].burst: expected a whole number (got inf)",
        ),
        (
            "rate: 1/s, burst: 1.5",
            "limits[0].burst: expected a whole number (got 1.5)",
        ),
        (
            "rate: 1/s, burst: 1e99",
            "limits[0].burst: expected a whole number",
        ),
        (
            "rate: -1/s",
            "limits[0].rate: expected a whole number of units before the slash",
        ),
        (
            "rate: NaN/s",
            "limits[0].rate: expected a whole number of units before the slash",
        ),
        (
            "rate: 10",
            "limits[0].rate: expected N/(ms|s|m|h|d), such as 100/s or 5/30s (got 10)",
        ),
        (
            "average: -1",
            "limits[0].average: must be at least 0 (got -1)",
        ),
        (
            "average: 1, period: 0s",
            "limits[0].period: must be at least 1ns (got \"0s\")",
        ),
        (
            "average: 1, period: 60",
            "limits[0].period: expected a duration with its unit, such as 30s (got 60)",
        ),
        (
            "size: 0",
            "limits[0].size: must be at least 1; enabled: false turns the limit off, average: 0 is unlimited, and access.deny refuses callers (got 0)",
        ),
        (
            "size: 1, drip_size: 0",
            "limits[0].drip_size: must be at least 1 (got 0)",
        ),
        (
            "size: 1, drip_rate: 0s",
            "limits[0].drip_rate: must be at least 1ms (got \"0s\")",
        ),
        (
            "max: 0, duration: 1s",
            "limits[0].max: must be at least 1; enabled: false turns the limit off, average: 0 is unlimited, and access.deny refuses callers (got 0)",
        ),
        (
            "max: 1, duration: 0s",
            "limits[0].duration: must be at least 1ms (got \"0s\")",
        ),
        (
            "min_interval: 999us",
            "limits[0].min_interval: must be at least 1ms (got \"999us\")",
        ),
    ] {
        let reported = wrong(&one(keys));
        assert!(reported.starts_with(message), "{keys}: {reported}");
    }
}

#[test]
fn durations_with_fractions_and_several_units_are_read_exactly() {
    let seconds = Nanos::from_secs;
    for (keys, expected) in [
        ("rate: 10/1m30s", Quota::new(10, seconds(90), 10)),
        (
            "rate: 10/1.5s, burst: 2",
            Quota::new(10, Nanos::from_millis(1_500), 2),
        ),
        (
            "average: 6, period: 1h30m, algorithm: fixed_window",
            Quota::fixed_window(6, seconds(5_400)),
        ),
        (
            "size: 3, drip_rate: 0.25s",
            Quota::leaky_bucket(3, Nanos::from_millis(250), 1),
        ),
        (
            "min_interval: 1.5s",
            Quota::leaky_bucket(1, Nanos::from_millis(1_500), 1),
        ),
    ] {
        assert_eq!(quota(keys), expected.ok(), "{keys}");
        crate::schema::accepts(&one(keys)).unwrap_or_else(|why| panic!("{keys}: {why}"));
    }
    let timeouts = good("proxy: { listen: '127.0.0.1:0', timeouts: { idle: 1m30s, drain: 2.5s } }")
        .proxy
        .map(|proxy| proxy.timeouts);
    assert_eq!(
        timeouts.map(|timeouts| (timeouts.idle, timeouts.drain)),
        Some((seconds(90), Nanos::from_millis(2_500)))
    );
    for (keys, message) in [
        (
            "average: 1, period: 1.5ns",
            "limits[0].period: expected a whole number of nanoseconds (got \"1.5ns\")",
        ),
        (
            "average: 1, period: 30s1m",
            "limits[0].period: expected each unit once, the largest first, as in 1h30m (got \"30s1m\")",
        ),
        (
            "average: 1, period: 1m30",
            "limits[0].period: expected a number and a unit",
        ),
        (
            "rate: 1/0.3ns",
            "limits[0].rate: expected a whole number of nanoseconds (got \"1/0.3ns\")",
        ),
        (
            "size: 1, drip_rate: 1.5ms",
            "limits[0].drip_rate: must be whole milliseconds (got \"1.5ms\")",
        ),
        (
            "max: 1, duration: 1.0005s",
            "limits[0].duration: must be whole milliseconds (got \"1.0005s\")",
        ),
        (
            "min_interval: 2.5ms",
            "limits[0].min_interval: must be whole milliseconds (got \"2.5ms\")",
        ),
    ] {
        let reported = wrong(&one(keys));
        assert!(reported.starts_with(message), "{keys}: {reported}");
    }
}

#[test]
fn what_cannot_be_kept_exactly_is_refused_at_the_number_to_blame() {
    for (keys, message) in [
        (
            "rate: 700000000/s, burst: 1",
            "limits[0].rate: cannot be kept exactly",
        ),
        (
            "average: 700000000, burst: 1",
            "limits[0].average: cannot be kept exactly",
        ),
        (
            "rate: 1/year, burst: 1000",
            "limits[0].burst: takes more than",
        ),
        (
            "rate: 1000001/d, algorithm: fixed_window",
            "limits[0].rate: must be at most 1000000 (got \"1000001/d\")",
        ),
        (
            "average: 10, period: 1500us, algorithm: fixed_window",
            "limits[0].period: must be whole milliseconds",
        ),
        (
            "average: 18446744073709551615, algorithm: sliding_window",
            "limits[0].average: must be at most",
        ),
        (
            "size: 18446744073709551615",
            "limits[0].size: must be at most",
        ),
        (
            "size: 1, drip_size: 1000001",
            "limits[0].drip_size: must be at most 1000000 (got 1000001)",
        ),
    ] {
        let reported = wrong(&one(keys));
        assert!(reported.starts_with(message), "{keys}: {reported}");
    }
}

#[test]
fn numbers_that_contradict_each_other_are_refused() {
    for (keys, message) in [
        (
            "rate: 1/s, average: 1",
            "limits[0].average: cannot be combined with rate",
        ),
        (
            "rate: 1/s, period: 1s",
            "limits[0].period: belongs to average: a rate includes its period",
        ),
        (
            "rate: 1/s, size: 3",
            "limits[0].size: applies to algorithm leaky_bucket only",
        ),
        (
            "rate: 1/s, max: 3",
            "limits[0].max: cannot be combined with rate, average or algorithm",
        ),
        (
            "rate: 1/s, burst: 3, algorithm: sliding_window",
            "limits[0].burst: a window has no burst: remove it, or use algorithm token_bucket",
        ),
        ("max: 3", "limits[0].max: needs duration as well"),
        ("duration: 3s", "limits[0].duration: needs max as well"),
        (
            "mode: shadow",
            "limits[0]: needs a quota: rate, average, size or max",
        ),
        (
            "burst: 3",
            "limits[0]: needs a quota: rate, average, size or max",
        ),
        (
            "algorithm: leaky_bucket",
            "limits[0].size: is missing: the units that fit into the bucket",
        ),
        (
            "algorithm: leaky, rate: 1/s",
            "limits[0].algorithm: unknown value \"leaky\" (expected token_bucket, gcra, leaky_bucket, fixed_window or \
             sliding_window)",
        ),
        (
            "rate: 1/s, quota_from: external",
            "limits[0].quota_from: needs the section external, which names the service to ask",
        ),
        (
            "rate: 1/s, quota_from: elsewhere",
            "limits[0].quota_from: unknown value \"elsewhere\" (expected static or external)",
        ),
    ] {
        assert_eq!(wrong(&one(keys)), message, "{keys}");
    }
    assert_eq!(
        bad(&one("algorithm: leaky_bucket, rate: 1/s, burst: 3")).len(),
        3
    );
}
