//! The headers that tell a caller about its limits.
//!
//! Three families of headers exist in the wild ([`HeaderStyle`]), and callers believe whichever
//! they know, so each that is written must be true on its own. Two rules follow:
//!
//! - Every number is rounded so that the promise holds: waits up, never down. A caller who comes
//!   back as told passes.
//! - `RateLimit` and `RateLimit-Policy` are lists, so what the service behind us wrote stays and
//!   ours is appended. The `X-` headers have room for one limit: the tighter one is told, and the
//!   headers of the other are removed, so that no response mixes two limits.

mod prepared;

use std::sync::Arc;

use http::header::HeaderName;
use sluicegate_core::{Decision, HeaderStyle, Limit, LimitOutcome, Mode, Nanos, Policy, Quota};

use self::prepared::PreparedLines;
use super::response_fields::{ResponseFields, push_number};

const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
const X_CLEAR: HeaderName = HeaderName::from_static("x-ratelimit-clear");

/// The wire format of [`HeaderStyle::Ietf`]: the fields are still a draft, and later drafts may
/// spell them differently. Naming one keeps a service on it.
///
/// ```
/// use sluicegate::http::{HeaderStyle, IetfDraft, ResponseHeaders};
///
/// let headers = ResponseHeaders::new([HeaderStyle::Ietf]).draft(IetfDraft::V8To11);
/// # let _ = headers;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum IetfDraft {
    /// Drafts 08 to 11: `RateLimit-Policy: "per-ip";q=200;w=2` and `RateLimit: "per-ip";r=199;t=1`.
    ///
    /// `w` is the time in which a spent quota refills, left out below one second. `t` is the time
    /// until a denied request passes, and for an allowed one the time until the quota is full.
    #[default]
    V8To11,
}

/// The headers that responses carry: by default those of [`HeaderStyle::Ietf`] and
/// [`HeaderStyle::XRateLimit`].
///
/// ```
/// use sluicegate::http::{HeaderStyle, ResponseHeaders};
/// use sluicegate::{Limit, Limiter, Quota, Subject};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let limiter = Limiter::local([Limit::new("all", Quota::per_minute(10))])?;
/// let verdict = limiter.check(&Subject::ANONYMOUS, 1).await;
///
/// let mut response = http::Response::new("hello");
/// if let Some(decision) = verdict.decision() {
///     ResponseHeaders::from([HeaderStyle::Ietf]).write(decision, response.headers_mut());
/// }
/// assert_eq!(response.headers()["ratelimit-policy"], "\"all\";q=10;w=60");
/// # Ok(())
/// # })
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ResponseHeaders {
    /// `None` leaves [`HeaderStyle::Ietf`] out.
    ietf: Option<IetfDraft>,
    x_ratelimit: bool,
    clear: bool,
    prepared: Option<Arc<PreparedLines>>,
}

impl ResponseHeaders {
    /// These styles; an empty list writes no headers but `Retry-After`.
    pub fn new(styles: impl IntoIterator<Item = HeaderStyle>) -> Self {
        let mut headers = Self {
            ietf: None,
            x_ratelimit: false,
            clear: false,
            prepared: None,
        };
        for style in styles {
            match style {
                HeaderStyle::Ietf => headers.ietf = Some(IetfDraft::default()),
                HeaderStyle::XRateLimit => headers.x_ratelimit = true,
                HeaderStyle::Clear => headers.clear = true,
            }
        }
        headers
    }

    /// Writes [`HeaderStyle::Ietf`], if it is among the styles, in this format.
    #[must_use]
    pub fn draft(mut self, draft: IetfDraft) -> Self {
        self.ietf = self.ietf.map(|_| draft);
        self.prepared = None;
        self
    }

    /// The same headers, with the lines of this policy's limits prepared: a response whose head is
    /// text takes them as they are. Decisions under another policy are written all the same.
    ///
    /// ```
    /// use sluicegate::http::ResponseHeaders;
    /// use sluicegate::{Limit, Limiter, Quota};
    ///
    /// let limiter = Limiter::local([Limit::new("all", Quota::per_second(5))])?;
    /// let headers = ResponseHeaders::default().prepared_for(&limiter.policy());
    /// # let _ = headers;
    /// # Ok::<(), sluicegate::PolicyErrors>(())
    /// ```
    #[must_use]
    pub fn prepared_for(mut self, policy: &Arc<Policy>) -> Self {
        self.prepared = Some(Arc::new(PreparedLines::new(&self, policy)));
        self
    }

