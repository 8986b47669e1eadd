//! The series of the configuration: which one is in force, and how reloads went.

use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::labels::{LabelCounters, ReloadResult};

/// The series of the configuration.
#[derive(Debug)]
pub(super) struct ConfigSeries {
    pub(super) version: Gauge,
    /// Equal on all replicas with the same file.
    pub(super) hash: Gauge,
    reloads: LabelCounters<ReloadResult>,
    /// 1 or 0.
    last_reload_successful: Gauge,
    /// In seconds since 1970.
    last_reload: Gauge,
}

impl ConfigSeries {
    /// Made at the start, which counts as a successful load.
    pub(super) fn new(registry: &mut Registry) -> Self {
        let mut gauge = |name: &str, help: &str| {
            let gauge = Gauge::default();
            registry.register(name, help, gauge.clone());
            gauge
        };
        let version = gauge(
            "sluicegate_config_version",
            "The version of the configuration in force",
        );
        let hash = gauge(
            "sluicegate_config_hash",
            "The first 48 bits of the hash of the configuration in force",
        );
        let help = "1 when the last attempt to reload the configuration succeeded";
        let last_reload_successful = gauge("sluicegate_config_last_reload_successful", help);
        last_reload_successful.set(1);
        let last_reload = Gauge::default();
        last_reload.set(unix_seconds());
        let help = "Time of the last successful load of the configuration";
        registry.register_with_unit(
            "sluicegate_config_last_reload_timestamp",
            help,
            Unit::Seconds,
            last_reload.clone(),
        );
        let reloads = LabelCounters::new(
            "sluicegate_config_reloads",
            "Attempts to reload the configuration",
            registry,
        );
        Self {
            version,
            hash,
            reloads,
            last_reload_successful,
            last_reload,
        }
    }

    /// Counts a reload. An unchanged configuration is a success: the file is valid.
    pub(super) fn reloaded(&self, result: ReloadResult) {
        self.reloads.add(result);
        let is_accepted = result != ReloadResult::Refused;
        self.last_reload_successful.set(i64::from(is_accepted));
        if is_accepted {
            self.last_reload.set(unix_seconds());
        }
    }
}

fn unix_seconds() -> i64 {
    let since_1970 = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since_1970.as_secs()).unwrap_or(i64::MAX)
}
