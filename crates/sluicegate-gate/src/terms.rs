//! The terms of a charge: the quota it is taken under, and where that quota comes from.
//!
//! A limit's own quota holds unless the limits service says otherwise about the caller
//! (`ExternalTerms`), and an operator's override comes before both (see `charging.rs`).

use std::sync::{Arc, LazyLock};

use futures_util::future::join_all;
use http::HeaderMap;
use sluicegate_core::{Charge, FailurePolicy, FailureStatus, List, QuotaSource, Subject};
use tokio::time::Instant;

use crate::external::{
    External, ExternalLimits, HeaderSpelling, LimitsLookup, ResolvedLimits, SpelledHeaders,
    TenantPolicy,
};

/// The request that charges are made for, as far as the limits service is told about it.
#[derive(Clone, Copy, Debug)]
pub struct OnBehalf<'a> {
    /// The request, whose caller may have a factor; `None` for a counter that is named.
    pub subject: Option<&'a Subject<'a>>,
    /// All headers; `external` leaves out those that the service must not see.
    pub headers: SpelledHeaders<'a>,
}

impl<'a> OnBehalf<'a> {
    /// The question to the service about the caller of a charge.
    fn question(&self, charge: &Charge<'a>, key: &'a str) -> LimitsLookup<'a> {
        LimitsLookup {
            counter: charge.key,
            key,
            method: self.subject.map_or("", |subject| subject.method),
            path: self.subject.map_or("", |subject| subject.path),
            headers: self.headers,
        }
    }

    /// An answer about the caller of a charge. Its quota is divided by the caller's factor, as that
    /// of the limit itself would be.
    fn scaled(&self, charge: &Charge<'_>, told: Arc<ExternalLimits>) -> Arc<ExternalLimits> {
        let rule = charge.key.limit().factor.as_ref();
        let (Some(rule), Some(subject), Some(quota)) = (rule, self.subject, told.quota) else {
            return told;
        };
        Arc::new(ExternalLimits {
            quota: rule.quota_of(subject.principal, quota),
            ..(*told).clone()
        })
    }
}

impl OnBehalf<'static> {
    /// Stands for a question about a counter, which tells nothing about a request.
    pub fn nobody() -> Self {
        static NO_HEADERS: LazyLock<HeaderMap> = LazyLock::new(HeaderMap::new);
        Self {
            subject: None,
            headers: SpelledHeaders {
                lines: &NO_HEADERS,
                spelling: HeaderSpelling::LowerCase,
            },
        }
    }
}

/// The answers of the limits service to a list of charges.
pub(crate) struct ExternalTerms {
    /// One per charge in their order; `None` where the limit's own quota holds.
    answers: List<Option<Arc<ExternalLimits>>>,
    /// The status of refusals where neither the answer nor the limit has one.
    failure_status: FailureStatus,
}

/// A charge under the terms that hold for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TermedCharge<'a> {
    pub(crate) charge: Charge<'a>,
    /// False when nothing limits the caller; the quota of the charge then has no meaning.
    pub(crate) is_limited: bool,
}

impl<'a> TermedCharge<'a> {
    /// A charge under its limit's own quota, if the limit has one.
    pub(crate) fn of_limit(charge: Charge<'a>) -> Self {
        Self {
            charge,
            is_limited: !charge.awaits_quota(),
        }
    }
}

impl ExternalTerms {
    /// The terms of one charge whose limit asks no service.
    pub(crate) fn of_limit() -> Self {
        Self {
            answers: List::One(None),
            failure_status: FailureStatus::default(),
        }
    }

