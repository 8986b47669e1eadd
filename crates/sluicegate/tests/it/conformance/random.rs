//! Random programs: a store and the reference store answer alike, step by step.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests may unwrap like the tests themselves"
)]

use sluicegate::conformance::ReferenceStore;
use sluicegate::{
    Charge, Clock, Draw, KeyPart, Limit, LocalOptions, LocalStore, ManualClock, Nanos, Outcome,
    Policy, Quota, Store, Timestamp,
};

/// Programs in the normal run, each of [`STEPS`] steps; `SLUICEGATE_CASES` asks for more.
const PROGRAMS: u64 = 4_000;
const STEPS: usize = 250;

#[tokio::test]
async fn the_local_store_answers_as_the_reference_store_does() {
    let options = LocalOptions {
        max_keys: 1_000,
        ..LocalOptions::default()
    };
    for seed in 0..programs(PROGRAMS) {
        let steps = compare(seed, &LocalStore::new(options))
            .await
            .unwrap_or_else(|wrong| panic!("{wrong}"));
        assert_eq!(steps, STEPS);
    }
}

/// The number of programs to play: `usual`, or what `SLUICEGATE_CASES` asks for if that is more.
pub fn programs(usual: u64) -> u64 {
    let wanted = std::env::var("SLUICEGATE_CASES")
        .ok()
        .and_then(|text| text.parse().ok());
    wanted.unwrap_or(usual).max(usual)
}

