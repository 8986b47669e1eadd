//! The limits of a caller as the rest of the program sees them: checked, typed, ready to use.
//!
//! `reply.rs` makes an [`ExternalLimits`] from what the service writes; nothing behind it looks at
//! the service's own format again.

use std::sync::Arc;

use sluicegate_core::{FailureStatus, Nanos, Quota};

use super::backend::Backend;

/// The limits that apply to a caller, and where they came from.
#[derive(Clone, Debug, PartialEq)]
pub enum ResolvedLimits {
    /// A reply of the service, current or expired (see [`ExternalLimits::is_stale`]).
    External(Arc<ExternalLimits>),
    /// There is no reply, so the quota in the configuration applies.
    Configured,
}

/// A reply of the service after all checks.
///
/// Fields that the service leaves out keep what the configuration says.
#[derive(Clone, Debug, PartialEq)]
pub struct ExternalLimits {
    /// How much the caller may spend; `None` is unlimited.
    pub quota: Option<Quota>,
    /// The counter that is charged instead of the caller's own, so that callers can share one.
    pub tenant: Option<String>,
    /// How the caller's requests are treated while the store is away.
    pub on_failure: Option<TenantPolicy>,
    /// The status of a refusal while the store is away, whichever policy refuses; `None` is the
    /// configured one.
    pub failure_status: Option<FailureStatus>,
    /// The server that gets the caller's requests instead of the configured ones.
    pub backend: Option<Backend>,
    /// The longest time from the end of a request's header to the beginning of its response.
    pub request_timeout: Option<Nanos>,
    /// True for an expired reply that is used because no newer one could be had.
    pub is_stale: bool,
}

/// A failure policy as the service names it: the status of a refusal comes beside it, or from the
/// configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TenantPolicy {
    /// Requests pass unchecked.
    Open,
    /// Requests are rejected.
    Closed,
    /// Each replica enforces the quota on its own.
    Local,
}

impl ExternalLimits {
    /// The same limits, marked as expired.
    pub(super) fn as_stale(&self) -> Self {
        Self {
            is_stale: true,
            ..self.clone()
        }
    }
}
