//! Shadows: what this replica last saw of a counter. Enough to deny without a call, and to go on when the store is away.
//!
//! A counter's debt only grows by what others spend, so the state seen last, moved on by the time that has passed, is
//! the least that the store would say now. If even that denies a charge, the store would deny it too.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use tollgate_core::algorithm::sliding_window::Windows;
use tollgate_core::algorithm::{self, State};
use tollgate_core::{List, Nanos, Outcome, Quota, Timestamp};

/// The last sight of many counters, in bounded memory.
pub(super) struct Shadows {
    sets: Box<[Mutex<Set>]>,
    rates: ClockRates,
    denials: AtomicU64,
}

/// How far the server's clock and the caller's may drift apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClockRates {
    /// Two clocks: a part in a thousand.
    Apart,
    /// The server is told the caller's time.
    Same,
}

/// What was seen of one counter, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sight {
    pub(super) quota: Quota,
    /// The state after the answer, by the server's clock.
    pub(super) state: Option<State>,
    /// The server's time of the answer. By the caller's clock, that was between the next two.
    pub(super) server_now: Timestamp,
    pub(super) asked_at: Timestamp,
    pub(super) received_at: Timestamp,
}

/// A charge as shadows see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Looked {
    pub(super) hash: u64,
    pub(super) quota: Quota,
    pub(super) cost: u64,
    pub(super) enforced: bool,
}

/// The sights of the counters that share a place. What is searched lies together: most searches find nothing.
#[derive(Default)]
struct Set {
    hashes: [u64; WAYS],
    /// When each counter is full again, by the caller's clock: the sight is of no more use.
    ends_at: [Timestamp; WAYS],
    /// As many as the set has, at most [`WAYS`]; the two above belong to them.
    sights: Vec<Sight>,
}

/// What is known of a request before the store is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Foresight {
    /// Nothing that helps: ask.
    Unsure,
    /// The store may deny it now and would not after this wait, if nobody else spends. It is short: as long as it took
    /// to hear from the store. Whoever asks before it may have to ask twice.
    NotYet(Nanos),
    /// The store would deny it.
    Denied(List<Outcome>),
}

/// Longer than this nobody is denied from memory: somebody may have refunded or reset the counter elsewhere.
const LIFE: Nanos = Nanos::from_secs(2);
const WAYS: usize = 8;
const SETS: usize = 65_536 / WAYS;

impl Shadows {
    pub(super) fn new(rates: ClockRates) -> Self {
        let sets = (0..SETS).map(|_| Mutex::default()).collect();
        Self { sets, rates, denials: AtomicU64::new(0) }
    }

    /// Keeps a sight; the shadow nearest to full makes room for it.
    pub(super) fn remember(&self, hash: u64, sight: Sight) {
        let ends_at = sight.ends_at();
        self.set(hash).remember(hash, sight, ends_at);
    }

    /// Drops a sight: the counter was refunded or reset.
    pub(super) fn forget(&self, hash: u64) {
        self.set(hash).forget(hash);
    }

    /// The answers to a request that the store would deny for certain; `None` when it has to be asked.
    pub(super) fn deny(&self, charges: impl IntoIterator<Item = Looked>, now: Timestamp) -> Option<List<Outcome>> {
        match self.foresee(charges, now) {
            Foresight::Denied(outcomes) => Some(outcomes),
            Foresight::Unsure | Foresight::NotYet(_) => None,
        }
    }

    /// What the store would say, as far as that is certain.
    pub(super) fn foresee(&self, charges: impl IntoIterator<Item = Looked>, now: Timestamp) -> Foresight {
        let mut denied = false;
        let mut not_yet = Nanos::ZERO;
        let mut outcomes = List::Empty;
        for charge in charges {
            let Some(view) = self.view(&charge, now) else { return Foresight::Unsure };
            let decide = |cost, now| algorithm::decide(view.state, charge.quota, cost, now).outcome;
            if decide(charge.cost, view.latest).is_allowed() {
                not_yet = not_yet.max(decide(charge.cost, view.earliest).retry_after().unwrap_or(Nanos::ZERO));
                // Not taken when another charge stops the request: it is answered as a look.
                outcomes.push(decide(0, view.earliest));
            } else {
                denied |= charge.enforced;
                outcomes.push(decide(charge.cost, view.earliest));
            }
        }
        match (denied, not_yet) {
            (true, _) => {
                self.denials.fetch_add(1, Ordering::Relaxed);
                Foresight::Denied(outcomes)
            }
            (false, Nanos::ZERO) => Foresight::Unsure,
            (false, wait) => Foresight::NotYet(wait),
        }
    }

    /// The state that a counter was seen in, as it would be by the caller's clock.
    pub(super) fn remembered(&self, hash: u64, quota: Quota, now: Timestamp) -> Option<State> {
        let sight = self.sight(hash).filter(|sight| now >= sight.received_at)?;
        // An instant is a debt under any quota; counts are of windows of one length.
        let state = sight.state.filter(|state| matches!(state, State::Instant(_)) || sight.quota == quota)?;
        let server_now = sight.server_now.after(now.since(sight.received_at));
        Some(moved(state, sight.quota, server_now, now))
    }

