//! Labels whose values are known beforehand, and counters by such a label.

use std::fmt;
use std::marker::PhantomData;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use sluicegate_net::ConnectionRefusal;

/// A label with a closed set of values.
pub trait Label: Copy + fmt::Debug + 'static {
    /// The label's name.
    const NAME: &'static str;
    /// Every value, in the order of [`Label::index`].
    const ALL: &'static [Self];

    /// The value as metrics show it.
    fn as_str(self) -> &'static str;

    /// The place in [`Label::ALL`].
    fn index(self) -> usize;
}

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
    /// What became of a request.
    RequestOutcome, "outcome":
    /// A server behind the proxy answered it.
    Forwarded = "forwarded",
    /// A limit was spent.
    Limited = "limited",
    /// The store is away, and the failure policy is closed.
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
    /// What a limit said.
    LimitAnswer, "outcome":
    /// The units were taken.
    Allowed = "allowed",
    /// They were not, and the request was refused.
    Denied = "denied",
    /// They were not, but the limit only watches.
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
    /// The answer took too long.
    Timeout = "timeout",
    /// The connection ended before the answer did.
    Closed = "closed",
    /// What came was no HTTP.
    Protocol = "protocol",
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
    /// How a decision was asked for.
    DecisionProtocol, "protocol":
    /// In JSON.
    Http = "http",
    /// By a gateway, whose answer is in the status.
    Authorize = "authorize",
    /// As Envoy's rate limit service.
    Grpc = "grpc",
    /// In the protocol of Redis.
    Resp = "resp",
}

label! {
    /// What the decision service answered.
    DecisionAnswer, "outcome":
    /// Go on.
    Allowed = "allowed",
    /// A limit is spent.
    Limited = "limited",
    /// The store is away, and the failure policy is closed.
    Unavailable = "unavailable",
    /// The question was malformed, or did not say whose counter.
    Refused = "refused",
    /// The caller is on the list of those who do not pass.
    Denied = "denied",
    /// A token or credential is missing or wrong.
    Unauthorized = "unauthorized",
}

label! {
    /// How an attempt to load the configuration again ended.
    ReloadResult, "result":
    /// The new configuration runs.
    Applied = "applied",
    /// The files say what is running already.
    Unchanged = "unchanged",
    /// The files have mistakes; the running configuration stays.
    Refused = "refused",
}

/// One counter per value of a label, all there from the start.
pub(super) struct Counts<L> {
    counters: Box<[Counter]>,
    label: PhantomData<fn(L)>,
}

impl<L: Label> Counts<L> {
    /// The series `name_total{label="value"}`.
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

    pub(super) fn add(&self, value: L) {
        self.counters[value.index()].inc();
    }

    /// What was counted so far, in the order of the label's values.
    pub(super) fn so_far(&self) -> Vec<u64> {
        self.counters.iter().map(Counter::get).collect()
    }
}

/// One counter per value of each of two labels, all there from the start.
pub(super) struct CountsBy<One, Other> {
    rows: Box<[Box<[Counter]>]>,
    labels: PhantomData<fn(One, Other)>,
}

impl<One: Label, Other: Label> CountsBy<One, Other> {
    /// The series `name_total{one="value",other="value"}`.
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

    /// What was counted so far by the second label, whatever the first.
    pub(super) fn so_far(&self) -> Vec<u64> {
        let sum = |place: usize| self.rows.iter().map(|row| row[place].get()).sum();
        (0..Other::ALL.len()).map(sum).collect()
    }

    pub(super) fn add(&self, one: One, other: Other) {
        self.rows[one.index()][other.index()].inc();
    }
}

impl<One, Other> fmt::Debug for CountsBy<One, Other> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.rows.iter().flatten().map(Counter::get))
            .finish()
    }
}

impl<L> fmt::Debug for Counts<L> {
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
        check::<LimitAnswer>();
        check::<UpstreamFailure>();
        check::<ConnectionRefusal>();
        check::<DecisionProtocol>();
        check::<DecisionAnswer>();
        check::<ReloadResult>();
        check::<crate::auth::Reason>();
    }
}
