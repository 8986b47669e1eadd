//! The header lines of a limit, written once when its policy is known.
//!
//! Most requests meet one limit with a quota that stays as it is. Then only three numbers differ from
//! response to response: the units left and two times. [`PreparedLines`] has the text between them
//! ready.
//!
//! **Invariant:** what is filled in here is what [`ResponseHeaders`] writes without it, to the byte.

use std::sync::Arc;

use http::header::HeaderName;
use sluicegate_core::{Decision, Limit, LimitOutcome, Mode, Policy, Quota};

use super::{
    RATELIMIT, RATELIMIT_POLICY, ResponseHeaders, X_LIMIT, X_REMAINING, X_RESET, push_member,
    push_policy_member, structured, until,
};
use crate::http::response_fields::push_number;

/// The lines of every limit of one policy.
#[derive(Debug)]
pub(super) struct PreparedLines {
    policy: Arc<Policy>,
    /// In the order of the policy; `None` for a limit whose lines differ in more than numbers.
    of_limits: Box<[Option<LimitLines>]>,
}

/// The lines of a limit with its own quota.
#[derive(Debug)]
pub(super) struct LimitLines {
    quota: Quota,
    /// Each with the number that follows it.
    pieces: Box<[(Box<[u8]>, Number)]>,
    /// The text behind the last number.
    end: Box<[u8]>,
}

/// A number that differs from response to response.
#[derive(Clone, Copy, Debug)]
enum Number {
    StructuredRemaining,
    StructuredUntil,
    Remaining,
    Reset,
}

impl PreparedLines {
    pub(super) fn new(headers: &ResponseHeaders, policy: &Arc<Policy>) -> Self {
        let limits = policy.limits().iter();
        Self {
            of_limits: limits
                .map(|limit| LimitLines::new(headers, limit))
                .collect(),
            policy: Arc::clone(policy),
        }
    }

    /// The lines of a decision that is about one limit with its own quota.
    pub(super) fn of<'a>(
        &'a self,
        decision: &'a Decision,
    ) -> Option<(&'a LimitLines, &'a LimitOutcome)> {
        let [Some(charged)] = decision.entries() else {
            return None;
        };
        let lines = self.of_limits.get(charged.limit_index)?.as_ref()?;
        let is_same = charged.enforced && charged.quota == lines.quota;
        (is_same && decision.is_under(&self.policy)).then_some((lines, charged))
    }
}

impl LimitLines {
    fn new(headers: &ResponseHeaders, limit: &Limit) -> Option<Self> {
        let quota = limit.quota.filter(|_| limit.mode == Mode::Enforce)?;
        if headers.clear {
            return None;
        }
        let mut lines = Template::default();
        if headers.ietf.is_some() {
            lines.name(&RATELIMIT_POLICY);
            push_policy_member(&mut lines.text, limit, &quota);
            lines.end_of_line();
            lines.name(&RATELIMIT);
            push_member(&mut lines.text, limit);
            lines.text.extend_from_slice(b";r=");
            lines.number(Number::StructuredRemaining);
            lines.text.extend_from_slice(b";t=");
            lines.number(Number::StructuredUntil);
            lines.end_of_line();
        }
        if headers.x_ratelimit {
            lines.name(&X_LIMIT);
            push_number(&mut lines.text, quota.limit());
            lines.end_of_line();
            lines.name(&X_REMAINING);
            lines.number(Number::Remaining);
            lines.end_of_line();
            lines.name(&X_RESET);
            lines.number(Number::Reset);
            lines.end_of_line();
        }
        Some(Self {
            quota,
            pieces: lines.pieces.into(),
            end: lines.text.into(),
        })
    }

    /// Writes the lines of one outcome, each with its CR LF.
    pub(super) fn write(&self, text: &mut Vec<u8>, charged: &LimitOutcome) {
        let outcome = &charged.outcome;
        for (before, number) in &self.pieces {
            text.extend_from_slice(before);
            let number = match number {
                Number::StructuredRemaining => structured(outcome.remaining()),
                Number::StructuredUntil => structured(until(charged).as_secs_ceil()),
                Number::Remaining => outcome.remaining(),
                Number::Reset => outcome.reset_after().as_secs_ceil(),
            };
            push_number(text, number);
        }
        text.extend_from_slice(&self.end);
    }
}

