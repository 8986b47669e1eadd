//! A service and a Redis in memory, for tests with a paused clock.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};

use sluicegate::StoreError;
use sluicegate_core::Nanos;
use tokio::time::Instant;

use super::error::CallError;
use super::lifetime::CacheLifetime;
use super::reply::ServiceReply;
use super::request::LimitsRequest;

/// A reply that may take a while.
pub(super) type ReplyFuture =
    Pin<Box<dyn Future<Output = Result<(ServiceReply, CacheLifetime), CallError>> + Send>>;

/// The reply to a call, by the number of the call from 0.
type ReplyFn = dyn Fn(usize, &LimitsRequest) -> ReplyFuture + Send + Sync;

/// Replies as a test says, and counts the calls.
#[derive(Clone)]
pub(super) struct FakeService(Arc<FakeServiceState>);

struct FakeServiceState {
    reply: Box<ReplyFn>,
    calls: AtomicUsize,
    under_way: AtomicUsize,
    most_under_way: AtomicUsize,
}

impl FakeService {
    /// `reply` is given the number of the call, from 0.
    pub(super) fn new(
        reply: impl Fn(usize, &LimitsRequest) -> ReplyFuture + Send + Sync + 'static,
    ) -> Self {
        let reply = Box::new(reply);
        let (calls, under_way, most_under_way) = Default::default();
        Self(Arc::new(FakeServiceState {
            reply,
            calls,
            under_way,
            most_under_way,
        }))
    }

    pub(super) async fn call(
        &self,
        request: &LimitsRequest,
    ) -> Result<(ServiceReply, CacheLifetime), CallError> {
        struct ActiveCallGuard<'a>(&'a AtomicUsize);
        impl Drop for ActiveCallGuard<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, SeqCst);
            }
        }
        let number = self.0.calls.fetch_add(1, SeqCst);
        let now_under_way = self.0.under_way.fetch_add(1, SeqCst) + 1;
        let _leaving = ActiveCallGuard(&self.0.under_way);
        self.0.most_under_way.fetch_max(now_under_way, SeqCst);
        (self.0.reply)(number, request).await
    }

    /// The number of calls so far.
    pub(super) fn calls(&self) -> usize {
        self.0.calls.load(SeqCst)
    }

    /// The most calls that ran at the same time.
    pub(super) fn most_under_way(&self) -> usize {
        self.0.most_under_way.load(SeqCst)
    }
}

/// Values with a lifetime; while it is away, reads fail.
#[derive(Clone, Default)]
pub(super) struct FakeRedis(Arc<Mutex<FakeRedisValues>>);

#[derive(Default)]
struct FakeRedisValues {
    kept: HashMap<String, (Vec<u8>, Instant)>,
    is_away: bool,
}

impl FakeRedis {
    /// Returns true when nothing was ever written.
    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().unwrap().kept.is_empty()
    }

    /// Makes reads fail, or succeed again.
    pub(super) fn set_away(&self, is_away: bool) {
        self.0.lock().unwrap().is_away = is_away;
    }

    pub(super) fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let values = self.0.lock().unwrap();
        let value = values
            .kept
            .get(name)
            .filter(|(_, until)| Instant::now() < *until);
        if values.is_away {
            Err(StoreError::TimedOut)
        } else {
            Ok(value.map(|(value, _)| value.clone()))
        }
    }

    pub(super) fn put(&self, name: &str, value: Vec<u8>, ttl: Nanos) -> Result<(), StoreError> {
        self.0
            .lock()
            .unwrap()
            .kept
            .insert(name.to_owned(), (value, Instant::now() + ttl.into()));
        Ok(())
    }
}
