//! Inspects one counter or explains one request without charging; also resets a counter.

use std::time::{Instant, SystemTime};

use serde_json::{Value, json};
use sluicegate::http::HeaderLines;
use sluicegate::{Engine, FailurePolicy, LocalStore, MonotonicClock};
use sluicegate_config::{Config, counted_in_words, limit_quota_in_words};
use sluicegate_core::{Charge, LimitEffect, MissingReason, Policy, QuotaSource, Subject};
use sluicegate_gate::access::{AccessLists, Ruling};
use sluicegate_gate::admission::automatic_ban_of;
use sluicegate_gate::auth::{Authenticator, Identity};
use sluicegate_gate::charging::{self, Inspection, TermsSource, look};
use sluicegate_gate::overrides::Order;
use sluicegate_gate::store::AnyStore;
use sluicegate_gate::terms::OnBehalf;

use super::explain::{CredentialProblem, ExplainedCaller, Explanation, ListMatch, explain};
use super::{ChangeAuthor, Operator, OperatorError};
use crate::json_request::{RequestDescription, read_description};

impl Operator {
    /// The quota and the state of a counter.
    pub(crate) async fn inspect(
        &self,
        limit: &str,
        parts: &[&str],
    ) -> Result<Value, OperatorError> {
        let snapshot = self.gate.snapshot();
        let charge = named(&snapshot.policy, limit, parts)?;
        let Some(charge) = charge else {
            return Ok(
                json!({ "limit": limit, "key": parts, "quota": null, "text": limit, "capacity": null, "counts": null }),
            );
        };
        let looked = charging::inspect(&self.gate, &snapshot, charge, &OnBehalf::nobody()).await;
        let outcome = looked.outcome.transpose();
        let outcome = outcome.map_err(|error| OperatorError::Away(error.to_string()))?;
        let orders = self.gate.overrides.current();
        Ok(json!({
            "limit": limit, "key": parts, "text": looked.key,
            "quota": looked.quota.map(|quota| limit_quota_in_words(charge.key.limit(), quota)), "quota_from": looked.source.as_str(),
            "capacity": looked.quota.map(|quota| quota.limit()),
            "counts": counted_in_words(&charge.key.limit().counting),
            "remaining": outcome.map(|outcome| outcome.remaining()),
            "reset_after_us": outcome.map(|outcome| outcome.reset_after().as_micros_ceil()),
            "is_degraded": self.gate.engine.is_degraded(),
            "override": orders.of_charge(&charge).map(|(_, order)| order.json()),
        }))
    }

    /// Resets a counter to full.
    pub(crate) async fn reset(
        &self,
        limit: &str,
        parts: &[&str],
        author: &ChangeAuthor,
    ) -> Result<Value, OperatorError> {
        let snapshot = self.gate.snapshot();
        let charge = named(&snapshot.policy, limit, parts)?;
        let text = charge
            .as_ref()
            .map_or_else(|| limit.to_owned(), |charge| charge.key.to_string());
        charging::reset(&self.gate, &snapshot, charge.as_slice())
            .await
            .map_err(|error| OperatorError::Away(error.to_string()))?;
        author.note("reset", &text);
        Ok(json!({ "reset": true, "text": text }))
    }

    /// Explains the decision on a request, under the configuration and the counters of now.
    pub(crate) async fn explain(&self, described: &RequestDescription, cost: u64) -> Explanation {
        let snapshot = self.gate.snapshot();
        let (descriptors, lines) = (described.descriptors(), HeaderLines(&described.headers));
        let identity = identity(&snapshot.auth, described);
        let mut subject = described.subject(&descriptors, &lines);
        if let Identity::Known(principal) = &identity {
            subject.principal = Some(principal);
        }
        let principal = subject.principal.map(|principal| principal.id.as_str());
        let ban = {
            let orders = self.gate.overrides.current();
            let ban = orders.ban_of(subject.client_ip, principal).cloned();
            ban.map(|ban| banned(&ban))
        };
        let automatic = || {
            let ban = automatic_ban_of(&self.gate, &snapshot, &subject);
            ban.map(|ban| banned(&ban))
        };
        let caller = ExplainedCaller {
            principal: principal.map(str::to_owned),
            listed: ban
                .or_else(|| listed(&snapshot.access, &subject))
                .or_else(automatic),
            credential: match &identity {
                Identity::Refused(refusal) => Some(CredentialProblem::Invalid(format!(
                    "{refusal} ({})",
                    refusal.reason
                ))),
                Identity::Unverifiable(missing) => {
                    Some(CredentialProblem::Unverifiable(missing.to_string()))
                }
                Identity::Known(_) | Identity::Anonymous => None,
            },
        };
        let request = OnBehalf {
            subject: Some(&subject),
            headers: described.spelled_headers(),
        };
        let considered = match identity {
            Identity::Refused(_) | Identity::Unverifiable(_) => {
                snapshot.policy.considered_unauthorized(&subject, cost)
            }
            Identity::Known(_) | Identity::Anonymous => snapshot.policy.considered(&subject, cost),
        };
        let mut looked = Vec::with_capacity(considered.len());
        for limit in &considered {
            looked.push(match limit.effect {
                LimitEffect::Charged(charge) => {
                    Some(charging::inspect(&self.gate, &snapshot, charge, &request).await)
                }
                _ => None,
            });
        }
        explain(&considered, looked, snapshot.policy.disabled(), caller)
    }

