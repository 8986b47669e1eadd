//! The task that fetches keys: at the start, at intervals, after failures sooner, and on demand.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::time::{Instant, sleep_until};

use super::fetch::{FetchError, KeyService, KeysResponse};
use super::{FetchProgress, FetchedKeys, KeysSetup, KeysState, RemoteKeys};
use crate::auth::jwks::KeySet;
use crate::telemetry::Metrics;
use crate::telemetry::metrics::KeyFetchResult;

/// The least time between two planned fetches, whatever a response asks for.
const REFRESH_MIN: Duration = Duration::from_secs(30);
/// The most time between two planned fetches.
const REFRESH_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// The wait after the first failure; it doubles with each further one.
const RETRY_MIN: Duration = Duration::from_secs(1);
/// The longest wait after a failure.
const RETRY_MAX: Duration = Duration::from_secs(30);

/// Fetches keys for as long as it is polled.
pub(super) struct KeysFollower {
    setup: KeysSetup,
    service: KeyService,
    state: Arc<KeysState>,
    metrics: Option<Arc<Metrics>>,
    /// Failures in a row.
    failures: u32,
    /// The failure that the log has told last; `None` after a good fetch.
    told_failure: Option<String>,
    /// The log has told that the keys are too old.
    has_told_age: bool,
}

impl KeysFollower {
    pub(super) fn new(keys: &RemoteKeys, metrics: Option<Arc<Metrics>>) -> Self {
        Self {
            setup: keys.setup.clone(),
            service: keys.service.clone(),
            state: Arc::clone(&keys.state),
            metrics,
            failures: 0,
            told_failure: None,
            has_told_age: false,
        }
    }

    /// Fetches and waits, again and again.
    pub(super) async fn run(mut self) {
        loop {
            let fetched = self.service.fetch(self.setup.url.timeout.into()).await;
            let used = fetched.and_then(|response| self.use_response(&response));
            let (result, wait) = match &used {
                Ok((result, wait)) => (*result, *wait),
                Err(error) => (error.result(), self.note_failure(error)),
            };
            if let Some(metrics) = &self.metrics {
                metrics.keys_fetched(result);
            }
            let next_at = Instant::now() + wait;
            self.state.progress.send_modify(|progress| {
                progress.finished += 1;
                progress.is_pending = false;
                progress.next_at = next_at;
                progress.error = used.err().map(|error| error.to_string());
            });
            self.wait_until(next_at).await;
            let begin = |progress: &mut FetchProgress| progress.is_pending = true;
            self.state.progress.send_modify(begin);
        }
    }

    /// Puts the keys of a response in force, and returns the time until the next fetch.
    fn use_response(
        &mut self,
        response: &KeysResponse,
    ) -> Result<(KeyFetchResult, Duration), FetchError> {
        let digest = Sha256::digest(&response.body).into();
        let last = self.state.keys.load_full();
        let unchanged = last.as_ref().filter(|last| last.digest == digest);
        let (result, set) = match unchanged {
            Some(last) => (KeyFetchResult::Unchanged, Arc::clone(&last.set)),
            None => {
                let set = KeySet::from_response(&response.body, &self.setup.algorithms)
                    .map_err(FetchError::Invalid)?;
                (KeyFetchResult::Changed, Arc::new(set))
            }
        };
        self.note_success(result, &set);
        self.state.keys.store(Some(Arc::new(FetchedKeys {
            set,
            fetched_at: Instant::now(),
            digest,
        })));
        let refresh = self.setup.url.refresh.into();
        Ok((result, refresh_after(refresh, response.max_age, random())))
    }

    fn note_success(&mut self, result: KeyFetchResult, set: &KeySet) {
        let url = self.setup.url.shown();
        let has_failed = self.told_failure.take().is_some();
        (self.failures, self.has_told_age) = (0, false);
        if result == KeyFetchResult::Changed {
            let (keys, skipped) = (set.len(), set.skipped);
            tracing::info!(
                url,
                keys,
                skipped,
                "new keys of tokens were fetched and are in force"
            );
        } else if has_failed {
            tracing::info!(url, "the keys of tokens can be fetched again");
        }
    }

    /// Logs a failure unless it is the same as the last one, and returns the time until the next
    /// attempt.
    fn note_failure(&mut self, error: &FetchError) -> Duration {
        self.failures = self.failures.saturating_add(1);
        let (url, error) = (self.setup.url.shown(), error.to_string());
        if self.told_failure.as_ref() != Some(&error) {
            match self.state.keys.load().is_some() {
                true => tracing::warn!(
                    url,
                    error,
                    "the keys of tokens cannot be fetched, the last ones stay in force"
                ),
                false => tracing::warn!(
                    url,
                    error,
                    "the keys of tokens cannot be fetched, requests with a token get 503"
                ),
            }
            self.told_failure = Some(error);
        }
        retry_after(self.failures, self.setup.url.refresh.into(), random())
    }

    /// Waits for the time of the next fetch, or until somebody asks for one. Keys that become too
    /// old meanwhile are told once.
    async fn wait_until(&mut self, next_at: Instant) {
        let mut progress = self.state.progress.subscribe();
        loop {
            let keys = self.state.keys.load_full();
            let fetched_at = keys.filter(|_| !self.has_told_age);
            let too_old_at =
                fetched_at.map(|keys| keys.fetched_at + Duration::from(self.setup.url.max_stale));
            tokio::select! {
                () = sleep_until(next_at) => return,
                _ = progress.wait_for(|progress| progress.is_pending) => return,
                () = sleep_until(too_old_at.unwrap_or(next_at)), if too_old_at.is_some() => {
                    self.has_told_age = true;
                    tracing::error!(
                        url = self.setup.url.shown(),
                        max_stale = %self.setup.url.max_stale,
                        "the keys of tokens are too old, requests with a token get 503"
                    );
                }
            }
        }
    }
}

/// The time until the next planned fetch: `refresh`, or `max_age` where that is shorter; up to a
/// tenth less, so that replicas do not fetch together. `random` is any number.
pub(super) fn refresh_after(refresh: Duration, max_age: Option<u64>, random: u64) -> Duration {
    let max_age = max_age.map_or(REFRESH_MAX, Duration::from_secs);
    let wait = refresh.min(max_age).clamp(REFRESH_MIN, REFRESH_MAX);
    jittered(wait, random).max(REFRESH_MIN)
}

/// The time until the next attempt after so many failures in a row.
pub(super) fn retry_after(failures: u32, refresh: Duration, random: u64) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let wait = RETRY_MIN.saturating_mul(1 << doublings);
    jittered(wait.min(RETRY_MAX).min(refresh), random)
}

/// Up to a tenth less.
fn jittered(wait: Duration, random: u64) -> Duration {
    const STEPS: u32 = 1_000;
    let step = u32::try_from(random % u64::from(STEPS)).expect("less than a thousand");
    wait - wait / 10 / STEPS * step
}

/// A random number, from the keys that the standard library seeds its hash maps with.
fn random() -> u64 {
    RandomState::new().hash_one(0)
}