    /// Requests that were denied from memory.
    pub(super) fn denials(&self) -> u64 {
        self.denials.load(Ordering::Relaxed)
    }

    fn view(&self, charge: &Looked, now: Timestamp) -> Option<View> {
        let sight = self.sight(charge.hash)?;
        let is_fresh = now >= sight.received_at && now.since(sight.received_at) <= LIFE;
        if !is_fresh || sight.quota != charge.quota {
            return None;
        }
        let (longest, shortest) = (now.since(sight.asked_at), now.since(sight.received_at));
        let drift = |span: Nanos| match self.rates {
            ClockRates::Apart => span.get().div_ceil(1_000),
            ClockRates::Same => 0,
        };
        Some(View {
            state: sight.state,
            latest: sight.server_now.after(Nanos::new(longest.get() + drift(longest))),
            earliest: sight.server_now.after(Nanos::new(shortest.get() - drift(shortest).min(shortest.get()))),
        })
    }

    fn sight(&self, hash: u64) -> Option<Sight> {
        let set = self.set(hash);
        set.place_of(hash).map(|place| set.sights[place])
    }

    fn set(&self, hash: u64) -> MutexGuard<'_, Set> {
        self.sets[hash as usize % SETS].lock().expect("no holder of this lock panics")
    }
}

impl Set {
    fn place_of(&self, hash: u64) -> Option<usize> {
        self.hashes[..self.sights.len()].iter().position(|known| *known == hash)
    }

    fn remember(&mut self, hash: u64, sight: Sight, ends_at: Timestamp) {
        let place = match self.place_of(hash) {
            Some(known) => known,
            None if self.sights.len() < WAYS => {
                self.sights.reserve_exact(WAYS - self.sights.len());
                self.sights.push(sight);
                self.sights.len() - 1
            }
            None => {
                let least = (0..WAYS).min_by_key(|place| self.ends_at[*place]).unwrap_or(0);
                if self.ends_at[least] > ends_at {
                    return;
                }
                least
            }
        };
        self.hashes[place] = hash;
        self.ends_at[place] = ends_at;
        self.sights[place] = sight;
    }

    fn forget(&mut self, hash: u64) {
        let Some(place) = self.place_of(hash) else { return };
        let last = self.sights.len() - 1;
        self.hashes.swap(place, last);
        self.ends_at.swap(place, last);
        self.sights.swap_remove(place);
    }
}

/// A state, and the two instants between which the server's clock is now.
///
/// Whether to deny is asked at the latest, so that no one is denied whom the store would let pass; how long to wait is
/// answered for the earliest, so that no one comes back too early.
struct View {
    state: Option<State>,
    latest: Timestamp,
    earliest: Timestamp,
}

impl Sight {
    fn ends_at(&self) -> Timestamp {
        let reset_after = algorithm::decide(self.state, self.quota, 0, self.server_now).outcome.reset_after();
        self.received_at.after(reset_after)
    }
}