    /// Adds the headers of a decision to a response; nothing when no enforced limit covered the
    /// request.
    ///
    /// Fields of [`HeaderStyle::Ietf`] that are there already stay, and ours follow on lines of
    /// their own. The others have room for one limit: they stay if they leave the caller less, and
    /// are replaced if not.
    pub fn write(&self, decision: &Decision, headers: &mut impl ResponseFields) {
        let prepared = self.prepared.as_ref();
        if let Some((lines, charged)) = prepared.and_then(|prepared| prepared.of(decision))
            && !(self.x_ratelimit && has_x_lines(headers))
        {
            headers.append_lines(|text| lines.write(text, charged));
            return;
        }
        let Some((limit, charged)) = decision.tightest() else {
            return;
        };
        match self.ietf {
            Some(IetfDraft::V8To11) => {
                headers.append(&RATELIMIT_POLICY, |text| push_policy_v8(text, decision));
                headers.append(&RATELIMIT, |text| push_ratelimit_v8(text, limit, charged));
            }
            None => {}
        }
        if (self.x_ratelimit || self.clear) && !has_less_left(headers, charged) {
            self.write_x(charged, headers);
        }
    }

    /// Writes the `X-` headers of one limit. Each of the four is replaced or removed, so that none
    /// is left over from another limit.
    fn write_x(&self, charged: &LimitOutcome, headers: &mut impl ResponseFields) {
        let outcome = &charged.outcome;
        if self.x_ratelimit {
            headers.replace(&X_LIMIT, |text| push_number(text, charged.quota.limit()));
        } else {
            headers.remove(&X_LIMIT);
        }
        headers.replace(&X_REMAINING, |text| push_number(text, outcome.remaining()));
        if self.clear {
            headers.replace(&X_CLEAR, |text| {
                push_decimal_seconds(text, outcome.reset_after())
            });
        } else {
            headers.remove(&X_CLEAR);
        }
        // Two styles share this name; beside each other, the meaning in `XRateLimit` wins.
        match (self.x_ratelimit, outcome.is_allowed()) {
            (true, _) => headers.replace(&X_RESET, |text| {
                push_number(text, outcome.reset_after().as_secs_ceil())
            }),
            (false, true) => headers.remove(&X_RESET),
            (false, false) => {
                headers.replace(&X_RESET, |text| push_decimal_seconds(text, wait(charged)))
            }
        }
    }
}

impl PartialEq for ResponseHeaders {
    /// What is prepared changes nothing about what is written.
    fn eq(&self, other: &Self) -> bool {
        let styles = |headers: &Self| (headers.ietf, headers.x_ratelimit, headers.clear);
        styles(self) == styles(other)
    }
}

impl Eq for ResponseHeaders {}

impl Default for ResponseHeaders {
    fn default() -> Self {
        Self::new([HeaderStyle::Ietf, HeaderStyle::XRateLimit])
    }
}

impl<const STYLES: usize> From<[HeaderStyle; STYLES]> for ResponseHeaders {
    fn from(styles: [HeaderStyle; STYLES]) -> Self {
        Self::new(styles)
    }
}

/// The value of `Retry-After` for a denied request: whole seconds, at least 1, after which every
/// denied charge passes.
///
/// A charge that is larger than its limit never passes; its wait is the time until that limit is
/// full. For protocols that tell the wait in a field of their own; [`Rejection`](super::Rejection)
/// writes the header by itself.
///
/// ```
/// use sluicegate::http::retry_after_secs;
/// use sluicegate::{Limit, Limiter, Quota, Subject, Verdict};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let limiter = Limiter::local([Limit::new("all", Quota::per_minute(1))])?;
/// limiter.check(&Subject::ANONYMOUS, 1).await;
/// let Verdict::Reject(decision) = limiter.check(&Subject::ANONYMOUS, 1).await else {
///     panic!("the second request is one too many")
/// };
/// assert_eq!(retry_after_secs(&decision), 60);
/// # Ok(())
/// # })
/// # }
/// ```
pub fn retry_after_secs(decision: &Decision) -> u64 {
    let longest = decision.denials().map(|(_, charged)| wait(charged)).max();
    longest.unwrap_or(Nanos::ZERO).as_secs_ceil().max(1)
}

/// The wait that the caller of a denied charge is told: until a retry passes, or until the limit is
/// full where no wait helps.
fn wait(charged: &LimitOutcome) -> Nanos {
    charged
        .outcome
        .retry_after()
        .unwrap_or(charged.outcome.reset_after())
}

