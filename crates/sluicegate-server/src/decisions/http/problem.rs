//! Errors of the JSON API as problem details (RFC 9457).

use std::borrow::Cow;

use http::StatusCode;
use serde::Serialize;
use sluicegate::http::Misread;
use sluicegate_core::{MissingKey, MissingReason};
use sluicegate_gate::admission::Refusal;

use super::HttpReply;
use crate::json_request::{QuestionError, shortened};

/// The reason why a request has no answer, as it is written to the caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(in crate::decisions) struct Problem {
    title: &'static str,
    #[serde(serialize_with = "as_number")]
    status: StatusCode,
    detail: Cow<'static, str>,
    /// The path within the JSON, or the name of a header.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    /// The limit whose counter the request does not identify.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<String>,
}

impl Problem {
    pub(in crate::decisions) fn new(
        status: StatusCode,
        detail: impl Into<Cow<'static, str>>,
    ) -> Self {
        let (title, detail) = (
            status.canonical_reason().unwrap_or("Problem"),
            shortened(detail.into()),
        );
        Self {
            title,
            status,
            detail,
            field: None,
            limit: None,
        }
    }

    /// A mistake in a field of the request.
    pub(in crate::decisions) fn of_field(
        field: impl Into<String>,
        what: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            field: Some(shortened(field.into().into()).into_owned()),
            ..Self::new(StatusCode::BAD_REQUEST, what)
        }
    }

    /// A request that does not identify a counter: the limit is unknown, or a part of its key is
    /// missing.
    pub(in crate::decisions) fn unidentified(missing: &MissingKey, is_by_name: bool) -> Self {
        let field = match (missing.reason, is_by_name) {
            (MissingReason::UnknownLimit | MissingReason::LimitIsOff, _) => "limit",
            (_, true) => "key",
            (_, false) => "subject",
        };
        let limit = shortened(missing.limit.clone().into()).into_owned();
        Self {
            limit: Some(limit),
            ..Self::of_field(field, missing.to_string())
        }
    }

    /// A refusal that is no answer to a check; `is_by_name` when one counter was asked about.
    pub(in crate::decisions) fn of_refusal(refusal: &Refusal, is_by_name: bool) -> Self {
        match refusal {
            Refusal::Unidentified(missing) => Self::unidentified(missing, is_by_name),
            Refusal::Misread(Misread::AmbiguousHeader(twin)) => {
                Self::of_field("subject.headers", twin.to_string())
            }
            Refusal::Misread(Misread::AmbiguousPath(ambiguous)) => {
                Self::of_field("subject.path", ambiguous.to_string())
            }
            Refusal::Misread(Misread::MethodCase) => {
                Self::of_field("subject.method", "must be in capitals, as in GET")
            }
            Refusal::Misread(Misread::PathTooLong) => Self::of_field("subject.path", "is too long"),
            // These are answers, or are never asked about here.
            Refusal::Banned
            | Refusal::Unauthorized(_)
            | Refusal::KeysUnavailable(_)
            | Refusal::Limited(_)
            | Refusal::Unavailable { .. } => {
                Self::new(StatusCode::FORBIDDEN, "the caller may not pass")
            }
        }
    }

    pub(in crate::decisions) fn reply(&self) -> HttpReply {
        let body = super::reply::json_bytes(self);
        HttpReply {
            status: self.status,
            ..HttpReply::with_type("application/problem+json", body)
        }
    }
}

impl From<QuestionError> for Problem {
    fn from(error: QuestionError) -> Self {
        Self {
            field: error.field,
            ..Self::new(StatusCode::BAD_REQUEST, error.detail)
        }
    }
}

impl From<Problem> for HttpReply {
    fn from(problem: Problem) -> Self {
        problem.reply()
    }
}

fn as_number<S: serde::Serializer>(status: &StatusCode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u16(status.as_u16())
}
