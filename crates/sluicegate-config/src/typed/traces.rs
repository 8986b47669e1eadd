//! Traces: the collector of spans, and which requests are traced.

use std::fmt;

use sluicegate_core::Nanos;

use super::external::ServiceAddress;

/// Spans of requests for a collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traces {
    /// The collector, which takes OTLP over gRPC.
    pub otlp: ServiceAddress,
    /// Which requests are traced.
    pub sampling: TraceSampling,
    /// The name of this service in traces.
    pub service_name: String,
    /// More attributes of this service in traces.
    pub resource: Vec<(String, String)>,
    /// Headers for the collector, such as a credential.
    pub headers: SecretHeaders,
    /// The longest that sending one batch takes.
    pub timeout: Nanos,
    /// How spans are gathered before they are sent.
    pub batch: TraceBatch,
    /// The settings that came from the environment: each with its variable.
    pub variables: Vec<(&'static str, &'static str)>,
}

impl Traces {
    /// The name of a setting for messages: its variable, or its key in the file.
    pub fn origin(&self, key: &str) -> String {
        let found = self.variables.iter().find(|(known, _)| *known == key);
        found.map_or_else(
            || format!("traces.{key}"),
            |(_, variable)| (*variable).to_owned(),
        )
    }
}

/// Which requests are traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceSampling {
    /// The share of requests that are traced.
    pub share: TraceShare,
    /// What the sampled flag of a trusted peer changes.
    pub parent: ParentSampling,
}

impl Default for TraceSampling {
    fn default() -> Self {
        Self {
            share: TraceShare::OneIn(TRACES_ONE_IN),
            parent: ParentSampling::Adds,
        }
    }
}

/// One in this many requests is traced by default.
const TRACES_ONE_IN: u64 = 100;

/// A share of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceShare {
    /// One in this many, at least 1.
    OneIn(u64),
    /// So many of a billion, decided by the id of the trace, so that services with the same share
    /// keep the same traces.
    PerBillion(u32),
}

impl TraceShare {
    /// A whole of [`TraceShare::PerBillion`].
    pub const BILLION: u32 = 1_000_000_000;
}

/// What the sampled flag of a trusted peer changes. That of a stranger changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParentSampling {
    /// A request that the peer traces is traced too; the share decides about all others.
    Adds,
    /// The peer decides about its requests, the share about those without a trace.
    Decides,
    /// The share decides about all.
    Ignored,
}

/// How spans are gathered before they are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceBatch {
    /// The time between two batches.
    pub delay: Nanos,
    /// Spans that wait at most; more are dropped.
    pub queue_max: usize,
    /// Spans of one batch.
    pub size_max: usize,
}

impl Default for TraceBatch {
    /// The defaults of OpenTelemetry.
    fn default() -> Self {
        Self {
            delay: Nanos::from_secs(5),
            queue_max: 2_048,
            size_max: 512,
        }
    }
}

/// Names and values of headers. The values are secrets: they are never printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SecretHeaders(pub Vec<(String, String)>);

impl SecretHeaders {
    /// The names, in their order.
    pub fn names(&self) -> Vec<&str> {
        self.0.iter().map(|(name, _)| name.as_str()).collect()
    }
}

impl fmt::Debug for SecretHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}