/// A state by one clock as the same state by another.
fn moved(state: State, quota: Quota, from: Timestamp, to: Timestamp) -> State {
    match (state, quota) {
        (State::Instant(packed), Quota::Drip(_)) => {
            // The end in whole milliseconds, with the slack in the digits below, which must stay as they are.
            let slack = packed.as_nanos() % Nanos::MILLISECOND.get();
            let left_ms = packed.as_millis().saturating_sub(from.as_millis());
            State::Instant(Timestamp::from_millis(to.as_millis().saturating_add(left_ms)).after(Nanos::new(slack)))
        }
        (State::Instant(full_at), _) => State::Instant(to.after(full_at.since(from))),
        (State::Windows(windows), quota) => {
            let window_ms = (quota.window().get() / Nanos::MILLISECOND.get()).max(1);
            let index = (windows.index + to.as_millis() / window_ms).saturating_sub(from.as_millis() / window_ms);
            State::Windows(Windows { index, ..windows })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: fn(u64) -> Timestamp = Timestamp::from_millis;

    fn looked(quota: Quota, cost: u64) -> Looked {
        Looked { hash: 1, quota, cost, enforced: true }
    }

    /// Ten a second, two at once, empty at the server's second 100, which was between 5.000 and 5.010 here.
    fn empty() -> (Shadows, Quota) {
        let quota = Quota::from(Quota::per_second(10).burst(2));
        let shadows = Shadows::new(ClockRates::Apart);
        let state = Some(State::Instant(AT(100_200)));
        let sight = Sight { quota, state, server_now: AT(100_000), asked_at: AT(5_000), received_at: AT(5_010) };
        shadows.remember(1, sight);
        (shadows, quota)
    }

    #[test]
    fn denies_exactly_while_the_store_would() {
        let (shadows, quota) = empty();
        assert!(shadows.deny([looked(quota, 1)], AT(5_099)).is_some());
        assert!(shadows.deny([looked(quota, 1)], AT(5_100)).is_none(), "the store may have a unit by now");
        assert!(shadows.deny([looked(quota, 2)], AT(5_199)).is_some());
        assert!(shadows.deny([looked(quota, 2)], AT(5_200)).is_none());
        assert!(shadows.deny([looked(quota, 3)], AT(5_500)).is_some(), "more than it ever holds");
    }

    #[test]
    fn whoever_would_ask_too_early_is_told_to_wait() {
        let (shadows, quota) = empty();
        assert!(matches!(shadows.foresee([looked(quota, 1)], AT(5_099)), Foresight::Denied(_)));
        let Foresight::NotYet(wait) = shadows.foresee([looked(quota, 1)], AT(5_100)) else { panic!("not yet") };
        assert!(wait >= Nanos::from_millis(10) && wait < Nanos::from_millis(11), "received at 5.010: {wait}");
        assert_eq!(shadows.foresee([looked(quota, 1)], AT(5_111)), Foresight::Unsure);
    }

    #[test]
    fn the_wait_it_tells_is_never_too_short() {
        let (shadows, quota) = empty();
        let denied = shadows.deny([looked(quota, 1)], AT(5_050)).expect("denied");
        let wait = denied[0].retry_after().expect("a wait helps");
        assert!(wait >= Nanos::from_millis(60), "received at 5.010, so the unit comes at 5.110 at the latest: {wait}");
        assert!(wait < Nanos::from_millis(61));
    }

    #[test]
    fn a_request_is_denied_from_memory_only_if_all_its_counters_are_known() {
        let (shadows, quota) = empty();
        let unknown = Looked { hash: 2, ..looked(quota, 1) };
        assert!(shadows.deny([looked(quota, 1), unknown], AT(5_050)).is_none());
        let watched = Looked { enforced: false, ..looked(quota, 1) };
        assert!(shadows.deny([watched], AT(5_050)).is_none(), "a limit that only watches stops nobody");
    }

    #[test]
    fn an_old_sight_or_one_of_another_quota_denies_nobody() {
        let quota = Quota::from(Quota::per_minute(1).burst(1));
        let shadows = Shadows::new(ClockRates::Apart);
        let state = Some(State::Instant(AT(160_000)));
        let sight = Sight { quota, state, server_now: AT(100_000), asked_at: AT(5_000), received_at: AT(5_000) };
        shadows.remember(1, sight);
        assert!(shadows.deny([looked(quota, 1)], AT(7_000)).is_some());
        assert!(shadows.deny([looked(quota, 1)], AT(7_001)).is_none(), "two seconds are its life");
        assert!(shadows.deny([looked(quota, 1)], AT(4_999)).is_none(), "the clock went back");
        let other = Quota::from(Quota::per_minute(1).burst(2));
        assert!(shadows.deny([looked(other, 1)], AT(5_001)).is_none());
        shadows.forget(1);
        assert!(shadows.deny([looked(quota, 1)], AT(5_001)).is_none());
    }

    #[test]
    fn a_flood_of_other_keys_does_not_wash_out_who_owes_most() {
        let (shadows, quota) = empty();
        for hash in (0..100 * SETS as u64).step_by(SETS).map(|at| at + 1).skip(1) {
            let state = Some(State::Instant(AT(100_100)));
            let sight = Sight { quota, state, server_now: AT(100_000), asked_at: AT(5_000), received_at: AT(5_010) };
            shadows.remember(hash, sight);
        }
        assert!(shadows.deny([looked(quota, 1)], AT(5_050)).is_some());
    }

    #[test]
    fn a_remembered_state_is_told_by_the_callers_clock() {
        let (shadows, quota) = empty();
        let state = shadows.remembered(1, quota, AT(5_110)).expect("remembered");
        assert_eq!(state, State::Instant(AT(5_210)), "100 ms of the debt are left");
        let reloaded = Quota::from(Quota::per_second(5).burst(2));
        assert_eq!(shadows.remembered(1, reloaded, AT(5_110)), Some(state), "a debt stays one under other numbers");

        let leaky = Quota::leaky_bucket(5, Nanos::SECOND, 2).expect("a quota");
        let packed = State::Instant(AT(103_000).after(Nanos::new(1)));
        assert_eq!(
            moved(packed, leaky, AT(100_000), AT(7_000)),
            State::Instant(AT(10_000).after(Nanos::new(1))),
            "slack kept"
        );
        let sliding = Quota::sliding_window(5, Nanos::SECOND).expect("a quota");
        let windows = Windows { index: 100, previous: 1, current: 2 };
        let there = moved(State::Windows(windows), sliding, AT(100_400), AT(7_400));
        assert_eq!(there, State::Windows(Windows { index: 7, ..windows }));
    }
}