/// Lines while they are put together.
#[derive(Default)]
struct Template {
    pieces: Vec<(Box<[u8]>, Number)>,
    /// The text behind the last number.
    text: Vec<u8>,
}

impl Template {
    fn name(&mut self, name: &HeaderName) {
        self.text.extend_from_slice(name.as_str().as_bytes());
        self.text.extend_from_slice(b": ");
    }

    fn number(&mut self, number: Number) {
        let before = std::mem::take(&mut self.text);
        self.pieces.push((before.into(), number));
    }

    fn end_of_line(&mut self) {
        self.text.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use proptest::prelude::*;
    use sluicegate_core::{HeaderStyle, List, Nanos, Outcome};

    use super::*;
    use crate::http::ResponseFields;

    fn outcome() -> impl Strategy<Value = Outcome> {
        let number = || prop_oneof![0..5_u64, any::<u64>()];
        (0..3, number(), number(), number()).prop_map(|(kind, remaining, wait, reset)| {
            let (retry_after, reset_after) = (Nanos::new(wait), Nanos::new(reset));
            match kind {
                0 => Outcome::Allowed {
                    remaining,
                    reset_after,
                },
                1 => Outcome::Denied {
                    remaining,
                    retry_after,
                    reset_after,
                },
                _ => Outcome::TooLarge {
                    remaining,
                    reset_after,
                },
            }
        })
    }

    proptest! {
        #[test]
        fn prepared_lines_say_what_is_written_without_them(
            outcome in outcome(),
            styles in 0..8_u8,
            is_overridden in any::<bool>(),
            is_watched in any::<bool>(),
            there in prop::option::of((0..3_usize, 0..3_u64)),
        ) {
            let own = Quota::from(sluicegate_core::Quota::per_minute(7));
            let mut watched = Limit::new("watched", sluicegate_core::Quota::per_second(1));
            watched.mode = Mode::Shadow;
            let limits = [watched, Limit::new("own", sluicegate_core::Quota::per_minute(7))];
            let policy = Arc::new(Policy::new(limits).unwrap());
            let known = [HeaderStyle::Ietf, HeaderStyle::XRateLimit, HeaderStyle::Clear];
            let styles = known.iter().enumerate().filter(|(bit, _)| styles >> bit & 1 == 1);
            let plain = ResponseHeaders::new(styles.map(|(_, style)| *style));
            let quota = match is_overridden {
                true => sluicegate_core::Quota::per_hour(3).into(),
                false => own,
            };
            let charged = LimitOutcome {
                limit_index: usize::from(!is_watched),
                quota,
                outcome,
                enforced: !is_watched,
            };
            let decision = Decision::new(Arc::clone(&policy), List::One(Some(charged)));
            let mut sent = HeaderMap::new();
            if let Some((name, value)) = there {
                let name = [X_REMAINING, X_LIMIT, RATELIMIT][name].clone();
                ResponseFields::append(&mut sent, &name, |text| push_number(text, value));
            }
            let (mut expected, mut written) = (sent.clone(), sent);
            plain.write(&decision, &mut expected);
            plain.prepared_for(&policy).write(&decision, &mut written);
            prop_assert_eq!(written, expected);
        }
    }

    #[test]
    fn lines_of_another_policy_are_not_used() {
        let policy = |name: &str| {
            let limit = Limit::new(name, sluicegate_core::Quota::per_minute(7));
            Arc::new(Policy::new([limit]).unwrap())
        };
        let charged = LimitOutcome {
            limit_index: 0,
            quota: sluicegate_core::Quota::per_minute(7).into(),
            outcome: Outcome::Allowed {
                remaining: 1,
                reset_after: Nanos::SECOND,
            },
            enforced: true,
        };
        let decision = Decision::new(policy("new"), List::One(Some(charged)));
        let mut written = HeaderMap::new();
        let headers = ResponseHeaders::default().prepared_for(&policy("old"));
        headers.write(&decision, &mut written);
        assert_eq!(written[RATELIMIT], "\"new\";r=1;t=1");
    }
}