/// The comparison can fail: a store that takes part of a denied request is found out.
#[tokio::test]
async fn a_store_that_is_wrong_is_found_out() {
    struct OneByOneStore(ReferenceStore);
    impl Store for OneByOneStore {
        async fn decide<C: Clock>(
            &self,
            charges: &[Charge<'_>],
            clock: &C,
        ) -> Result<sluicegate::List<Outcome>, sluicegate::StoreError> {
            // Takes the charges one by one: not all or nothing.
            let mut outcomes = sluicegate::List::Empty;
            for charge in charges {
                let one = self.0.decide(std::slice::from_ref(charge), clock).await?;
                one.iter().for_each(|outcome| outcomes.push(*outcome));
            }
            Ok(outcomes)
        }

        async fn refund<C: Clock>(
            &self,
            charge: &Charge<'_>,
            age: Nanos,
            clock: &C,
        ) -> Result<Outcome, sluicegate::StoreError> {
            self.0.refund(charge, age, clock).await
        }

        async fn reset<C: Clock>(
            &self,
            charge: &Charge<'_>,
            clock: &C,
        ) -> Result<(), sluicegate::StoreError> {
            self.0.reset(charge, clock).await
        }
    }
    let mut found = 0;
    for seed in 0..20 {
        found += u32::from(
            compare(seed, &OneByOneStore(ReferenceStore::new()))
                .await
                .is_err(),
        );
    }
    assert!(found > 5, "only {found} of 20 programs noticed");
}

/// Plays one program against both stores; an error shows the step at which they differ.
pub async fn compare<S: Store>(seed: u64, store: &S) -> Result<usize, String> {
    let reference = ReferenceStore::new();
    let mut program = Program::new(seed);
    for step in 0..STEPS {
        program.move_clock();
        let what = program.random.below(100);
        if what < 3 {
            program.reload();
        }
        let answers = match what {
            3..12 => program.refund(&reference, store).await,
            12..15 => {
                program.reset(&reference, store).await;
                continue;
            }
            _ => program.decide(&reference, store).await,
        };
        let (expected, got) = answers;
        if expected != got {
            let Program { limits, clock, .. } = &program;
            return Err(format!(
                "seed {seed}, step {step}, at {:?}\nexpected {expected:?}\n     got {got:?}\n  limits {limits:#?}",
                clock.now()
            ));
        }
    }
    Ok(STEPS)
}

/// A charge that was taken, for giving it back.
struct Drawn {
    limit: usize,
    caller: &'static str,
    cost: u64,
    at: Timestamp,
}

/// The state of one program: limits, clock, and what was charged so far.
struct Program {
    random: SeededRandom,
    limits: Vec<Limit>,
    policy: Policy,
    clock: ManualClock,
    /// True when the clock goes back too. A store may forget counters that are full, so those that
    /// are swept stay out then.
    goes_back: bool,
    drawn: Vec<Drawn>,
    last: Option<Outcome>,
}

const CALLERS: [&str; 3] = ["ann", "bob", "a:b%{c}"];

impl Program {
    fn new(seed: u64) -> Self {
        let mut random = SeededRandom(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let goes_back = random.below(2) == 0;
        let limits: Vec<Limit> = (0..1 + random.below(3))
            .map(|number| {
                let limit = Limit::new(format!("limit-{number}"), random.quota(goes_back))
                    .key([KeyPart::Principal]);
                if random.below(4) == 0 {
                    limit.shadow()
                } else {
                    limit
                }
            })
            .collect();
        let start = if random.below(2) == 0 {
            0
        } else {
            1_800_000_000_000_000_000
        };
        Self {
            policy: Policy::new(limits.clone()).unwrap(),
            limits,
            clock: ManualClock::new(Timestamp::from_nanos(start)),
            goes_back,
            drawn: Vec::new(),
            last: None,
            random,
        }
    }

    /// Moves the clock: mostly on by a little, to an edge or over it; at times by days, at times
    /// back.
    fn move_clock(&mut self) {
        let now = self.clock.now();
        let limit = self.random.below(self.limits.len() as u64) as usize;
        let quota = self.limits[limit].quota.unwrap();
        let (window, unit) = (
            quota.window().get(),
            (quota.window().get() / quota.limit()).max(1),
        );
        if self.goes_back && self.random.below(20) == 0 {
            let back = match self.random.below(3) {
                0 => self.random.below(unit * 3),
                1 => self.random.below(Nanos::MINUTE.get() + 2),
                _ => self.random.below(window + 100 * Nanos::MINUTE.get()),
            };
            return self.clock.set(now.before(Nanos::new(back)));
        }
        let on = match self.random.below(12) {
            0..4 => 0,
            4 => 1,
            5 => self.random.below(3_000_000),
            6 => unit,
            7 => unit - 1,
            8 => self.random.below(unit * 3),
            9 => self.random.below(window / 4 + 1),
            10 => self.random.below(window + 1) + self.random.below(2) * Nanos::DAY.get(),
            _ => match self.last {
                Some(Outcome::Denied { retry_after, .. }) => {
                    retry_after.get() - self.random.below(2)
                }
                _ => 0,
            },
        };
        self.clock.advance(Nanos::new(on));
    }

    /// Gives one limit another size, or another quota of any algorithm.
    fn reload(&mut self) {
        let place = self.random.below(self.limits.len() as u64) as usize;
        let old = self.limits[place].quota.unwrap();
        let resized = old.resized(self.random.log(1_000)).ok();
        let new = resized.filter(|_| self.random.below(3) == 0);
        self.limits[place].quota = new.or_else(|| Some(self.random.quota(self.goes_back)));
        self.policy = Policy::new(self.limits.clone()).unwrap();
    }

    async fn decide<S: Store>(
        &mut self,
        reference: &ReferenceStore,
        store: &S,
    ) -> (Vec<Outcome>, Vec<Outcome>) {
        let caller = CALLERS[self.random.below(CALLERS.len() as u64) as usize];
        let parts = [caller];
        let mut charges = Vec::new();
        for limit in &self.limits {
            if charges.is_empty() || self.random.below(3) > 0 {
                let cost = self.random.cost(limit.quota.unwrap().limit());
                let charge = self.policy.charge_named(&limit.name, &parts, cost);
                let draw = match self.random.below(4) {
                    0 => Draw::Look,
                    _ => Draw::Take,
                };
                charges.push(Charge {
                    draw,
                    ..charge.unwrap().unwrap()
                });
            }
        }
        let expected = reference
            .decide(&charges, &self.clock)
            .await
            .unwrap()
            .to_vec();
        let got = store.decide(&charges, &self.clock).await.unwrap().to_vec();
        let goes_on = charges
            .iter()
            .zip(&expected)
            .all(|(charge, outcome)| !charge.enforced || outcome.is_allowed());
        for (charge, outcome) in charges.iter().zip(&expected).filter(|_| goes_on) {
            if outcome.is_allowed() && charge.cost > 0 && charge.draw == Draw::Take {
                let at = self.clock.now();
                self.drawn.push(Drawn {
                    limit: charge.limit_index,
                    caller,
                    cost: charge.cost,
                    at,
                });
            }
        }
        self.last = expected
            .iter()
            .copied()
            .find(|outcome| !outcome.is_allowed());
        (expected, got)
    }

    /// Gives back a charge with its true age, or anything of any age.
    async fn refund<S: Store>(
        &mut self,
        reference: &ReferenceStore,
        store: &S,
    ) -> (Vec<Outcome>, Vec<Outcome>) {
        let now = self.clock.now();
        let invented = Drawn {
            limit: 0,
            caller: "ann",
            cost: self.random.cost(20),
            at: now,
        };
        let drawn = match self.drawn.len() {
            0 => invented,
            count => self
                .drawn
                .swap_remove(self.random.below(count as u64) as usize),
        };
        let age = if self.random.below(4) == 0 {
            Nanos::new(self.random.below(1 << 40))
        } else {
            now.since(drawn.at)
        };
        let parts = [drawn.caller];
        let charge = self
            .policy
            .charge_named(&self.limits[drawn.limit].name, &parts, drawn.cost)
            .unwrap()
            .unwrap();
        let expected = reference.refund(&charge, age, &self.clock).await.unwrap();
        let got = store.refund(&charge, age, &self.clock).await.unwrap();
        (vec![expected], vec![got])
    }

    async fn reset<S: Store>(&mut self, reference: &ReferenceStore, store: &S) {
        let limit = self.random.below(self.limits.len() as u64) as usize;
        let parts = [CALLERS[self.random.below(CALLERS.len() as u64) as usize]];
        let charge = self
            .policy
            .charge_named(&self.limits[limit].name, &parts, 0)
            .unwrap()
            .unwrap();
        reference.reset(&charge, &self.clock).await.unwrap();
        store.reset(&charge, &self.clock).await.unwrap();
    }
}

/// Random numbers that are the same in every run.
struct SeededRandom(u64);

impl SeededRandom {
    /// A number below `bound`, which is at least 1.
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % bound
    }

    /// From 1 to `max`, small ones as likely as large ones.
    fn log(&mut self, max: u64) -> u64 {
        let top = 1 + self.below(u64::from(max.ilog2()) + 1);
        (1 + self.below(1 << top)).min(max)
    }

    fn cost(&mut self, limit: u64) -> u64 {
        match self.below(10) {
            0 => 0,
            1..6 => 1,
            6..8 => self.log(limit),
            8 => limit,
            _ => limit + 1,
        }
    }

    fn quota(&mut self, instants_only: bool) -> Quota {
        let periods = [
            Nanos::SECOND,
            Nanos::MINUTE,
            Nanos::HOUR,
            Nanos::new(7_000_003),
            Nanos::DAY,
        ];
        let kinds = if instants_only { 4 } else { 5 };
        loop {
            let period = periods[self.below(5) as usize];
            let millis = Nanos::from_millis(self.log(1_000_000));
            let made = match self.below(kinds) {
                0 | 1 => Quota::new(self.log(100_000), period, self.log(1_000)),
                2 => Quota::leaky_bucket(self.log(1_000), millis, self.log(30)),
                3 => Quota::fixed_window(self.log(1_000), millis),
                _ => Quota::sliding_window(self.log(1_000), millis),
            };
            // Slower quotas are played by a transcript: a program of them would take centuries.
            const YEAR: Nanos = Nanos::from_secs(365 * 86_400);
            if let Ok(quota) = made
                && quota.window() <= YEAR
            {
                return quota;
            }
        }
    }
}
