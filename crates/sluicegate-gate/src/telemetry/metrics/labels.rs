//! Labels with closed sets of values, and counters by such a label.
//!
//! A series for each value is made at the start, so that a rate over a value that has not occurred
//! yet is zero and not absent, and so that adding is one atomic addition at a known index. A value
//! from outside cannot become a label: it would have to be in one of these enums.

use std::fmt;
use std::marker::PhantomData;

use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use sluicegate_net::ConnectionRefusal;

use super::shards::Counter;

/// A label with a closed set of values.
pub trait Label: Copy + fmt::Debug + 'static {
    /// The label's name.
    const NAME: &'static str;
    /// Every value, in the order of [`Label::index`].
    const ALL: &'static [Self];

    /// The value as metrics show it.
    fn as_str(self) -> &'static str;

    /// The index in [`Label::ALL`].
    fn index(self) -> usize;
}

/// An enum that is a [`Label`]: its values, each with its text in the metrics.
macro_rules! label {
    ($(#[$about:meta])* $name:ident, $label:literal: $($(#[$about_value:meta])* $value:ident = $text:literal,)+) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$about_value])* $value,)+
        }

        impl Label for $name {
            const NAME: &'static str = $label;
            const ALL: &'static [Self] = &[$(Self::$value),+];

            fn as_str(self) -> &'static str {
                match self {
                    $(Self::$value => $text,)+
                }
            }

            fn index(self) -> usize {
                self as usize
            }
        }
    };
}

label! {
    /// The outcome of a request through the proxy.
    RequestOutcome, "outcome":
    /// A server behind the proxy answered it.
    Forwarded = "forwarded",
    /// A limit denied it.
    Limited = "limited",
    /// The store is away and the failure policy is closed, or the keys of tokens are missing.
    Unavailable = "unavailable",
    /// It was malformed, ambiguous or too large.
    Refused = "refused",
    /// The caller is on the list of those who do not pass.
    Denied = "denied",
    /// Its credential is missing or wrong.
    Unauthorized = "unauthorized",
    /// No server behind the proxy answered it.
    UpstreamError = "upstream_error",
}

label! {
    /// The outcome of a charge to one limit.
    LimitOutcome, "outcome":
    /// The units were taken.
    Allowed = "allowed",
    /// They were not, and the request was denied.
    Denied = "denied",
    /// They were not, but the limit is in shadow mode and denies nothing.
    ShadowDenied = "shadow_denied",
}

label! {
    /// Why an attempt at a server behind the proxy failed.
    UpstreamFailure, "reason":
    /// No connection could be made.
    Connect = "connect",
    /// A connection took too long.
    ConnectTimeout = "connect_timeout",
    /// The server could not be trusted or spoke no TLS.
    Tls = "tls",
    /// The response took too long.
    Timeout = "timeout",
    /// The response began and stopped in the middle.
    Stalled = "stalled",
    /// The connection ended before the response did.
    Closed = "closed",
    /// The response was not valid HTTP.
    Protocol = "protocol",
    /// No connection was free in time, and no further one is allowed.
    Busy = "busy",
}

impl Label for ConnectionRefusal {
    const NAME: &'static str = "reason";
    const ALL: &'static [Self] = &ConnectionRefusal::ALL;

    fn as_str(self) -> &'static str {
        ConnectionRefusal::as_str(self)
    }

    fn index(self) -> usize {
        self as usize
    }
}

label! {
    /// The protocol of a request to the decision service.
    DecisionProtocol, "protocol":
    /// JSON over HTTP.
    Http = "http",
    /// The authorization request of a gateway, answered by its status.
    Authorize = "authorize",
    /// Envoy's rate limit service.
    Grpc = "grpc",
    /// The protocol of Redis.
    Resp = "resp",
}

label! {
    /// The outcome of a request to the decision service.
    DecisionAnswer, "outcome":
    /// No limit denied it.
    Allowed = "allowed",
    /// A limit denied it.
    Limited = "limited",
    /// The store is away and the failure policy is closed, or the keys of tokens are missing.
    Unavailable = "unavailable",
    /// It was malformed, or did not name the caller.
    Refused = "refused",
    /// The caller is on the list of those who do not pass.
    Denied = "denied",
    /// A token or credential is missing or wrong.
    Unauthorized = "unauthorized",
}

label! {
    /// The result of an attempt to reload the configuration.
    ReloadResult, "result":
    /// The new configuration is in force.
    Applied = "applied",
    /// The files contain what is in force already.
    Unchanged = "unchanged",
    /// The files have mistakes; the configuration in force stays.
    Refused = "refused",
}

label! {
    /// Why an automatic ban is not in force.
    BanDrop, "reason":
    /// Too many waited already; the caller's next denial asks again.
    QueueFull = "queue_full",
    /// It made room for others before its time.
    NoRoom = "no_room",
}

impl RequestOutcome {
    /// The outcome of a request that admission refused for this reason.
    pub fn of_refusal(reason: DecisionAnswer) -> Self {
        match reason {
            DecisionAnswer::Allowed => Self::Forwarded,
            DecisionAnswer::Limited => Self::Limited,
            DecisionAnswer::Unavailable => Self::Unavailable,
            DecisionAnswer::Refused => Self::Refused,
            DecisionAnswer::Denied => Self::Denied,
            DecisionAnswer::Unauthorized => Self::Unauthorized,
        }
    }
}

