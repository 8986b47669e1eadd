//! The results of one run, with the figures made from them.

use super::contestants::ProxyContestant;
use super::latency::LatencyRow;
use super::loads::IDLE_CONNECTIONS;
use super::shared_store::SharedStoreContestant;
use crate::median::median;
use crate::samples::{ServerRow, ServerSample, mib};

/// The results of one run.
#[derive(Default)]
pub struct ProxyResults {
    pub rows: Vec<ServerRow<ProxyContestant>>,
    pub idle: Vec<IdleCell>,
    pub external: Vec<ExternalQuotaRound>,
    pub latency: Vec<LatencyRow>,
    pub shared_store: Vec<ServerRow<SharedStoreContestant>>,
    /// Contestants and loads that could not be measured, and why.
    pub absent: Vec<String>,
    /// Events that could not be counted, and why.
    pub uncounted: Vec<String>,
}

/// Two turns of ours: with its own quota, and with one from a service.
pub struct ExternalQuotaRound {
    pub own: ServerSample,
    pub told: ServerSample,
}

impl ExternalQuotaRound {
    /// The cost of the service, in µs of processor time per request.
    pub fn extra_us(&self) -> f64 {
        self.told.cpu_us() - self.own.cpu_us()
    }
}

/// One contestant's memory, before any request and with all connections open and idle.
pub struct IdleCell {
    pub contestant: ProxyContestant,
    pub samples: Vec<IdleSample>,
}

#[derive(Clone, Copy, Debug)]
pub struct IdleSample {
    pub fresh_bytes: u64,
    pub idle_bytes: u64,
}

impl IdleSample {
    pub fn fresh_mib(&self) -> f64 {
        mib(self.fresh_bytes)
    }

    pub fn idle_mib(&self) -> f64 {
        mib(self.idle_bytes)
    }

    pub fn kib_per_connection(&self) -> f64 {
        let grown = self.idle_bytes.saturating_sub(self.fresh_bytes);
        grown as f64 / 1_024.0 / IDLE_CONNECTIONS as f64
    }
}

impl IdleCell {
    pub const fn new(contestant: ProxyContestant) -> Self {
        Self {
            contestant,
            samples: Vec::new(),
        }
    }

    pub fn median(&self, figure: fn(&IdleSample) -> f64) -> f64 {
        median(self.samples.iter().map(figure)).unwrap_or(f64::NAN)
    }
}
