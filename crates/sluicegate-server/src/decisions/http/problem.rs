//! What was wrong with a question, as RFC 9457 has it.

use std::borrow::Cow;

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::Full;
use serde::Serialize;
use sluicegate_core::{MissingKey, MissingReason};

use super::Reply;

/// A question that has no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(in crate::decisions) struct Problem {
    title: &'static str,
    #[serde(serialize_with = "as_number")]
    status: StatusCode,
    detail: Cow<'static, str>,
    /// Where in the JSON, or which header.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    /// The limit that asked for more.
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
            short(detail.into()),
        );
        Self {
            title,
            status,
            detail,
            field: None,
            limit: None,
        }
    }

    /// A mistake in a field of the question.
    pub(in crate::decisions) fn of_field(
        field: impl Into<String>,
        what: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            field: Some(short(field.into().into()).into_owned()),
            ..Self::new(StatusCode::BAD_REQUEST, what)
        }
    }

    /// A question that does not say whose counter it is about.
    pub(in crate::decisions) fn unidentified(missing: &MissingKey, is_by_name: bool) -> Self {
        let field = match (missing.reason, is_by_name) {
            (MissingReason::UnknownLimit, _) => "limit",
            (_, true) => "key",
            (_, false) => "subject",
        };
        let limit = short(missing.limit.clone().into()).into_owned();
        Self {
            limit: Some(limit),
            ..Self::of_field(field, missing.to_string())
        }
    }

    /// The place and what is wrong there.
    pub(in crate::decisions) fn in_words(&self) -> String {
        match &self.field {
            Some(field) => format!("{field}: {}", self.detail),
            None => self.detail.clone().into_owned(),
        }
    }

    pub(in crate::decisions) fn reply(&self) -> Reply {
        let mut reply = Response::new(Full::new(super::reply::json_bytes(self)));
        *reply.status_mut() = self.status;
        reply.headers_mut().insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        reply
    }
}

impl From<Problem> for Reply {
    fn from(problem: Problem) -> Self {
        problem.reply()
    }
}

/// Nobody reads more, and callers may have sent what stands in it.
fn short(text: Cow<'static, str>) -> Cow<'static, str> {
    const LONGEST: usize = 300;
    if text.len() <= LONGEST {
        return text;
    }
    format!("{}…", &text[..text.floor_char_boundary(LONGEST)]).into()
}

fn as_number<S: serde::Serializer>(status: &StatusCode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u16(status.as_u16())
}