/// Returns true when the response already tells of a limit with less left: that of an inner layer,
/// or of the service behind us. A value that is no number counts as absent.
fn has_less_left(headers: &impl ResponseFields, charged: &LimitOutcome) -> bool {
    let remaining_there = headers
        .value(&X_REMAINING)
        .and_then(|value| str::from_utf8(value).ok()?.parse().ok());
    remaining_there.is_some_and(|remaining: u64| remaining < charged.outcome.remaining())
}

/// Returns true when the response has one of the headers that have room for one limit only.
fn has_x_lines(headers: &impl ResponseFields) -> bool {
    let is_there = |name: &HeaderName| headers.value(name).is_some();
    is_there(&X_REMAINING) || is_there(&X_LIMIT) || is_there(&X_RESET) || is_there(&X_CLEAR)
}

/// Writes the list of all enforced limits: `"per-ip";q=200;w=2, "api";q=20;w=2`.
fn push_policy_v8(text: &mut Vec<u8>, decision: &Decision) {
    let enforced = decision
        .outcomes()
        .filter(|(limit, _)| limit.mode == Mode::Enforce);
    for (index, (limit, charged)) in enforced.enumerate() {
        if index > 0 {
            text.extend_from_slice(b", ");
        }
        push_policy_member(text, limit, &charged.quota);
    }
}

/// Writes one limit of the list: `"per-ip";q=200;w=2`.
fn push_policy_member(text: &mut Vec<u8>, limit: &Limit, quota: &Quota) {
    push_member(text, limit);
    push_parameter(text, b";q=", quota.limit());
    let window = quota.window();
    if window >= Nanos::SECOND {
        push_parameter(text, b";w=", window.as_secs_ceil());
    }
}

/// Writes the state of the tightest limit: `"per-ip";r=199;t=1`.
fn push_ratelimit_v8(text: &mut Vec<u8>, limit: &Limit, charged: &LimitOutcome) {
    push_member(text, limit);
    push_parameter(text, b";r=", charged.outcome.remaining());
    push_parameter(text, b";t=", until(charged).as_secs_ceil());
}

/// The time that `t` tells: until a denied request passes, or until the quota is full.
fn until(charged: &LimitOutcome) -> Nanos {
    match charged.outcome.is_allowed() {
        true => charged.outcome.reset_after(),
        false => wait(charged),
    }
}

/// Writes the name of a limit as a string of RFC 9651. A policy's names are letters, digits, `.`,
/// `_` and `-`: there is nothing to escape.
fn push_member(text: &mut Vec<u8>, limit: &Limit) {
    text.push(b'"');
    text.extend_from_slice(limit.name.as_bytes());
    text.push(b'"');
}

fn push_parameter(text: &mut Vec<u8>, name: &[u8; 3], value: u64) {
    text.extend_from_slice(name);
    push_number(text, structured(value));
}

/// The number as a structured field can tell it.
fn structured(value: u64) -> u64 {
    /// The largest integer of a structured field has fifteen digits.
    const INTEGER_MAX: u64 = 999_999_999_999_999;
    value.min(INTEGER_MAX)
}

/// Writes seconds with up to three decimals, rounded up: `1`, `0.25`, `12.001`.
fn push_decimal_seconds(text: &mut Vec<u8>, span: Nanos) {
    let millis = span.get().div_ceil(Nanos::MILLISECOND.get());
    push_number(text, millis / 1_000);
    if !millis.is_multiple_of(1_000) {
        // A leading one keeps the zeros behind the point; it becomes the point.
        let point = text.len();
        push_number(text, 1_000 + millis % 1_000);
        text[point] = b'.';
        while text.ends_with(b"0") {
            text.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut text = Vec::new();
        write(&mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn decimal_seconds_round_up_to_the_millisecond_and_drop_zeros() {
        let cases = [
            (0, "0"),
            (1, "0.001"),
            (1_000_000, "0.001"),
            (1_000_001, "0.002"),
            (10_000_000, "0.01"),
            (250_000_000, "0.25"),
            (999_999_999, "1"),
            (1_000_000_000, "1"),
            (10_000_000_000, "10"),
            (12_000_500_000, "12.001"),
            (u64::MAX, "18446744073.71"),
        ];
        for (nanos, expected) in cases {
            assert_eq!(
                written(|text| push_decimal_seconds(text, Nanos::new(nanos))),
                expected,
                "{nanos} ns"
            );
        }
    }

    #[test]
    fn integers_stay_within_what_structured_fields_hold() {
        assert_eq!(
            written(|text| push_parameter(text, b";q=", u64::MAX)),
            ";q=999999999999999"
        );
    }
}
