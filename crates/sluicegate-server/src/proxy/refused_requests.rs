//! Requests that are refused before any limit is asked still cost something: each client address
//! has a quota of them, counted in this process.
//!
//! A limit could not count them, because a request that servers read differently belongs to no
//! limit for certain. Without a quota, garbage would be the cheapest way to keep the proxy busy.

use std::net::IpAddr;
use std::sync::Arc;

use http::StatusCode;
use http::header::RETRY_AFTER;
use sluicegate::{KeyedLimiter, LocalOptions};
use sluicegate_core::Quota;
use sluicegate_core::address::Prefixes;
use sluicegate_net::HttpResponse;

/// The refused requests of each client address.
pub(super) struct RefusedRequests {
    quota: Quota,
    prefixes: Prefixes,
    limiter: KeyedLimiter<IpAddr>,
}

impl RefusedRequests {
    /// Addresses that are told apart; beyond them, the ones that owe least make room.
    const ADDRESSES_MAX: usize = 16_384;

    /// The counters for a quota: those in force where nothing about them has changed.
    pub(super) fn new(
        quota: Option<Quota>,
        prefixes: Prefixes,
        in_force: Option<&Arc<Self>>,
    ) -> Option<Arc<Self>> {
        let quota = quota?;
        let is_same = |own: &&Arc<Self>| own.quota == quota && own.prefixes == prefixes;
        if let Some(own) = in_force.filter(is_same) {
            return Some(Arc::clone(own));
        }
        let options = LocalOptions {
            max_keys: Self::ADDRESSES_MAX,
            ..LocalOptions::default()
        };
        Some(Arc::new(Self {
            quota,
            prefixes,
            limiter: KeyedLimiter::new(quota, options),
        }))
    }

    /// Counts a refused request; when the client has had too many, the response that tells it so.
    /// That closes the connection: the next request would have to be read as well.
    pub(super) fn count(&self, client: IpAddr) -> Result<(), TooManyRefused> {
        let outcome = self.limiter.check(&self.prefixes.mask(client), 1);
        match outcome.is_allowed() {
            true => Ok(()),
            false => Err(TooManyRefused {
                retry_secs: outcome
                    .retry_after()
                    .map_or(1, |wait| wait.as_secs_ceil().max(1)),
            }),
        }
    }
}

/// A client has sent too many requests that were refused.
pub(super) struct TooManyRefused {
    retry_secs: u64,
}

impl TooManyRefused {
    /// The response, in place of one that says what is wrong with the request.
    pub(super) fn answer(&self) -> HttpResponse<bytes::Bytes> {
        let mut answer = HttpResponse::plain_text(
            StatusCode::TOO_MANY_REQUESTS,
            "Too Many Requests".to_owned(),
        );
        answer.lines.append(&RETRY_AFTER, |text| {
            text.extend_from_slice(self.retry_secs.to_string().as_bytes());
        });
        answer.closes = true;
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_network_has_a_quota_that_a_reload_keeps() {
        let quota = Some(Quota::new(1, sluicegate_core::Nanos::MINUTE, 2).unwrap());
        let prefixes = Prefixes::default();
        let refused = RefusedRequests::new(quota, prefixes, None).unwrap();
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        assert!(refused.count(address("2001:db8::1")).is_ok());
        assert!(refused.count(address("2001:db8::2")).is_ok());
        let reloaded = RefusedRequests::new(quota, prefixes, Some(&refused)).unwrap();
        let answer = reloaded
            .count(address("2001:db8::3"))
            .err()
            .unwrap()
            .answer();
        assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
        assert!(answer.closes);
        assert!(
            reloaded.count(address("203.0.113.7")).is_ok(),
            "somebody else"
        );
        let other = Some(Quota::per_second(5).into());
        let other = RefusedRequests::new(other, prefixes, Some(&refused)).unwrap();
        assert!(other.count(address("2001:db8::3")).is_ok(), "another quota");
        assert!(RefusedRequests::new(None, prefixes, Some(&refused)).is_none());
    }
}
