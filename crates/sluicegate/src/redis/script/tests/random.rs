//! Random programs: scripts and pure code agree on every outcome, stored value and time to live.

use sluicegate_core::{Draw, Nanos, Outcome, Pace, Quota, Timestamp, TokenBucket};

use super::outcome_of;
use super::server::{CommandMonitor, Connection, ScriptServer};
use crate::redis::charge::StoreCharge;
use crate::redis::script::model::ReferenceModel;
use crate::redis::script::{ChargeReply, ChargeTime, ScriptTime, read_refund};

/// Charges and refunds in a usual run; `SLUICEGATE_CASES` asks for more, and then for different
/// ones each time.
const OPERATIONS: u64 = 100_000;

#[test]
fn random_programs_give_the_digits_of_the_machines() {
    let wanted: Option<u64> = std::env::var("SLUICEGATE_CASES")
        .ok()
        .and_then(|text| text.parse().ok());
    let server = ScriptServer::start();
    let mut player = ProgramPlayer {
        monitor: CommandMonitor::start(&server),
        connection: server.connect(),
        operations: 0,
    };
    let mut seed = wanted.map_or(0x7011_9a7e, |_| {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .as_nanos() as u64
    });
    while player.operations < wanted.unwrap_or(0).max(OPERATIONS) {
        seed += 1;
        player.play(seed);
    }
}

/// Where interval times drip is beyond what a Lua number holds, at ages that are a hair past a
/// whole unit.
#[test]
fn refunds_of_the_slowest_buckets_are_exact_too() {
    let server = ScriptServer::start();
    let mut player = ProgramPlayer {
        monitor: CommandMonitor::start(&server),
        connection: server.connect(),
        operations: 0,
    };
    let mut dice = RandomInput(1);
    while player.operations < 500 {
        let (interval_ms, drip) = (
            (1 << 41) - dice.below(1 << 20),
            1_000_000 - dice.below(1_000),
        );
        let Some(age_ms) = inverse(drip, interval_ms) else {
            continue;
        };
        let quota = Quota::leaky_bucket(drip * 2, Nanos::from_millis(interval_ms), drip).unwrap();
        let cost = (u128::from(age_ms) * u128::from(drip) / u128::from(interval_ms)) as u64
            + dice.below(2);
        let spend = [StoreCharge {
            key: "k0".to_owned(),
            quota,
            cost,
            hash: 0,
            base: None,
            digits_only: false,
            enforced: true,
            draw: Draw::Take,
        }];
        let (now, age) = (
            Timestamp::from_millis((1 << 40) + dice.below(1 << 40)),
            Nanos::from_millis(age_ms),
        );
        let mut model = ReferenceModel::default();
        player.connection.call(&["DEL", "k0"]);
        player
            .connection
            .decide(&[&spend], ScriptTime::Given(now))
            .unwrap();
        model.decide(&[&spend], now);
        player.monitor.commands(&mut player.connection);
        let later = now.after(age).as_nanos();
        player.check_refund(&mut model, &spend[0], ChargeTime::Ago(age), later, "slow");
    }
}

/// The number that gives 1 when multiplied by `number`, counted around `modulus`; none when they
/// share a factor.
fn inverse(number: u64, modulus: u64) -> Option<u64> {
    let (mut rest, mut next_rest) = (i128::from(modulus), i128::from(number));
    let (mut factor, mut next_factor) = (0, 1);
    while next_rest != 0 {
        let quotient = rest / next_rest;
        (rest, next_rest) = (next_rest, rest - quotient * next_rest);
        (factor, next_factor) = (next_factor, factor - quotient * next_factor);
    }
    (rest == 1).then(|| factor.rem_euclid(i128::from(modulus)) as u64)
}

/// The quota in force and the base pace of each key.
#[derive(Clone, Copy)]
struct KeyedLimits<'a> {
    quotas: &'a [Quota],
    bases: &'a [Pace],
}

struct ProgramPlayer {
    monitor: CommandMonitor,
    connection: Connection,
    operations: u64,
}

