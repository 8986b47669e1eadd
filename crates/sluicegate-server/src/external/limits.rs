//! What the service says about a caller.

use std::sync::Arc;

use sluicegate_core::{FailurePolicy, FailureStatus, Nanos, Quota};

use super::backend::Backend;

/// What is known about a caller.
#[derive(Clone, Debug, PartialEq)]
pub enum ResolvedLimits {
    /// What the service said, now or a while ago.
    External(Arc<ExternalLimits>),
    /// Nobody knows: the limit's own quota holds.
    Configured,
}

/// An answer of the service, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct ExternalLimits {
    /// What the caller may spend; `None` is unlimited.
    pub quota: Option<Quota>,
    /// The counter that is charged in place of the caller's own.
    pub tenant: Option<String>,
    /// What happens to the caller's requests while the store is away.
    pub on_failure: Option<FailurePolicy>,
    /// The status of such a refusal, whoever says that there is one.
    pub failure_status: Option<FailureStatus>,
    /// Where the caller's requests go, if not to the usual servers.
    pub backend: Option<Backend>,
    /// From the end of a request's header to the beginning of its answer.
    pub request_timeout: Option<Nanos>,
    /// Whether this is an older answer, in place of one that did not come.
    pub is_stale: bool,
}

impl ExternalLimits {
    /// The same, as something that was true a while ago.
    pub(super) fn as_stale(&self) -> Self {
        Self {
            is_stale: true,
            ..self.clone()
        }
    }
}
