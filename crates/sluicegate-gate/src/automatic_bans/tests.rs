use proptest::collection::vec;
use proptest::prelude::*;
use sluicegate::{Clock, ManualClock};
use sluicegate_core::{Nanos, Quota};

use super::*;

fn rule(after: u64) -> BanRule {
    BanRule {
        after,
        within: Nanos::MINUTE,
        lasts: Nanos::HOUR,
        grow: 2,
        max: Nanos::DAY,
    }
}

fn clock() -> ManualClock {
    ManualClock::new(Timestamp::from_millis(1_800_000_000_000))
}

fn client(number: u32) -> BanTarget {
    let address = std::net::IpAddr::V4(std::net::Ipv4Addr::from_bits(number));
    BanTarget::Clients(address.into())
}

/// Callers of one limit, denied one after the other.
struct Denied {
    bans: AutomaticBans,
    queue: mpsc::Receiver<BanRequest>,
    limit: Limit,
    clock: ManualClock,
}

impl Denied {
    fn new() -> Self {
        let bans = AutomaticBans::new();
        let queue = bans.take_queue().expect("nobody has taken it");
        Self {
            bans,
            queue,
            limit: Limit::per_client("a", Quota::per_second(1)),
            clock: clock(),
        }
    }

    fn deny(&self, number: u32, rule: &BanRule) -> DenialEffect {
        let (limit, now) = (&self.limit, self.clock.now());
        self.bans.denied(client(number), limit, rule, now)
    }
}

#[test]
fn the_last_denial_of_the_rule_asks_for_a_ban_and_none_before() {
    let mut denied = Denied::new();
    for after in [1, 2, 16, 17, 100] {
        let (number, rule) = (after as u32, rule(after));
        for _ in 1..after {
            assert_eq!(denied.deny(number, &rule), DenialEffect::Counted);
        }
        assert_eq!(
            denied.deny(number, &rule),
            DenialEffect::Requested,
            "{after}"
        );
        let request = denied.queue.try_recv().unwrap();
        assert_eq!(
            (request.target, request.limit.as_str(), request.rule),
            (client(number), "a", rule)
        );
    }
    assert!(denied.bans.take_queue().is_none(), "one takes the queue");
}

#[test]
fn denials_that_are_older_than_the_rule_do_not_count() {
    let denied = Denied::new();
    for (number, after) in [(1, 3), (2, 100)] {
        let rule = rule(after);
        (1..after).for_each(|_| assert_eq!(denied.deny(number, &rule), DenialEffect::Counted));
        denied.clock.advance(Nanos::MINUTE);
        assert_eq!(denied.deny(number, &rule), DenialEffect::Counted);
        for _ in 2..after {
            assert_eq!(denied.deny(number, &rule), DenialEffect::Counted);
        }
        denied.clock.advance(Nanos::from_secs(50));
        assert_eq!(
            denied.deny(number, &rule),
            DenialEffect::Requested,
            "{after}"
        );
    }
}

/// A ban is asked for once while it is on its way; a second later the count begins anew.
#[test]
fn a_caller_is_asked_for_once_until_the_ban_can_be_there() {
    let denied = Denied::new();
    assert_eq!(denied.deny(1, &rule(1)), DenialEffect::Requested);
    denied.clock.advance(Nanos::from_millis(999));
    assert_eq!(denied.deny(1, &rule(1)), DenialEffect::Counted);
    assert_eq!(denied.deny(2, &rule(1)), DenialEffect::Requested);
    denied.clock.advance(Nanos::MILLISECOND);
    assert_eq!(denied.deny(1, &rule(1)), DenialEffect::Requested);
}

#[test]
fn a_full_queue_loses_nobody_the_next_denial_asks_again() {
    let mut denied = Denied::new();
    let many = QUEUE_MAX as u32;
    for number in 0..many {
        denied.deny(number, &rule(2));
        assert_eq!(denied.deny(number, &rule(2)), DenialEffect::Requested);
    }
    denied.deny(many, &rule(2));
    for _ in 0..100 {
        assert_eq!(denied.deny(many, &rule(2)), DenialEffect::QueueFull);
    }
    assert_eq!(denied.queue.try_recv().unwrap().target, client(0));
    assert_eq!(denied.deny(many, &rule(2)), DenialEffect::Requested);
}

/// An attack from very many addresses neither grows the table nor hides a caller who is denied more
/// often than they are.
#[test]
fn a_flood_of_callers_is_counted_in_fixed_memory_and_hides_nobody() {
    let denied = Denied::new();
    let (rule, mut effect) = (rule(100), DenialEffect::Counted);
    for round in 0..100 {
        effect = denied.deny(u32::MAX, &rule);
        let first = round * 2_000;
        (first..first + 2_000).for_each(|number| {
            denied.deny(number, &rule);
        });
        // The flood is over 60 s, so that nothing is forgotten for its age.
        denied.clock.advance(Nanos::from_millis(500));
    }
    assert_eq!(effect, DenialEffect::Requested);
    assert!(denied.bans.denials.callers() <= 16_384);
}

/// Gaps between denials, in milliseconds.
fn gaps() -> impl Strategy<Value = Vec<u64>> {
    vec(
        prop_oneof![0..50_u64, 0..3_000_u64, 3_000..90_000_u64],
        1..400,
    )
}

proptest! {
    /// Compared with a log of every denial: never for fewer than the rule says, and always for as
    /// many in 15/16 of its time.
    #[test]
    fn nobody_is_banned_for_less_and_hardly_anybody_later(gaps in gaps(), after in 1..40_u64) {
        let (denied, rule) = (Denied::new(), rule(after));
        let within = |times: &[Timestamp], now: Timestamp, span: Nanos| {
            times.iter().filter(|time| now.since(**time) < span).count() as u64
        };
        let nearly = Nanos::new(rule.within.get() / 16 * 15);
        let mut times = Vec::new();
        let mut quiet_until = Timestamp::default();
        for gap in gaps {
            denied.clock.advance(Nanos::from_millis(gap));
            let now = denied.clock.now();
            if now < quiet_until {
                prop_assert_eq!(denied.deny(1, &rule), DenialEffect::Counted);
                continue;
            }
            times.push(now);
            let is_asked_for = denied.deny(1, &rule) == DenialEffect::Requested;
            let (exact, at_least) = (within(&times, now, rule.within), within(&times, now, nearly));
            prop_assert!(!is_asked_for || exact >= after, "{exact} of {after}");
            prop_assert!(is_asked_for || at_least < after, "{at_least} of {after}");
            if after <= 16 {
                prop_assert_eq!(is_asked_for, exact >= after);
            }
            if is_asked_for {
                times.clear();
                quiet_until = now.after(Nanos::SECOND);
            }
        }
    }
}