impl ProgramPlayer {
    fn play(&mut self, seed: u64) {
        let mut dice = RandomInput(seed);
        let mut model = ReferenceModel::default();
        let mut quotas: Vec<Quota> = (0..4).map(|_| dice.quota()).collect();
        let bases: Vec<Pace> = quotas.iter().map(Quota::pace).collect();
        let mut now = [0, 1_800_000_000_000_000_000, dice.next() >> 3][dice.below(3) as usize];
        let mut last = None;
        for step in 0..60 {
            now = dice.step(now, quotas[0], last);
            let place = format!("seed {seed}, step {step}, at {now}");
            if dice.one_in(20) {
                let changed = dice.below(4) as usize;
                quotas[changed] = dice.changed(quotas[changed], bases[changed]);
            }
            let limits = KeyedLimits {
                quotas: &quotas,
                bases: &bases,
            };
            last = match dice.one_in(8) {
                true => self.refund(&mut dice, &mut model, limits, now, &place),
                false => self.decide(&mut dice, &mut model, limits, now, &place),
            };
        }
        self.connection.assert_every_key_expires();
        for key in (0..4).map(|key| format!("k{key}")) {
            assert_eq!(
                self.connection.get(&key).as_ref(),
                model.values.get(&key),
                "seed {seed}, {key} at the end"
            );
        }
        self.connection.call(&["FLUSHALL"]);
        self.monitor.commands(&mut self.connection);
    }

    fn decide(
        &mut self,
        dice: &mut RandomInput,
        model: &mut ReferenceModel,
        limits: KeyedLimits<'_>,
        now: u64,
        place: &str,
    ) -> Option<Outcome> {
        let requests: Vec<Vec<StoreCharge>> = (0..1 + dice.below_one_of(&[1, 4, 9]))
            .map(|_| {
                (0..1 + dice.below_one_of(&[1, 1, 3]))
                    .map(|_| dice.item(limits))
                    .collect()
            })
            .collect();
        let requests: Vec<&[StoreCharge]> = requests.iter().map(Vec::as_slice).collect();
        let now = Timestamp::from_nanos(now);
        let answers = self
            .connection
            .decide(&requests, ScriptTime::Given(now))
            .unwrap();
        let (outcomes, writes) = model.decide(&requests, now);
        assert_eq!(answers.now, now, "{place}");
        for ((request, answers), expected) in requests.iter().zip(&answers.requests).zip(&outcomes)
        {
            let answers = answers.as_ref().unwrap();
            let got: Vec<Outcome> = request
                .iter()
                .zip(answers)
                .map(|(item, a)| outcome_of(item, a, now))
                .collect();
            assert_eq!(got, *expected, "{place}: {requests:?}");
            self.operations += request.len() as u64;
        }
        let commands = self.monitor.commands(&mut self.connection);
        let sets: Vec<Vec<String>> = commands
            .iter()
            .filter(|command| command[0] == "SET")
            .cloned()
            .collect();
        let expected: Vec<Vec<String>> = writes
            .into_iter()
            .map(|[key, value, px]| vec!["SET".to_owned(), key, value, "PX".to_owned(), px])
            .collect();
        assert_eq!(sets, expected, "{place}: {requests:?}");
        outcomes
            .first()
            .and_then(|outcomes| outcomes.first().copied())
    }

    fn refund(
        &mut self,
        dice: &mut RandomInput,
        model: &mut ReferenceModel,
        limits: KeyedLimits<'_>,
        now: u64,
        place: &str,
    ) -> Option<Outcome> {
        let mut item = dice.item(limits);
        item.cost = item.cost.min(1 << 52);
        let age = dice.span(item.quota, None).min(now);
        let drawn = match dice.one_in(2) {
            true => ChargeTime::Ago(Nanos::new(age)),
            false => ChargeTime::At(Timestamp::from_nanos(now - age)),
        };
        self.check_refund(model, &item, drawn, now, place);
        None
    }

    fn check_refund(
        &mut self,
        model: &mut ReferenceModel,
        item: &StoreCharge,
        drawn: ChargeTime,
        now: u64,
        place: &str,
    ) {
        let now = Timestamp::from_nanos(now);
        let age = match drawn {
            ChargeTime::Ago(age) => age,
            ChargeTime::At(instant) => now.since(instant),
        };
        let refunded =
            read_refund(&mut self.connection.refund(item, drawn, ScriptTime::Given(now))).unwrap();
        let (expected, write) = model.refund(item, age, now);
        let got = outcome_of(
            item,
            &ChargeReply {
                allowed: true,
                state: refunded.state,
                excess_at: refunded.excess_at,
                is_stored: true,
            },
            now,
        );
        assert_eq!(got, expected, "{place}: refund of {item:?}, {drawn:?}");
        let commands = self.monitor.commands(&mut self.connection);
        let set = commands.iter().find(|command| command[0] == "SET");
        let expected =
            write.map(|[key, value, px]| vec!["SET".to_owned(), key, value, "PX".to_owned(), px]);
        assert_eq!(
            set,
            expected.as_ref(),
            "{place}: refund of {item:?}, {drawn:?}"
        );
        self.operations += 1;
    }
}

/// Numbers that look random and are the same in every run: splitmix64.
struct RandomInput(u64);

