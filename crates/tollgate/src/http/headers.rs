//! What a response tells the caller about its limits.
//!
//! Every number is rounded so that the promise holds: waits up, never down.

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use tollgate_core::{Decision, Limit, LimitOutcome, Mode, Nanos};

const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
const X_CLEAR: HeaderName = HeaderName::from_static("x-ratelimit-clear");

/// A family of response headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderStyle {
    /// `RateLimit-Policy` with every enforced limit, `RateLimit` with the tightest.
    Ietf,
    /// `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`, the whole seconds until the tightest limit is
    /// full again.
    XRateLimit,
    /// `X-RateLimit-Remaining`, `X-RateLimit-Clear`, the seconds until the tightest limit is full again, and on a denial
    /// `X-RateLimit-Reset`, the seconds until a retry passes; both with up to three decimals.
    ///
    /// Beside [`HeaderStyle::XRateLimit`], `X-RateLimit-Reset` keeps the meaning it has there, on every response. It is never
    /// the shorter of the two waits, and `Retry-After` has the other.
    Clear,
}

/// The wire format of [`HeaderStyle::Ietf`]: the fields are still a draft, and later ones may be spelled otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum IetfDraft {
    /// Drafts 08 to 11: `RateLimit-Policy: "per-ip";q=200;w=2` and `RateLimit: "per-ip";r=199;t=1`.
    ///
    /// `w` is the time in which a spent quota refills, left out below one second. `t` is the time until a denied request
    /// passes, and for an allowed one the time until the quota is full.
    #[default]
    V8To11,
}

/// Which headers responses carry: by default those of [`HeaderStyle::Ietf`] and [`HeaderStyle::XRateLimit`].
///
/// ```
/// use tollgate::http::{HeaderStyle, ResponseHeaders};
///
/// let headers = ResponseHeaders::from([HeaderStyle::Clear]);
/// # let _ = headers;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseHeaders {
    ietf: Option<IetfDraft>,
    x_ratelimit: bool,
    clear: bool,
}

impl ResponseHeaders {
    /// These styles; none writes no headers but `Retry-After`.
    pub fn new(styles: impl IntoIterator<Item = HeaderStyle>) -> Self {
        let mut headers = Self { ietf: None, x_ratelimit: false, clear: false };
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
        self
    }

    /// Adds the headers of a decision to a response; nothing when no enforced limit covered the request.
    ///
    /// Fields of [`HeaderStyle::Ietf`] that are there already stay, and ours follow on lines of their own. The others have room
    /// for one limit: they stay if they leave the caller less, and are replaced if not.
    pub fn write(&self, decision: &Decision, headers: &mut HeaderMap) {
        let Some((limit, charged)) = decision.tightest() else { return };
        match self.ietf {
            Some(IetfDraft::V8To11) => {
                headers.append(RATELIMIT_POLICY, policy_v8(decision));
                headers.append(RATELIMIT, ratelimit_v8(limit, charged));
            }
            None => {}
        }
        if (self.x_ratelimit || self.clear) && !is_tighter(headers, charged) {
            self.write_x(charged, headers);
        }
    }

    fn write_x(&self, charged: &LimitOutcome, headers: &mut HeaderMap) {
        let outcome = &charged.outcome;
        // Each is replaced or taken away: none may speak of another limit.
        let mut put = |name: HeaderName, value: Option<HeaderValue>| match value {
            Some(value) => drop(headers.insert(name, value)),
            None => drop(headers.remove(name)),
        };
        put(X_LIMIT, self.x_ratelimit.then(|| charged.quota.limit().into()));
        put(X_REMAINING, Some(outcome.remaining().into()));
        put(X_CLEAR, self.clear.then(|| decimal_seconds(outcome.reset_after())));
        put(
            X_RESET,
            match (self.x_ratelimit, outcome.is_allowed()) {
                (true, _) => Some(outcome.reset_after().as_secs_ceil().into()),
                (false, true) => None,
                (false, false) => Some(decimal_seconds(wait(charged))),
            },
        );
    }
}

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

/// The value of `Retry-After` for a denied request: whole seconds, at least 1, after which every denied charge passes.
///
/// A charge that is larger than its limit never passes; its wait is the time until that limit is full.
pub fn retry_after_secs(decision: &Decision) -> u64 {
    let longest = decision.denials().map(|(_, charged)| wait(charged)).max();
    longest.unwrap_or(Nanos::ZERO).as_secs_ceil().max(1)
}

