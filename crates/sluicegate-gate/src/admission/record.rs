//! The facts that an admission leaves behind for the access log and the span of its request.
//!
//! Admission writes them as it learns them; the front door reads them when the request ends, also
//! when it was refused halfway.

use std::net::IpAddr;
use std::sync::OnceLock;

use sluicegate::http::Extracted;
use sluicegate_core::Decision;

use crate::telemetry::metrics::DecisionAnswer;

/// Facts about one admission, for the access log and the span of its request. Each is written once;
/// of a batch, the first answer counts.
#[derive(Debug, Default)]
pub struct AdmissionRecord {
    caller: OnceLock<CallerFacts>,
    principal: OnceLock<String>,
    answer: OnceLock<(DecisionAnswer, Option<String>)>,
}

/// The request as it was read.
#[derive(Debug)]
pub struct CallerFacts {
    /// The client's address, after trusted proxies were walked; `None` when the peer has none.
    pub client_ip: Option<IpAddr>,
    /// The host in its one spelling; `None` when the request names none.
    pub host: Option<String>,
    /// The path in its one spelling.
    pub path: String,
}

impl AdmissionRecord {
    /// The request as it was read; `None` when it was refused before.
    pub fn caller(&self) -> Option<&CallerFacts> {
        self.caller.get()
    }

    /// The verified principal.
    pub fn principal(&self) -> Option<&str> {
        self.principal.get().map(String::as_str)
    }

    /// The answer, as metrics call it; `None` before there is one.
    pub fn answer(&self) -> Option<DecisionAnswer> {
        self.answer.get().map(|(answer, _)| *answer)
    }

    /// The first limit that denied.
    pub fn limit(&self) -> Option<&str> {
        self.answer.get()?.1.as_deref()
    }

    /// Notes the answer, with the limit that denied.
    pub fn note_answer(&self, answer: DecisionAnswer, decision: Option<&Decision>) {
        let denied_by = || Some(decision?.denials().next()?.0.name.clone());
        self.answer.get_or_init(|| (answer, denied_by()));
    }

    /// Notes the request as it was read.
    pub(super) fn note_caller(&self, extracted: &Extracted<'_>) {
        self.caller.get_or_init(|| CallerFacts {
            client_ip: extracted.client_ip,
            host: extracted.host.as_deref().map(str::to_owned),
            path: extracted.path.to_string(),
        });
    }

    /// Notes the verified principal.
    pub(super) fn note_principal(&self, principal: &str) {
        self.principal.get_or_init(|| principal.to_owned());
    }
}
