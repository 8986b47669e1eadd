//! Explains what would happen to a request, limit by limit, in words. Nothing is charged.
//!
//! `explained_limit.rs` explains one limit and tells what it means for the request; here the limits
//! come together with lists and credentials to one verdict.

use serde::Serialize;
use sluicegate_core::{ConsideredLimit, Limit, LimitEffect, Nanos};
use sluicegate_gate::charging::Inspection;

use super::duration_words::in_words;
use super::explained_limit::{ExplainedLimit, LimitConsequence, explain_limit};

/// The decision on a request, with its reasons.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    verdict: ExplainedVerdict,
    /// The verdict in one sentence.
    pub summary: String,
    /// The wait after which the request would pass if nobody else spends; `None` when no wait helps
    /// or nobody can say.
    would_pass_after_us: Option<u64>,
    /// The principal that the credential proves or the question names.
    principal: Option<String>,
    /// The reason of the list or ban that names the caller, if any.
    list: Option<String>,
    /// Every limit of the policy, in order, and behind them those that are off.
    pub limits: Vec<ExplainedLimit>,
}

/// The verdict on the request as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum ExplainedVerdict {
    Forward,
    /// A limit is spent.
    Reject,
    /// A ban or a list refuses the caller.
    Refused,
    Unauthorized,
    Unidentified,
    /// The store cannot say, or the keys of tokens are missing.
    Unavailable,
}

/// A caller, as far as lists and credentials know it.
pub(super) struct ExplainedCaller {
    pub(super) principal: Option<String>,
    pub(super) listed: Option<ListMatch>,
    /// The reason why the credential is not accepted.
    pub(super) credential: Option<CredentialProblem>,
}

/// Why a credential is not accepted, in words.
pub(super) enum CredentialProblem {
    /// It is missing or not valid.
    Invalid(String),
    /// Nobody can tell now whether it is valid.
    Unverifiable(String),
}

impl CredentialProblem {
    fn conclusion(&self) -> Conclusion {
        match self {
            Self::Invalid(why) => (
                ExplainedVerdict::Unauthorized,
                format!("It is refused with 401: {why}."),
                None,
            ),
            Self::Unverifiable(why) => (
                ExplainedVerdict::Unavailable,
                format!("It is refused with 503: {why}."),
                None,
            ),
        }
    }
}

/// The list or ban that names a caller, with the reason in words.
pub(super) enum ListMatch {
    /// The caller is never limited.
    Allowed(String),
    /// The caller does not pass.
    Refused(String),
}

/// A verdict, its sentence, and the wait after which the request would pass.
type Conclusion = (ExplainedVerdict, String, Option<Nanos>);

/// Explains a request; `inspections` has one entry per considered limit, `None` where the limit is
/// not charged. The limits in `disabled` are off.
pub(super) fn explain(
    considered: &[ConsideredLimit<'_>],
    inspections: Vec<Option<Inspection>>,
    disabled: &[Limit],
    caller: ExplainedCaller,
) -> Explanation {
    let explained = considered
        .iter()
        .zip(inspections)
        .map(|(considered, inspection)| explain_limit(considered, inspection));
    let (mut limits, consequences): (Vec<ExplainedLimit>, Vec<LimitConsequence>) =
        explained.unzip();
    limits.extend(disabled.iter().map(ExplainedLimit::of_disabled));
    let (verdict, summary, wait) = match (&caller.listed, &caller.credential) {
        (Some(ListMatch::Refused(why)), _) => (
            ExplainedVerdict::Refused,
            format!("It is refused with 403: {why}."),
            None,
        ),
        (Some(ListMatch::Allowed(why)), None) => (
            ExplainedVerdict::Forward,
            format!("It passes without being limited: {why}."),
            Some(Nanos::ZERO),
        ),
        (_, Some(problem)) => match conclude(&consequences) {
            // Limits come first, also for a wrong credential.
            (ExplainedVerdict::Forward, ..) => {
                let (verdict, words, wait) = problem.conclusion();
                let words = format!("{words}{}", guess_in_words(considered));
                (verdict, words, wait)
            }
            refused_before => refused_before,
        },
        (None, None) => conclude(&consequences),
    };
    let list = caller.listed.map(|listed| match listed {
        ListMatch::Allowed(why) | ListMatch::Refused(why) => why,
    });
    Explanation {
        verdict,
        summary,
        would_pass_after_us: wait.map(Nanos::as_micros_ceil),
        principal: caller.principal,
        list,
        limits,
    }
}

/// What a wrong credential costs.
fn guess_in_words(considered: &[ConsideredLimit<'_>]) -> String {
    let charged = considered.iter().filter_map(|limit| match limit.effect {
        LimitEffect::Charged(_) => Some(limit.limit.name.as_str()),
        _ => None,
    });
    match charged.collect::<Vec<_>>()[..] {
        [] => String::new(),
        ref names => format!(
            " It is charged to {} all the same, so that guessing ends with 429.",
            names.join(" and ")
        ),
    }
}

/// The verdict of all limits together. A limit that cannot tell who is asking comes first, then one
/// whose counter cannot be read, then denials.
fn conclude(consequences: &[LimitConsequence]) -> Conclusion {
    let unidentified = consequences
        .iter()
        .find_map(|consequence| match consequence {
            LimitConsequence::Unidentified(why) => Some(why),
            _ => None,
        });
    if let Some(why) = unidentified {
        return (
            ExplainedVerdict::Unidentified,
            format!("It is refused with 400: {why}."),
            None,
        );
    }
    let unknown = consequences
        .iter()
        .find_map(|consequence| match consequence {
            LimitConsequence::Unknown(why) => Some(why),
            _ => None,
        });
    if let Some(why) = unknown {
        let summary = format!(
            "Nobody can say: {why}. What happens then is on_failure of the limit or the store."
        );
        return (ExplainedVerdict::Unavailable, summary, None);
    }
    let denials: Vec<(&str, Option<Nanos>, u16)> = consequences
        .iter()
        .filter_map(|consequence| match consequence {
            LimitConsequence::Denied {
                limit,
                wait,
                status,
            } => Some((limit.as_str(), *wait, *status)),
            _ => None,
        })
        .collect();
    // Of several denials, the first has the say about the response.
    let Some((_, _, status)) = denials.first() else {
        return (
            ExplainedVerdict::Forward,
            "It passes.".to_owned(),
            Some(Nanos::ZERO),
        );
    };
    let names: Vec<&str> = denials.iter().map(|(name, ..)| *name).collect();
    let waits: Option<Vec<Nanos>> = denials.iter().map(|(_, wait, _)| *wait).collect();
    let wait = waits.and_then(|waits| waits.into_iter().max());
    let when = match wait {
        Some(wait) => format!(
            "It would pass in {}, if nobody else spends before",
            in_words(wait)
        ),
        None => "No wait helps: it asks for more than the limit ever holds".to_owned(),
    };
    let names = names.join(" and ");
    let summary = format!("It is refused with {status} by {names}. {when}.");
    (ExplainedVerdict::Reject, summary, wait)
}