    /// The answer about the charge at `index`.
    pub(crate) fn at(&self, index: usize) -> Option<&ExternalLimits> {
        self.answers.get(index)?.as_deref()
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
                    let known = external.resolve_cached(&request.question(charge, &key), now)?;
                    of_known(known).map(|told| request.scaled(charge, told))
                }
            });
        }
        Some(Self {
            answers: told,
            failure_status: external.failure_status(),
        })
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
            let known = external.resolve(request.question(charge, &key)).await;
            of_known(known).map(|told| request.scaled(charge, told))
        };
        Self {
            answers: match charges {
                [charge] => List::One(ask(charge).await),
                charges => List::Many(join_all(charges.iter().map(ask)).await),
            },
            failure_status: external.failure_status(),
        }
    }

    /// The charge at `index` under what the service said about its caller.
    pub(crate) fn of_charge<'a>(&'a self, index: usize, charge: Charge<'a>) -> TermedCharge<'a> {
        self.under(charge, self.at(index))
    }

    fn under<'a>(
        &self,
        mut charge: Charge<'a>,
        told: Option<&'a ExternalLimits>,
    ) -> TermedCharge<'a> {
        let Some(told) = told else {
            return TermedCharge::of_limit(charge);
        };
        if let Some(quota) = told.quota {
            charge.quota = quota;
        }
        if let Some(tenant) = &told.tenant {
            charge.key = charge.key.of_tenant(tenant);
        }
        charge.on_failure = self.on_failure(&charge, told);
        TermedCharge {
            charge,
            is_limited: told.quota.is_some(),
        }
    }

    /// The failure policy of a charge: the answer's before the limit's. The status of `closed` is
    /// that of the answer, else that of the limit, else that of the store.
    fn on_failure(&self, charge: &Charge<'_>, told: &ExternalLimits) -> Option<FailurePolicy> {
        let configured = match charge.on_failure {
            Some(FailurePolicy::Closed(status)) => status,
            _ => self.failure_status,
        };
        let closed = FailurePolicy::Closed(told.failure_status.unwrap_or(configured));
        match (told.on_failure, charge.on_failure) {
            (Some(TenantPolicy::Open), _) => Some(FailurePolicy::Open),
            (Some(TenantPolicy::Local), _) => Some(FailurePolicy::Local),
            (Some(TenantPolicy::Closed), _) | (None, Some(FailurePolicy::Closed(_))) => {
                Some(closed)
            }
            (None, own) => own,
        }
    }

    /// The first answer that names a server or a timeout for the caller's requests.
    pub fn routing(&self) -> Option<Arc<ExternalLimits>> {
        let says_more =
            |told: &&Arc<ExternalLimits>| told.backend.is_some() || told.request_timeout.is_some();
        self.answers.iter().flatten().find(says_more).cloned()
    }
}