label! {
    /// Why a credential was not accepted.
    AuthFailure, "reason":
    /// There was none, and one is required.
    Missing = "missing",
    /// No API key of ours.
    UnknownKey = "unknown_key",
    /// It cannot be read: empty, too long, not ASCII, not a token, a claim missing or of a wrong
    /// type.
    Malformed = "malformed",
    /// The signature was not made with the key.
    BadSignature = "bad_signature",
    /// The token is past its `exp`.
    Expired = "expired",
    /// The token is before its `nbf`.
    NotYet = "not_yet",
    /// The token has another `iss` than required.
    Issuer = "issuer",
    /// The token is not for the required `aud`.
    Audience = "audience",
    /// The algorithm is not accepted, or does not fit the key.
    Algorithm = "algorithm",
    /// The key is not in the set, or it is not clear which one is meant.
    KeyId = "key_id",
    /// The header occurs more than once.
    Repeated = "repeated",
    /// The `Authorization` header has another scheme than the one that is verified.
    Scheme = "scheme",
    /// The token is not of an accepted type.
    Type = "typ",
    /// The keys that would verify the token are not loaded, or too old.
    KeysUnavailable = "keys_unavailable",
}

label! {
    /// The result of a fetch of the keys of tokens.
    KeyFetchResult, "result":
    /// New keys are in force.
    Changed = "changed",
    /// The keys in force were confirmed.
    Unchanged = "unchanged",
    /// No connection, or one that broke.
    Unreachable = "unreachable",
    /// No complete response in time.
    TimedOut = "timed_out",
    /// Another status than 200.
    Status = "status",
    /// A response that is too long, encoded, or no usable key set.
    Invalid = "invalid",
}

impl fmt::Display for AuthFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One counter per value of a label, all at zero from the start.
pub(super) struct LabelCounters<L> {
    counters: Box<[Counter]>,
    label: PhantomData<fn(L)>,
}

impl<L: Label> LabelCounters<L> {
    /// Makes the series `name_total{label="value"}`.
    pub(super) fn new(name: &str, help: &str, registry: &mut Registry) -> Self {
        let family = Family::<[(&'static str, &'static str); 1], Counter>::default();
        let counters = L::ALL
            .iter()
            .map(|value| family.get_or_create_owned(&[(L::NAME, value.as_str())]))
            .collect();
        registry.register(name, help, family);
        Self {
            counters,
            label: PhantomData,
        }
    }

    /// Adds one.
    pub(super) fn add(&self, value: L) {
        self.add_many(value, 1);
    }

    /// Adds `count`.
    pub(super) fn add_many(&self, value: L, count: u64) {
        self.counters[value.index()].inc_by(count);
    }

    /// The counts so far, in the order of the label's values.
    pub(super) fn totals(&self) -> Vec<u64> {
        self.counters.iter().map(Counter::get).collect()
    }
}

/// One counter per pair of values of two labels, all at zero from the start.
pub(super) struct LabelPairCounters<One, Other> {
    /// By the first label, then by the second.
    rows: Box<[Box<[Counter]>]>,
    labels: PhantomData<fn(One, Other)>,
}

impl<One: Label, Other: Label> LabelPairCounters<One, Other> {
    /// Makes the series `name_total{one="value",other="value"}`.
    pub(super) fn new(name: &str, help: &str, registry: &mut Registry) -> Self {
        let family = Family::<[(&'static str, &'static str); 2], Counter>::default();
        let row = |one: &One| {
            let labels = |other: &Other| [(One::NAME, one.as_str()), (Other::NAME, other.as_str())];
            Other::ALL
                .iter()
                .map(|other| family.get_or_create_owned(&labels(other)))
                .collect()
        };
        let rows = One::ALL.iter().map(row).collect();
        registry.register(name, help, family);
        Self {
            rows,
            labels: PhantomData,
        }
    }

    /// The counts so far by the second label, summed over the first.
    pub(super) fn totals(&self) -> Vec<u64> {
        let sum = |place: usize| self.rows.iter().map(|row| row[place].get()).sum();
        (0..Other::ALL.len()).map(sum).collect()
    }

    /// Adds one.
    pub(super) fn add(&self, one: One, other: Other) {
        self.rows[one.index()][other.index()].inc();
    }
}

impl<One, Other> fmt::Debug for LabelPairCounters<One, Other> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.rows.iter().flatten().map(Counter::get))
            .finish()
    }
}

impl<L> fmt::Debug for LabelCounters<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.counters.iter().map(Counter::get))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<L: Label + PartialEq>() {
        for (place, value) in L::ALL.iter().enumerate() {
            assert_eq!(value.index(), place, "{value:?}");
            assert_eq!(
                L::ALL
                    .iter()
                    .filter(|other| other.as_str() == value.as_str())
                    .count(),
                1,
                "{value:?}"
            );
        }
    }

    #[test]
    fn values_have_their_own_places_and_names() {
        check::<RequestOutcome>();
        check::<LimitOutcome>();
        check::<UpstreamFailure>();
        check::<ConnectionRefusal>();
        check::<DecisionProtocol>();
        check::<DecisionAnswer>();
        check::<ReloadResult>();
        check::<AuthFailure>();
        check::<BanDrop>();
    }
}
