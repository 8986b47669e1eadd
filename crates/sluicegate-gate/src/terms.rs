//! The terms of a charge: the quota it is taken under, and where that quota comes from.
//!
//! A limit's own quota holds unless the limits service says otherwise about the caller
//! (`ExternalTerms`), and an operator's override comes before both (see `charging.rs`).

use std::sync::{Arc, LazyLock};

use futures_util::future::join_all;
use http::HeaderMap;
use sluicegate_core::{Charge, FailurePolicy, List, QuotaSource};
use tokio::time::Instant;

use crate::external::{External, ExternalLimits, LimitsLookup, ResolvedLimits};

/// The request that charges are made for, as far as the limits service is told about it.
#[derive(Clone, Copy, Debug)]
pub struct OnBehalf<'a> {
    /// The method; empty when nothing is known about the request.
    pub method: &'a str,
    /// The normalized path; empty when nothing is known about the request.
    pub path: &'a str,
    /// All headers; `external` leaves out those that the service must not see.
    pub headers: &'a HeaderMap,
}

impl<'a> OnBehalf<'a> {
    /// The question to the service about the caller of a charge.
    fn question(&self, charge: &Charge<'a>, key: &'a str) -> LimitsLookup<'a> {
        let Self {
            method,
            path,
            headers,
        } = *self;
        LimitsLookup {
            limit: &charge.key.limit().name,
            key,
            method,
            path,
            headers,
        }
    }
}

impl OnBehalf<'static> {
    /// Stands for a question about a counter, which tells nothing about a request.
    pub fn nobody() -> Self {
        static NO_HEADERS: LazyLock<HeaderMap> = LazyLock::new(HeaderMap::new);
        Self {
            method: "",
            path: "",
            headers: &NO_HEADERS,
        }
    }
}

/// The answers of the limits service to a list of charges, one per charge in their order; `None`
/// where the limit's own quota holds.
pub(crate) struct ExternalTerms(List<Option<Arc<ExternalLimits>>>);

impl ExternalTerms {
    /// The terms of one charge whose limit asks no service.
    pub(crate) fn of_limit() -> Self {
        Self(List::One(None))
    }

    /// The answer about the charge at `index`.
    pub(crate) fn at(&self, index: usize) -> Option<&ExternalLimits> {
        self.0.get(index)?.as_deref()
    }

    /// The answers that this process remembers; `None` when it has to ask for one of them.
    pub(crate) fn remembered(
        external: &External,
        charges: &[Charge<'_>],
        request: &OnBehalf<'_>,
    ) -> Option<Self> {
        let now = Instant::now();
        let mut told = List::Empty;
        for charge in charges {
            told.push(match charge.key.limit().quota_from {
                QuotaSource::Limit => None,
                QuotaSource::External => {
                    let key = charge.key.caller();
                    of_known(external.resolve_cached(&request.question(charge, &key), now)?)
                }
            });
        }
        Some(Self(told))
    }

    /// Asks about all charges at the same time: together they take no longer than the slowest.
    pub(crate) async fn ask(
        external: &External,
        charges: &[Charge<'_>],
        request: &OnBehalf<'_>,
    ) -> Self {
        let ask = async |charge: &Charge<'_>| {
            if charge.key.limit().quota_from == QuotaSource::Limit {
                return None;
            }
            let key = charge.key.caller();
            of_known(external.resolve(request.question(charge, &key)).await)
        };
        Self(match charges {
            [charge] => List::One(ask(charge).await),
            charges => List::Many(join_all(charges.iter().map(ask)).await),
        })
    }

    /// The charges under these terms, without those that are not limited.
    pub(crate) fn limited<'a>(&'a self, charges: &[Charge<'a>]) -> List<Charge<'a>> {
        let charges = charges.iter().zip(self.0.iter());
        let is_limited = |told: &Option<Arc<ExternalLimits>>| {
            told.as_ref().is_none_or(|told| told.quota.is_some())
        };
        charges
            .filter(|(_, told)| is_limited(told))
            .map(|(charge, told)| under(*charge, told.as_deref()))
            .collect()
    }

    /// The charges under these terms, one for each; one that is not limited costs nothing.
    pub(crate) fn each<'a>(&'a self, charges: &[Charge<'a>]) -> List<Charge<'a>> {
        charges
            .iter()
            .zip(self.0.iter())
            .map(|(charge, told)| under(*charge, told.as_deref()))
            .collect()
    }

    /// The first answer that names a server or a timeout for the caller's requests.
    pub fn routing(&self) -> Option<Arc<ExternalLimits>> {
        let says_more =
            |told: &&Arc<ExternalLimits>| told.backend.is_some() || told.request_timeout.is_some();
        self.0.iter().flatten().find(says_more).cloned()
    }
}

fn of_known(known: ResolvedLimits) -> Option<Arc<ExternalLimits>> {
    match known {
        ResolvedLimits::External(told) => Some(told),
        ResolvedLimits::Configured => None,
    }
}

/// The charge under what the service said about its caller.
pub(crate) fn under<'a>(mut charge: Charge<'a>, told: Option<&'a ExternalLimits>) -> Charge<'a> {
    let Some(told) = told else { return charge };
    match told.quota {
        Some(quota) => charge.quota = quota,
        None => charge.cost = 0,
    }
    if let Some(tenant) = &told.tenant {
        charge.key = charge.key.of_tenant(tenant);
    }
    charge.on_failure = told.on_failure.or(charge.on_failure);
    if let (Some(FailurePolicy::Closed(status)), Some(own)) =
        (&mut charge.on_failure, told.failure_status)
    {
        *status = own;
    }
    charge
}

#[cfg(test)]
mod tests {
    use sluicegate_core::{FailureStatus, Key, Limit, Quota};

    use super::*;

    fn told(quota: Option<Quota>) -> ExternalLimits {
        ExternalLimits {
            quota,
            tenant: None,
            on_failure: None,
            failure_status: None,
            backend: None,
            request_timeout: None,
            is_stale: false,
        }
    }

    fn charge<'a>(limit: &'a Limit, parts: &'a [&'a str]) -> Charge<'a> {
        let key = Key::of_parts(limit, parts).unwrap();
        let quota = limit.quota.unwrap();
        Charge {
            key,
            quota,
            cost: 3,
            limit_index: 0,
            enforced: true,
            on_failure: Some(FailurePolicy::Open),
        }
    }