fn of_known(known: ResolvedLimits) -> Option<Arc<ExternalLimits>> {
    match known {
        ResolvedLimits::External(told) => Some(told),
        ResolvedLimits::Configured => None,
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_core::{Draw, Factor, FactorRule, Key, Limit, Principal, Quota};

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
        Charge {
            quota: limit.quota.unwrap(),
            ..charge_under(limit, parts)
        }
    }

    /// A charge whose quota is not that of its limit.
    fn charge_under<'a>(limit: &'a Limit, parts: &'a [&'a str]) -> Charge<'a> {
        Charge {
            key: Key::of_parts(limit, parts).unwrap(),
            quota: Quota::per_second(1).into(),
            cost: 3,
            draw: Draw::Take,
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

    /// Terms of a store whose own status is 599.
    fn terms(answers: List<Option<Arc<ExternalLimits>>>) -> ExternalTerms {
        ExternalTerms {
            answers,
            failure_status: status(599),
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
        let asked = terms(List::One(Some(Arc::new(ExternalLimits {
            tenant: Some("acme".to_owned()),
            on_failure: Some(TenantPolicy::Closed),
            failure_status: Some(status(429)),
            ..told(Some(quota))
        }))));
        let under = asked.of_charge(0, own);
        assert!(under.is_limited);
        let under = under.charge;
        assert_eq!(
            (under.quota, under.cost, under.key.to_string()),
            (quota, 3, "l:!tenant:acme".to_owned())
        );
        assert_eq!(under.on_failure, Some(FailurePolicy::Closed(status(429))));
    }

    #[test]
    fn the_factor_of_a_caller_divides_what_the_service_says() {
        let rule = FactorRule::new("rate_factor", Factor::new(2.0).unwrap());
        let limit = limit_from_outside().factor(rule);
        let own = charge(&limit, &["203.0.113.7"]);
        let quota = Quota::from(Quota::per_second(9).burst(12));
        let burst = |claim: Option<&str>| {
            let principal = claim.map(|claim| Principal::new("ann").claim("rate_factor", claim));
            let subject = Subject {
                principal: principal.as_ref(),
                ..Subject::ANONYMOUS
            };
            let request = OnBehalf {
                subject: Some(&subject),
                ..OnBehalf::nobody()
            };
            let told = request.scaled(&own, Arc::new(told(Some(quota))));
            told.quota.map(|quota| quota.limit())
        };
        assert_eq!(burst(None), Some(6), "the default");
        assert_eq!(burst(Some("4")), Some(3));
        assert_eq!(burst(Some("0.5")), Some(24));
        assert_eq!(burst(Some("0")), None);
        let named = OnBehalf::nobody().scaled(&own, Arc::new(told(Some(quota))));
        assert_eq!(
            named.quota,
            Some(quota),
            "a counter that is named has no caller"
        );
        let unlimited = OnBehalf::nobody().scaled(&own, Arc::new(told(None)));
        assert_eq!(unlimited.quota, None);
    }

    #[test]
    fn whoever_is_not_limited_is_not_charged() {
        let limit = limit_from_outside();
        let charges = [
            charge(&limit, &["203.0.113.7"]),
            charge(&limit, &["203.0.113.8"]),
        ];
        let asked = terms(List::Many(vec![Some(Arc::new(told(None))), None]));
        let under = [0, 1].map(|index| asked.of_charge(index, charges[index]));
        assert_eq!(under.map(|under| under.is_limited), [false, true]);
        assert_eq!(under.map(|under| under.charge.cost), [3, 3]);
    }

    #[test]
    fn a_code_alone_changes_no_policy() {
        let limit = limit_from_outside();
        let own = charge(&limit, &["203.0.113.7"]);
        let said = ExternalLimits {
            failure_status: Some(status(429)),
            ..told(Some(own.quota))
        };
        let terms = terms(List::Empty);
        let policy = |charge, told| terms.under(charge, told).charge.on_failure;
        assert_eq!(policy(own, Some(&said)), Some(FailurePolicy::Open));
        let closed = Charge {
            on_failure: Some(FailurePolicy::Closed(status(503))),
            ..own
        };
        assert_eq!(
            policy(closed, Some(&said)),
            Some(FailurePolicy::Closed(status(429)))
        );
        assert_eq!(
            policy(closed, None),
            Some(FailurePolicy::Closed(status(503)))
        );
    }

    #[test]
    fn a_closed_tenant_without_a_code_gets_the_configured_status() {
        let limit = limit_from_outside();
        let own = charge(&limit, &["203.0.113.7"]);
        let said = ExternalLimits {
            on_failure: Some(TenantPolicy::Closed),
            ..told(Some(own.quota))
        };
        let status_under = |on_failure| {
            let charge = Charge { on_failure, ..own };
            terms(List::Empty)
                .under(charge, Some(&said))
                .charge
                .on_failure
        };
        assert_eq!(
            status_under(Some(FailurePolicy::Closed(status(418)))),
            Some(FailurePolicy::Closed(status(418))),
            "the limit's"
        );
        for of_limit in [None, Some(FailurePolicy::Open), Some(FailurePolicy::Local)] {
            assert_eq!(
                status_under(of_limit),
                Some(FailurePolicy::Closed(status(599))),
                "the store's"
            );
        }
    }

    #[test]
    fn a_limit_without_a_quota_of_its_own_is_limited_by_the_answer_alone() {
        let limit = Limit {
            quota: None,
            ..limit_from_outside()
        };
        let parts = ["203.0.113.7"];
        let own = Charge {
            quota: Quota::per_second(1_000_000).into(),
            ..charge_under(&limit, &parts)
        };
        assert!(own.awaits_quota());
        let quota = Quota::from(Quota::per_second(9).burst(9));
        let answered = terms(List::One(Some(Arc::new(told(Some(quota))))));
        let under = answered.of_charge(0, own);
        assert_eq!((under.is_limited, under.charge.quota), (true, quota));
        let unanswered = terms(List::One(None));
        assert!(!unanswered.of_charge(0, own).is_limited);
    }
}