    /// Asks the store for a value: true when it answers, the error when it does not, and the
    /// microseconds it took.
    pub(crate) async fn ask_store(&self) -> (bool, Option<String>, u64) {
        let asked = Instant::now();
        let answer = match self.gate.engine.store() {
            AnyStore::Local(_) => Ok(()),
            AnyStore::Redis(_) => self.orders.read().await.map(drop),
        };
        let took_us = u64::try_from(asked.elapsed().as_micros()).unwrap_or(u64::MAX);
        (answer.is_ok(), answer.err(), took_us)
    }
}

fn named<'a>(
    policy: &'a Policy,
    limit: &str,
    parts: &'a [&'a str],
) -> Result<Option<Charge<'a>>, OperatorError> {
    policy
        .charge_named(limit, parts, 0)
        .map_err(|missing| match missing.reason {
            MissingReason::UnknownLimit | MissingReason::LimitIsOff => {
                OperatorError::Unknown(missing.to_string())
            }
            _ => OperatorError::Wrong(missing.to_string()),
        })
}

/// The caller by its credentials, unless the description names the principal itself.
fn identity(auth: &Authenticator, described: &RequestDescription) -> Identity {
    match &described.principal {
        None if auth.is_configured() => auth.identity(&described.headers, SystemTime::now()),
        _ => Identity::Anonymous,
    }
}

fn banned(ban: &Order) -> ListMatch {
    let (about, until) = (ban.about(), ban.until());
    ListMatch::Refused(format!(
        "{about} is banned by {} ({}) until {until}",
        ban.by, ban.reason
    ))
}

fn listed(access: &AccessLists, subject: &Subject<'_>) -> Option<ListMatch> {
    let principal = subject.principal.map(|principal| principal.id.as_str());
    access
        .of_caller(subject.client_ip, principal)
        .map(|ruling| match ruling {
            Ruling::Deny => ListMatch::Refused("the caller is on the list access.deny".to_owned()),
            Ruling::Allow => {
                ListMatch::Allowed("the caller is on the list access.allow".to_owned())
            }
        })
}

/// Explains the decision on a request under a configuration that is not in use yet: every counter
/// is full.
///
/// `question` is a request as `/v1/check` takes it, and names its principal itself: credentials are
/// not checked. An error says what is wrong with it.
pub async fn explain_offline(config: Config, question: &[u8]) -> Result<Explanation, String> {
    let (described, cost) = read_description(question)?;
    let Config { policy, access, .. } = config;
    let on_failure = FailurePolicy::default();
    let engine = Engine::new(LocalStore::default(), MonotonicClock::new(), on_failure);
    let (descriptors, lines) = (described.descriptors(), HeaderLines(&described.headers));
    let subject = described.subject(&descriptors, &lines);
    let principal = subject.principal.map(|principal| principal.id.clone());
    let caller = ExplainedCaller {
        principal,
        listed: listed(&AccessLists::new(&access), &subject),
        credential: None,
    };
    let considered = policy.considered(&subject, cost);
    let mut looked = Vec::with_capacity(considered.len());
    for limit in &considered {
        looked.push(match limit.effect {
            LimitEffect::Charged(charge) if charge.awaits_quota() => Some(Inspection {
                quota: None,
                source: TermsSource::ConfigUnasked,
                key: charge.key.to_string(),
                outcome: None,
            }),
            LimitEffect::Charged(charge) => Some(Inspection {
                quota: Some(charge.quota),
                source: match charge.key.limit().quota_from {
                    QuotaSource::Limit => TermsSource::Config,
                    QuotaSource::External => TermsSource::ConfigUnasked,
                },
                key: charge.key.to_string(),
                outcome: Some(look(&engine, charge).await),
            }),
            _ => None,
        });
    }
    Ok(explain(&considered, looked, policy.disabled(), caller))
}