    fn limit_from_outside() -> Limit {
        Limit {
            quota_from: QuotaSource::External,
            ..Limit::per_client("l", Quota::per_second(1))
        }
    }

    fn status(code: u16) -> FailureStatus {
        FailureStatus::new(code).unwrap()
    }

    #[test]
    fn what_was_said_takes_the_place_of_the_limits_own() {
        let limit = limit_from_outside();
        let own = charge(&limit, &["203.0.113.7"]);
        let quota = Quota::from(Quota::per_second(9).burst(9));
        let asked = ExternalTerms(List::One(Some(Arc::new(ExternalLimits {
            tenant: Some("acme".to_owned()),
            on_failure: Some(FailurePolicy::Closed(status(503))),
            failure_status: Some(status(429)),
            ..told(Some(quota))
        }))));
        let charges = [own];
        let [under] = &asked.limited(&charges)[..] else {
            panic!("one charge")
        };
        assert_eq!(
            (under.quota, under.cost, under.key.to_string()),
            (quota, 3, "l:!tenant:acme".to_owned())
        );
        assert_eq!(under.on_failure, Some(FailurePolicy::Closed(status(429))));
    }

    #[test]
    fn whoever_is_not_limited_is_not_charged() {
        let limit = limit_from_outside();
        let charges = [
            charge(&limit, &["203.0.113.7"]),
            charge(&limit, &["203.0.113.8"]),
        ];
        let asked = ExternalTerms(List::Many(vec![Some(Arc::new(told(None))), None]));
        let limited = asked.limited(&charges);
        assert_eq!(
            limited
                .iter()
                .map(|charge| charge.key.to_string())
                .collect::<Vec<_>>(),
            ["l:203.0.113.8"]
        );
        let each = asked.each(&charges);
        assert_eq!(
            [each[0].cost, each[1].cost],
            [0, 3],
            "in its place, and looked at only"
        );
    }

    #[test]
    fn a_code_alone_changes_no_policy() {
        let limit = limit_from_outside();
        let own = charge(&limit, &["203.0.113.7"]);
        let said = ExternalLimits {
            failure_status: Some(status(429)),
            ..told(Some(own.quota))
        };
        assert_eq!(
            under(own, Some(&said)).on_failure,
            Some(FailurePolicy::Open)
        );
        let closed = Charge {
            on_failure: Some(FailurePolicy::Closed(status(503))),
            ..own
        };
        assert_eq!(
            under(closed, Some(&said)).on_failure,
            Some(FailurePolicy::Closed(status(429)))
        );
        assert_eq!(
            under(closed, None).on_failure,
            Some(FailurePolicy::Closed(status(503)))
        );
    }
}
