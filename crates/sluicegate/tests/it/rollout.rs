//! A changed quota is rolled out: one replica after the other gets it, and all charge the same
//! counters under load meanwhile.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests may unwrap like the tests themselves"
)]

use sluicegate::{
    Limit, Limiter, LocalStore, ManualClock, Nanos, Policy, Quota, RedisClock, RedisOptions,
    RedisStore, Store, Subject, Timestamp, Verdict,
};
use sluicegate_testkit::RedisServer;

const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// A quota as it is before and after the change: tokens in a minute, and the burst.
#[derive(Clone, Copy, Debug)]
struct Change {
    old: (u32, u32),
    new: (u32, u32),
}

/// The same rate with a smaller burst, a smaller or larger rate with a smaller burst, and a raise.
const CHANGES: [Change; 5] = [
    Change {
        old: (600, 40),
        new: (600, 4),
    },
    Change {
        old: (600, 40),
        new: (300, 4),
    },
    Change {
        old: (600, 20),
        new: (1_200, 8),
    },
    Change {
        old: (600, 40),
        new: (600, 1),
    },
    Change {
        old: (300, 10),
        new: (600, 20),
    },
];

impl Change {
    fn policy(self, side: usize) -> Policy {
        let (per_minute, burst) = [self.old, self.new][side];
        let quota = Quota::per_minute(per_minute).burst(burst);
        Policy::new([Limit::per_client("per-ip", quota)]).unwrap()
    }

    fn largest(self) -> (u64, u64) {
        let (old, new) = (self.old, self.new);
        (old.0.max(new.0).into(), old.1.max(new.1).into())
    }
}

/// Replicas that share their counters: one for each side, or one that is reloaded to and fro.
struct Fleet<S> {
    change: Change,
    replicas: Vec<Limiter<S, ManualClock>>,
    now: Timestamp,
    /// A number that looks random and is the same in every run.
    random: u64,
    /// When something was admitted, and by which side.
    admitted: Vec<(Timestamp, usize)>,
}

impl<S: Store> Fleet<S> {
    fn new(change: Change, stores: Vec<S>) -> Self {
        let replica =
            |(side, store)| Limiter::new(change.policy(side), store, ManualClock::new(START));
        Self {
            change,
            replicas: stores.into_iter().enumerate().map(replica).collect(),
            now: START,
            random: 1,
            admitted: Vec::new(),
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.random >> 33) % bound
    }

    /// One side asks for a unit.
    async fn ask(&mut self, side: usize) {
        let replica = &self.replicas[side.min(self.replicas.len() - 1)];
        if self.replicas.len() == 1 {
            replica.set_policy(self.change.policy(side));
        }
        replica.clock().set(self.now);
        let ann = Subject {
            client_ip: Some("203.0.113.7".parse().unwrap()),
            ..Subject::ANONYMOUS
        };
        match replica.check(&ann, 1).await {
            Verdict::Forward(_) => self.admitted.push((self.now, side)),
            Verdict::Reject(_) => {}
            other => panic!("no decision: {other:?}"),
        }
    }

    /// Both sides ask, in no particular order, together four times as often as units flow back.
    async fn ask_for(&mut self, span: Nanos) {
        let (per_minute, _) = self.change.largest();
        let pause = Nanos::MINUTE.get() / per_minute / 4;
        let end = self.now.after(span);
        while self.now < end {
            let side = self.below(2) as usize;
            self.ask(side).await;
            self.now = self.now.after(Nanos::new(pause / 2 + self.below(pause)));
        }
    }

    /// Admissions of each side in a span.
    fn parts(&self, from: Timestamp, to: Timestamp) -> [usize; 2] {
        [0, 1].map(|side| {
            let is_his = |(at, by): &&(Timestamp, usize)| (from..to).contains(at) && *by == side;
            self.admitted.iter().filter(is_his).count()
        })
    }

    /// The most units above rate × time that were admitted in any span.
    fn largest_burst(&self) -> u64 {
        let (per_minute, _) = self.change.largest();
        let refilled = |at: Timestamp| at.since(START).get() * per_minute / Nanos::MINUTE.get();
        let (mut least, mut largest) = (i64::MAX, 0);
        for (index, (at, _)) in self.admitted.iter().enumerate() {
            let before = index as i64 - refilled(*at) as i64;
            least = least.min(before);
            largest = largest.max(before + 1 - least);
        }
        largest as u64
    }
}

/// Every side gets its part all the time, and both together no more than the larger quota and one
/// forgiveness a minute.
async fn both_sides_admit_their_part<S: Store>(mut fleet: Fleet<S>) {
    let (change, quarter) = (fleet.change, Nanos::from_secs(20));
    for _ in 0..4 {
        let from = fleet.now;
        fleet.ask_for(quarter).await;
        let [old, new] = fleet.parts(from, fleet.now);
        let fair = (old + new) / 2;
        assert!(
            old.min(new) >= fair / 2,
            "{old} by the old side, {new} by the new: {change:?}"
        );
        let (slowest, _) = change.old.min(change.new);
        let refilled = u64::from(slowest) * quarter.as_secs_ceil() / 60;
        assert!(
            (old + new) as u64 >= refilled * 9 / 10,
            "{old} and {new} of {refilled}: {change:?}"
        );
    }
    let (_, burst) = change.largest();
    let forgiven = u64::from(change.old.1.abs_diff(change.new.1)) * 2;
    let admitted = fleet.largest_burst();
    assert!(
        admitted <= burst + forgiven + 1,
        "{admitted} at once of {burst} and {forgiven}: {change:?}"
    );
}

/// The burst is lowered where units flow back in minutes: the debt of the old side is far beyond
/// what the new one can owe.
const SLOW: Change = Change {
    old: (1, 200),
    new: (1, 20),
};

async fn a_slow_debt_is_forgiven_once_a_minute<S: Store>(mut fleet: Fleet<S>) {
    for _ in 0..1_000 {
        for side in [0, 1] {
            fleet.ask(side).await;
        }
        fleet.now = fleet.now.after(Nanos::from_millis(50));
    }
    let admitted = fleet.admitted.len();
    assert!(
        (200..=200 + 180 + 1).contains(&admitted),
        "{admitted} within a minute of 200 and one forgiveness"
    );
}

#[tokio::test]
async fn reloads_to_and_fro_leave_each_configuration_its_part() {
    for change in CHANGES {
        both_sides_admit_their_part(Fleet::new(change, vec![LocalStore::default()])).await;
    }
    a_slow_debt_is_forgiven_once_a_minute(Fleet::new(SLOW, vec![LocalStore::default()])).await;
}

#[tokio::test]
async fn replicas_of_both_configurations_on_one_redis_admit_their_part() {
    let server = RedisServer::start();
    let stores = || {
        let mut options: RedisOptions = super::redis::options(&server);
        options.clock = RedisClock::Given;
        options.deadline = Nanos::from_secs(30);
        let store = |_| RedisStore::new(options.clone()).unwrap();
        (0..2).map(store).collect::<Vec<_>>()
    };
    for change in CHANGES {
        both_sides_admit_their_part(Fleet::new(change, stores())).await;
    }
    a_slow_debt_is_forgiven_once_a_minute(Fleet::new(SLOW, stores())).await;
}
