//! Converts quotas from and to Envoy's form: a number of requests per second, minute, hour, day,
//! month or year.

use sluicegate::{Nanos, Quota, QuotaError, TokenBucket};

use super::messages::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit;
use super::messages::envoy::r#type::v3::RateLimitUnit;

/// The units, the shortest first; a month has 30 days, a year 365.
const UNITS: [(Unit, Nanos); 6] = [
    (Unit::Second, Nanos::SECOND),
    (Unit::Minute, Nanos::MINUTE),
    (Unit::Hour, Nanos::HOUR),
    (Unit::Day, Nanos::DAY),
    (Unit::Month, Nanos::new(30 * Nanos::DAY.get())),
    (Unit::Year, Nanos::new(365 * Nanos::DAY.get())),
];

/// The quota that a gateway sends with a descriptor; `None` when its unit is missing or unknown. A
/// number of 0 lets nothing pass.
pub(super) fn quota_of(requests: u32, unit: i32) -> Option<Result<Quota, QuotaError>> {
    let unit = RateLimitUnit::try_from(unit).ok()?;
    let (_, span) = UNITS.iter().find(|(own, _)| *own as i32 == unit as i32)?;
    Some(match requests {
        0 => TokenBucket::with_interval(*span, 0).map(Quota::from),
        _ => Quota::new(requests.into(), *span, requests.into()),
    })
}

/// The rate of a quota: in the shortest unit in which it is a whole number, or nearly.
pub(super) fn rate_of(quota: &Quota) -> (u32, Unit) {
    let (count, span) = match quota {
        Quota::TokenBucket(bucket) => (1, bucket.interval()),
        Quota::Drip(bucket) => (bucket.drip(), bucket.interval()),
        Quota::SlidingWindow(window) => (quota.limit(), window.window()),
    };
    let (count, span) = (u128::from(count), u128::from(span.get().max(1)));
    let per = |unit: Nanos| (count * u128::from(unit.get()) + span / 2) / span;
    let is_near = |unit: Nanos| {
        (per(unit) * span).abs_diff(count * u128::from(unit.get())) * 1_000_000 <= per(unit) * span
    };
    let found = UNITS
        .iter()
        .find(|(_, unit)| per(*unit) > 0 && is_near(*unit));
    let (unit, span) = *found
        .or_else(|| UNITS.iter().find(|(_, unit)| per(*unit) > 0))
        .unwrap_or(&UNITS[5]);
    (u32::try_from(per(span)).unwrap_or(u32::MAX), unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_told_in_the_shortest_unit_that_fits() {
        let rate = |count, period| rate_of(&Quota::new(count, period, 1).unwrap());
        assert_eq!(rate(10, Nanos::SECOND), (10, Unit::Second));
        assert_eq!(rate(7, Nanos::SECOND), (7, Unit::Second));
        assert_eq!(rate(60, Nanos::MINUTE), (1, Unit::Second));
        assert_eq!(rate(100, Nanos::MINUTE), (100, Unit::Minute));
        assert_eq!(rate(1, Nanos::HOUR), (1, Unit::Hour));
        assert_eq!(rate(3, Nanos::DAY), (3, Unit::Day));
        assert_eq!(rate(2, Nanos::new(365 * Nanos::DAY.get())), (2, Unit::Year));
        assert_eq!(
            rate_of(&Quota::fixed_window(100, Nanos::MINUTE).unwrap()),
            (100, Unit::Minute)
        );
        assert_eq!(
            rate_of(&Quota::sliding_window(5, Nanos::HOUR).unwrap()),
            (5, Unit::Hour)
        );
    }

    #[test]
    fn what_a_gateway_sends_along_is_a_quota_of_as_many_at_once() {
        let quota =
            |requests, unit: RateLimitUnit| quota_of(requests, unit as i32).unwrap().unwrap();
        assert_eq!(
            quota(5, RateLimitUnit::Minute),
            Quota::new(5, Nanos::MINUTE, 5).unwrap()
        );
        assert_eq!(quota(0, RateLimitUnit::Day).limit(), 0);
        assert_eq!(quota(1, RateLimitUnit::Year).limit(), 1);
        assert!(quota_of(5, 0).is_none() && quota_of(5, 99).is_none() && quota_of(5, -1).is_none());
        assert!(
            quota_of(u32::MAX, 1).unwrap().is_err(),
            "more than can be kept exactly"
        );
    }
}
