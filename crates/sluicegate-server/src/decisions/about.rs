//! A question and its answer, whatever protocol it comes in.

use std::fmt;

use http::HeaderMap;
use sluicegate::http::RateLimitLine;
use sluicegate::{ResetError, StoreError, Verdict};
use sluicegate_core::{Decision, MissingKey, Mode, Nanos, Stage, Subject};

use super::{Asking, Desk};
use crate::access::Ruling;
use crate::live::Live;
use crate::telemetry::metrics::DecisionAnswer;

/// What a question is about.
pub(crate) enum About<'a> {
    /// A request: every limit that covers it.
    Request {
        subject: Subject<'a>,
        /// All of them, for whoever passes them on.
        headers: &'a HeaderMap,
    },
    /// One counter, by the name of its limit and its key.
    Counter { limit: &'a str, key: &'a [&'a str] },
}

/// What is answered, whether yes or no.
pub(crate) struct Answer {
    pub(crate) is_allowed: bool,
    /// The wait that makes it pass: zero when it does already, `None` when no wait helps or nobody can say.
    pub(crate) retry_after: Option<Nanos>,
    /// Whether a failure policy decided, because the store is away.
    pub(crate) is_degraded: bool,
    /// What each limit said; `None` when none was asked.
    pub(crate) decision: Option<Decision>,
}

/// Why units or counters could not be given back.
pub(crate) enum GiveBackError {
    /// The question does not say whose.
    Unidentified(MissingKey),
    /// The store is away, and nothing was done.
    Store(StoreError),
}

impl Desk {
    /// Charges what is asked about, all or nothing.
    pub(crate) async fn check(
        &self,
        live: &Live,
        asking: &Asking,
        about: &About<'_>,
        cost: u64,
    ) -> Result<Answer, MissingKey> {
        let answer = self.decide(live, about, cost).await;
        self.count(asking, answer.as_ref());
        if let (Ok(answer), About::Request { subject, .. }) = (&answer, about)
            && !answer.is_allowed
            && live.log_rejections
        {
            self.gate.access_log.rate_limit_line(&RateLimitLine::new(
                subject,
                http::StatusCode::TOO_MANY_REQUESTS,
            ));
        }
        answer
    }

    /// The same with nothing taken: whether so much would pass now, not when it will.
    pub(crate) async fn peek(
        &self,
        live: &Live,
        asking: &Asking,
        about: &About<'_>,
        cost: u64,
    ) -> Result<Answer, MissingKey> {
        let mut answer = self.decide(live, about, 0).await;
        if let Ok(answer) = &mut answer
            && let Some(decision) = &answer.decision
        {
            let mut enforced = decision
                .outcomes()
                .filter(|(limit, _)| limit.mode == Mode::Enforce);
            if enforced.any(|(_, charged)| charged.outcome.remaining() < cost) {
                (answer.is_allowed, answer.retry_after) = (false, None);
            }
        }
        self.count(asking, answer.as_ref());
        answer
    }

    async fn decide(
        &self,
        live: &Live,
        about: &About<'_>,
        cost: u64,
    ) -> Result<Answer, MissingKey> {
        let verdict = match about {
            About::Request { subject, headers } => {
                match self.gate.ruling_of_caller(live, subject) {
                    Some(Ruling::Deny) => return Ok(Answer::no(None)),
                    Some(Ruling::Allow) => return Ok(Answer::yes(None)),
                    None => {
                        self.gate
                            .check(live, Stage::Whole, subject, headers, cost)
                            .await
                            .verdict
                    }
                }
            }
            About::Counter { limit, key } => {
                let charge = live.policy.charge_named(limit, key, cost)?;
                self.gate.decide(live, charge.as_slice()).await
            }
        };
        if let Some(decision) = verdict.decision() {
            live.counts.count(decision);
        }
        Answer::of(verdict)
    }

    /// Gives units of one counter back that were taken `age` ago.
    pub(crate) async fn refund(
        &self,
        live: &Live,
        (limit, key): (&str, &[&str]),
        cost: u64,
        age: Nanos,
    ) -> Result<Answer, GiveBackError> {
        let charge = live
            .policy
            .charge_named(limit, key, cost)
            .map_err(GiveBackError::Unidentified)?;
        match self.gate.give_back(live, charge.as_slice(), age).await {
            Verdict::Unavailable { error, .. } | Verdict::ForwardUnchecked(error) => {
                Err(GiveBackError::Store(error))
            }
            verdict => Answer::of(verdict).map_err(GiveBackError::Unidentified),
        }
    }

    /// Forgets one counter.
    pub(crate) async fn reset(
        &self,
        live: &Live,
        (limit, key): (&str, &[&str]),
    ) -> Result<(), GiveBackError> {
        let charge = live
            .policy
            .charge_named(limit, key, 0)
            .map_err(GiveBackError::Unidentified)?;
        self.gate
            .forget(live, charge.as_slice())
            .await
            .map_err(|error| match error {
                ResetError::Unidentified(missing) => GiveBackError::Unidentified(missing),
                ResetError::Store(error) => GiveBackError::Store(error),
            })
    }

    fn count(&self, asking: &Asking, answer: Result<&Answer, &MissingKey>) {
        let counted = match answer {
            Ok(answer) if answer.is_allowed => DecisionAnswer::Allowed,
            Ok(Answer {
                is_degraded: true,
                decision: None,
                ..
            }) => DecisionAnswer::Unavailable,
            Ok(Answer { decision: None, .. }) => DecisionAnswer::Denied,
            Ok(_) => DecisionAnswer::Limited,
            Err(_) => DecisionAnswer::Refused,
        };
        let decision = answer.ok().and_then(|answer| answer.decision.as_ref());
        asking.answered(&self.gate, counted, decision);
    }
}

impl Answer {
    /// A store that heals is back within a second.
    const UNAVAILABLE_RETRY: Nanos = Nanos::SECOND;

    fn yes(decision: Option<Decision>) -> Self {
        Self {
            is_allowed: true,
            retry_after: Some(Nanos::ZERO),
            is_degraded: false,
            decision,
        }
    }

    fn no(retry_after: Option<Nanos>) -> Self {
        Self {
            is_allowed: false,
            retry_after,
            is_degraded: false,
            decision: None,
        }
    }

    /// What a verdict means to whoever asked.
    pub(crate) fn of(verdict: Verdict) -> Result<Self, MissingKey> {
        Ok(match verdict {
            Verdict::Forward(decision) => Self {
                is_degraded: decision.is_degraded(),
                ..Self::yes(Some(decision))
            },
            Verdict::Reject(decision) => Self {
                is_allowed: false,
                retry_after: decision.retry_after(),
                is_degraded: decision.is_degraded(),
                decision: Some(decision),
            },
            Verdict::ForwardUnchecked(_) => Self {
                is_degraded: true,
                ..Self::yes(None)
            },
            Verdict::Unavailable { .. } => Self {
                is_degraded: true,
                ..Self::no(Some(Self::UNAVAILABLE_RETRY))
            },
            Verdict::Unidentified(missing) => return Err(missing),
        })
    }
}

impl fmt::Display for GiveBackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unidentified(missing) => missing.fmt(f),
            Self::Store(error) => error.fmt(f),
        }
    }
}