impl RandomInput {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }

    /// From 1 to `max`, small ones as likely as large ones.
    fn log(&mut self, max: u64) -> u64 {
        let bits = self.below(u64::from(max.ilog2()) + 1);
        ((self.next() >> (63 - bits)) | 1 << bits).min(max)
    }

    fn below_one_of(&mut self, ends: &[u64]) -> u64 {
        let end = *self.pick(ends);
        self.below(end)
    }

    fn log_one_of(&mut self, ends: &[u64]) -> u64 {
        let end = *self.pick(ends);
        self.log(end)
    }

    fn quota(&mut self) -> Quota {
        loop {
            let (size, millis) = (
                self.log_one_of(&[10, 1_000_000]),
                self.log_one_of(&[5_000, 100_000_000]),
            );
            let span = Nanos::from_millis(millis);
            let quota = match self.below(10) {
                0..3 => Quota::new(self.log(1_000_000), Nanos::SECOND, size).ok(),
                3 => TokenBucket::with_interval(Nanos::new(self.log(1 << 52)), self.log(1 << 52))
                    .ok()
                    .map(Quota::from),
                4..6 => Quota::leaky_bucket(size, span, self.log_one_of(&[2, 1_000])).ok(),
                6 => Quota::leaky_bucket(
                    self.log(1 << 51),
                    Nanos::from_millis(self.log(1 << 42)),
                    self.log(1_000_000),
                )
                .ok(),
                7 => Quota::fixed_window(size, span).ok(),
                _ => Quota::sliding_window(size, span).ok(),
            };
            if let Some(quota) = quota {
                return quota;
            }
        }
    }

    /// Another quota: of any pace, of the same with another limit, or back at the base.
    fn changed(&mut self, quota: Quota, base: Pace) -> Quota {
        let size = self.log(1_000);
        match (self.below(4), base) {
            (0, _) => quota.resized(size).unwrap_or(quota),
            (1, Pace::TokenBucket { interval }) => {
                TokenBucket::with_interval(Nanos::new(interval), size).map_or(quota, Quota::from)
            }
            (1, Pace::SlidingWindow { window_ms }) => {
                Quota::sliding_window(size, Nanos::from_millis(window_ms)).unwrap_or(quota)
            }
            _ => self.quota(),
        }
    }

    fn item(&mut self, limits: KeyedLimits<'_>) -> StoreCharge {
        let KeyedLimits { quotas, bases } = limits;
        let key = self.below(quotas.len() as u64) as usize;
        let quota = if self.one_in(50) {
            self.quota()
        } else {
            quotas[key]
        };
        let limit = quota.limit();
        let part = (u128::from(limit) * u128::from(self.below(256)) / 256) as u64;
        let cost = *self.pick(&[
            0,
            1,
            1,
            1,
            part,
            part / 4,
            part / 4,
            limit,
            limit.saturating_add(1),
        ]);
        let cost = if self.one_in(100) { u64::MAX } else { cost };
        StoreCharge {
            key: format!("k{key}"),
            hash: 0,
            base: Some(bases[key]).filter(|base| *base != quota.pace()),
            digits_only: self.one_in(20),
            quota,
            cost,
            enforced: !self.one_in(5),
            draw: *self.pick(&[Draw::Take, Draw::Take, Draw::Take, Draw::Look]),
        }
    }

    /// A span that means something to a quota.
    fn span(&mut self, quota: Quota, last: Option<Outcome>) -> u64 {
        let whole = quota.window().get();
        let unit = (whole / quota.limit().max(1)).max(1);
        match self.below(8) {
            0..2 => 0,
            2 => self.below(3_000_000),
            3 => unit
                .saturating_mul(self.below(4))
                .saturating_add(self.below(2)),
            4 => (u128::from(whole) * u128::from(self.below(300)) / 256) as u64,
            5 => last
                .and_then(|last| last.retry_after())
                .map_or(1, |wait| wait.get().saturating_sub(self.below(2))),
            6 => unit.saturating_mul(self.below(20)) / 16,
            _ => self.log(1 << 50),
        }
    }

    /// Mostly forward, at times back: a little, a minute or two, or by far.
    fn step(&mut self, now: u64, quota: Quota, last: Option<Outcome>) -> u64 {
        let next = match self.below(20) {
            0 => now.saturating_sub(self.below(5_000_000_000)),
            1 => now.saturating_sub(self.below(130_000_000_000)),
            2 => now.saturating_sub(
                quota
                    .window()
                    .get()
                    .saturating_add(self.below(130_000_000_000)),
            ),
            _ => now.saturating_add(self.span(quota, last)),
        };
        next.min(1 << 62)
    }
}