/// The wait to tell the caller.
fn wait(charged: &LimitOutcome) -> Nanos {
    charged.outcome.retry_after().unwrap_or(charged.outcome.reset_after())
}

/// Whether the response already tells of a limit with less left: that of an inner layer, or of the service behind us.
fn is_tighter(headers: &HeaderMap, charged: &LimitOutcome) -> bool {
    let told = headers.get(X_REMAINING).and_then(|value| value.to_str().ok()?.parse().ok());
    told.is_some_and(|remaining: u64| remaining < charged.outcome.remaining())
}

/// `"per-ip";q=200;w=2, "api";q=20;w=2`
fn policy_v8(decision: &Decision) -> HeaderValue {
    let mut line = Line::new();
    for (limit, charged) in decision.outcomes().filter(|(limit, _)| limit.mode == Mode::Enforce) {
        line.member(limit);
        line.parameter(b";q=", charged.quota.limit());
        let window = charged.quota.window();
        if window >= Nanos::SECOND {
            line.parameter(b";w=", window.as_secs_ceil());
        }
    }
    line.finish()
}

/// `"per-ip";r=199;t=1`
fn ratelimit_v8(limit: &Limit, charged: &LimitOutcome) -> HeaderValue {
    let until = if charged.outcome.is_allowed() { charged.outcome.reset_after() } else { wait(charged) };
    let mut line = Line::new();
    line.member(limit);
    line.parameter(b";r=", charged.outcome.remaining());
    line.parameter(b";t=", until.as_secs_ceil());
    line.finish()
}

/// Seconds with up to three decimals, rounded up: `1`, `0.25`, `12.001`.
fn decimal_seconds(span: Nanos) -> HeaderValue {
    let millis = span.get().div_ceil(Nanos::MILLISECOND.get());
    let mut line = Line::new();
    line.number(millis / 1_000);
    if !millis.is_multiple_of(1_000) {
        // A leading one keeps the zeros behind the point; it becomes the point.
        let point = line.0.len();
        line.number(1_000 + millis % 1_000);
        line.0[point] = b'.';
        while line.0.ends_with(b"0") {
            line.0.pop();
        }
    }
    line.finish()
}

/// A header value in the making: on every response, so without the formatting machinery.
struct Line(Vec<u8>);

impl Line {
    /// The largest integer of a structured field.
    const INTEGER_MAX: u64 = 999_999_999_999_999;

    fn new() -> Self {
        Self(Vec::with_capacity(48))
    }

    /// The name of a limit as a string item. A policy's names are letters, digits, `.`, `_` and `-`: nothing to escape.
    fn member(&mut self, limit: &Limit) {
        if !self.0.is_empty() {
            self.0.extend_from_slice(b", ");
        }
        self.0.push(b'"');
        self.0.extend_from_slice(limit.name.as_bytes());
        self.0.push(b'"');
    }

    fn parameter(&mut self, name: &[u8; 3], value: u64) {
        self.0.extend_from_slice(name);
        self.number(value.min(Self::INTEGER_MAX));
    }

    fn number(&mut self, mut number: u64) {
        let mut digits = [b'0'; 20];
        let mut start = digits.len();
        while start == digits.len() || number > 0 {
            start -= 1;
            digits[start] += (number % 10) as u8;
            number /= 10;
        }
        self.0.extend_from_slice(&digits[start..]);
    }

    fn finish(self) -> HeaderValue {
        HeaderValue::from_maybe_shared(Bytes::from(self.0)).expect("names of limits, digits and punctuation are ASCII")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_the_standard_library_writes_them() {
        for number in [0, 1, 9, 10, 99, 100, 1_000_000, u64::from(u32::MAX), u64::MAX] {
            let mut line = Line::new();
            line.number(number);
            assert_eq!(line.finish(), number.to_string());
        }
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
        for (nanos, written) in cases {
            assert_eq!(decimal_seconds(Nanos::new(nanos)), written, "{nanos} ns");
        }
    }

    #[test]
    fn integers_stay_within_what_structured_fields_hold() {
        let mut line = Line::new();
        line.parameter(b";q=", u64::MAX);
        assert_eq!(line.finish(), ";q=999999999999999");
    }
}
