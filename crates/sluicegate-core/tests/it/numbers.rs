//! Numbers from outside: refused, or a quota that can be used.

use proptest::prelude::*;
use sluicegate_core::algorithm;
use sluicegate_core::{
    Factor, LegacyLimit, Nanos, Quota, QuotaError, ScaledPart, Timestamp, TokenBucket,
};

use crate::cases::cases;
use crate::extremes::extreme;
use crate::program::{any_quota, log};

proptest! {
    #![proptest_config(cases(10_000))]

    #[test]
    fn every_quota_is_refused_or_usable(a in extreme(), b in extreme(), c in extreme(), now in extreme()) {
        let made = [
            Quota::new(a, Nanos::new(b), c),
            TokenBucket::with_interval(Nanos::new(a), b).map(Quota::from),
            Quota::leaky_bucket(a, Nanos::new(b), c),
            Quota::leaky_bucket(a, Nanos::from_millis(b), c),
            Quota::fixed_window(a, Nanos::from_millis(b)),
            Quota::sliding_window(a, Nanos::from_millis(b)),
        ];
        for made in made {
            check_refused_or_usable(made, now)?;
        }
    }

    /// An accepted quota keeps the configured rate: never faster, slower by at most one part in a
    /// thousand.
    #[test]
    fn an_accepted_rate_is_kept(count in log(1 << 40), period in log(u64::MAX), burst in log(1 << 40)) {
        let interval = match Quota::new(count, Nanos::new(period), burst) {
            Ok(Quota::TokenBucket(bucket)) => bucket.interval(),
            Ok(Quota::Drip(bucket)) => bucket.interval(),
            Ok(Quota::SlidingWindow(_)) => panic!("a rate is never a window"),
            Err(_) => return Ok(()),
        };
        let (spent, wanted) = (u128::from(interval.get()) * u128::from(count), u128::from(period));
        prop_assert!(spent >= wanted, "faster than asked for");
        // A slow quota is rounded twice: to nanoseconds, and then to milliseconds.
        prop_assert!(spent - wanted <= wanted / 1_000 * 2 + 2, "slower than asked for: {} for {}", spent, wanted);
    }

    #[test]
    fn every_quota_is_refused_or_usable_at_another_size(quota in any_quota(), size in extreme(), now in extreme()) {
        let resized = quota.resized(size);
        if let Ok(resized) = resized {
            prop_assert_eq!(resized.limit(), size);
        }
        check_refused_or_usable(resized, now)?;
    }

    /// Negative and non-finite factors are refused, 0 is unlimited, and all others give a
    /// usable quota.
    #[test]
    fn every_factor_is_refused_or_usable(factor: f64, bits: u64, quota in any_quota(), now in extreme()) {
        for number in [factor, f64::from_bits(bits), -factor.abs(), factor.recip()] {
            let Ok(factor) = Factor::new(number) else {
                prop_assert!(!number.is_finite() || number < 0.0, "{} was refused", number);
                continue;
            };
            for part in [ScaledPart::Size, ScaledPart::Rate, ScaledPart::Both] {
                match factor.scale(quota, part) {
                    None => prop_assert_eq!(number, 0.0),
                    Some(scaled) => check_refused_or_usable(Ok(scaled), now)?,
                }
            }
        }
    }

    /// Size = max(ceil(size / factor), 1), without rounding errors.
    #[test]
    fn whole_factors_divide_exactly(size in log(1 << 40), factor in log(1 << 50)) {
        let quota = Quota::leaky_bucket(size, Nanos::MILLISECOND, 1).unwrap();
        let scaled = Factor::new(factor as f64).unwrap().apply(quota).unwrap();
        prop_assert_eq!(scaled.limit(), size.div_ceil(factor));
    }

    /// Interval = ceil(interval * factor) for factors of up to three decimals, without rounding
    /// errors, and the burst stays.
    #[test]
    fn rates_are_divided_exactly(interval in log(1 << 40), burst in 1_u64..1_000, thousandths in 1_u64..1_000_000) {
        let quota = TokenBucket::with_interval(Nanos::new(interval), burst).map(Quota::from).unwrap();
        let factor = Factor::new(thousandths as f64 / 1_000.0).unwrap();
        let scaled = factor.scale(quota, ScaledPart::Rate).unwrap();
        let expected = (interval * thousandths).div_ceil(1_000);
        match scaled {
            Quota::TokenBucket(bucket) => prop_assert_eq!(bucket.interval(), Nanos::new(expected)),
            // Slower than 52 days for the burst: in milliseconds.
            Quota::Drip(bucket) => {
                prop_assert!(expected * burst > 1 << 52);
                prop_assert_eq!(bucket.interval(), Nanos::from_millis(expected.div_ceil(1_000_000)));
            }
            Quota::SlidingWindow(_) => panic!("a bucket stays a bucket"),
        }
        prop_assert_eq!(scaled.limit(), burst);
    }

    #[test]
    fn every_legacy_limit_is_refused_or_usable(
        max in proptest::option::of(extreme()), duration in proptest::option::of(extreme()),
        min_interval in proptest::option::of(extreme()), now in extreme(),
    ) {
        let spans = [duration, min_interval].map(|span| span.map(Nanos::new));
        let legacy = LegacyLimit { max, duration: spans[0], min_interval: spans[1] };
        match legacy.quota() {
            Ok(None) => prop_assert!(max.is_none() && duration.is_none()),
            Ok(Some(quota)) => check_refused_or_usable(Ok(quota), now)?,
            Err(refused) => check_refused_or_usable(Err(refused), now)?,
        }
    }

    /// The bucket of a legacy limit, by its formula in floating point.
    #[test]
    fn a_legacy_limit_becomes_the_bucket_of_its_formula(
        max in 1_u64..10_000, duration_ms in 1_u64..10_000_000, min_interval_ms in proptest::option::of(1_u64..100_000),
    ) {
        let (max_f, duration_f) = (max as f64, duration_ms as f64);
        let init = min_interval_ms.map_or((duration_f / max_f).round(), |interval| interval as f64).max(1.0);
        let drip_size = max_f / (duration_f / init);
        let rounded_size = drip_size.round().max(1.0);
        let drip_rate = duration_f / (max_f / rounded_size);
        // Halves may be rounded either way in floating point.
        let is_half = |number: f64| ((number - number.floor()) - 0.5).abs() < 1e-6;
        prop_assume!(![duration_f / max_f, drip_size, drip_rate].into_iter().any(is_half));
        let legacy = LegacyLimit {
            max: Some(max),
            duration: Some(Nanos::from_millis(duration_ms)),
            min_interval: min_interval_ms.map(Nanos::from_millis),
        };
        let expected = Quota::leaky_bucket(
            max,
            Nanos::from_millis(drip_rate.round().max(1.0) as u64),
            rounded_size as u64,
        );
        prop_assert_eq!(legacy.quota(), expected.map(Some));
    }
}

/// A quota that exists decides at both ends of every number; a refusal says what is wrong.
fn check_refused_or_usable(made: Result<Quota, QuotaError>, now: u64) -> Result<(), TestCaseError> {
    let quota = match made {
        Ok(quota) => quota,
        Err(refused) => {
            prop_assert!(refused.to_string().contains(": "), "{}", refused);
            return Ok(());
        }
    };
    let now = Timestamp::from_nanos(now);
    let mut state = None;
    for cost in [
        0,
        1,
        quota.limit(),
        quota.limit().saturating_add(1),
        u64::MAX,
    ] {
        let decided = algorithm::decide(state, quota, cost, now);
        prop_assert!(decided.outcome.remaining() <= quota.limit());
        state = decided.next.apply(state);
        let refunded = algorithm::refund(state, quota, cost, Nanos::new(now.as_nanos()), now);
        prop_assert!(refunded.outcome.remaining() <= quota.limit());
    }
    prop_assert!(quota.limit() == 0 || quota.window() > Nanos::ZERO);
    Ok(())
}
