//! The responses to requests that are not forwarded.
//!
//! One [`Rejection`] has three shapes, chosen by the request's headers ([`BodyFormat`]): plain text
//! for everybody, problem details for callers that prefer JSON, and for gRPC an HTTP 200 whose
//! headers carry the status, because a gRPC client does not read the one of HTTP. A limit with an
//! [`OwnRejection`] replaces status and body of the first two, and adds headers to all.
//!
//! **Invariant:** a rejection names limits, key parts and the names of headers as they are
//! configured, and never a value that the caller sent: it may be a secret, and it may be crafted to
//! be shown to somebody else. The one exception is the id of the request, of which only plain
//! letters are accepted ([`sent_request_id`]).

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use sluicegate_core::{
    AmbiguousPath, Decision, FailureStatus, KeyPart, Limit, MissingKey, Outcome, OwnBody,
    OwnRejection, RejectionValues,
};

use super::accept::prefers_json;
use super::extract::{AmbiguousHeader, Misread};
use super::headers::{ResponseHeaders, retry_after_secs};
use super::problem_json::ProblemJson;
use super::request_id::sent_request_id;
use super::response_fields::{ResponseFields, push_number};

/// The reason why a request is not forwarded, and the response that says so.
///
/// ```
/// use http::HeaderMap;
/// use sluicegate::FailureStatus;
/// use sluicegate::http::{Rejection, ResponseHeaders};
///
/// let rejection = Rejection::Unavailable(FailureStatus::default());
/// let response = rejection.respond(&HeaderMap::new(), &ResponseHeaders::default());
/// assert_eq!(response.status(), 503);
/// assert_eq!(&response.body()[..], b"Service Unavailable");
/// assert_eq!(response.headers()["retry-after"], "1");
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Rejection<'a> {
    /// A limit is spent: 429, or as the first limit that denied has it.
    Limited(&'a Decision),
    /// The store is away and the policy is closed: 503, or as configured.
    Unavailable(FailureStatus),
    /// The request lacks what a limit is keyed by: 400.
    Unidentified(&'a MissingKey),
    /// The request has a header that servers may take for one that a limit is keyed by: 400.
    AmbiguousHeader(&'a AmbiguousHeader),
    /// Servers read the path differently: 400.
    AmbiguousPath(AmbiguousPath),
    /// The path, in its normal spelling, is longer than a request target may be: 414.
    PathTooLong,
    /// The method is not in capitals: 501.
    MethodCase,
}

impl<'a> From<&'a Misread> for Rejection<'a> {
    fn from(misread: &'a Misread) -> Self {
        match misread {
            Misread::AmbiguousPath(ambiguous) => Self::AmbiguousPath(*ambiguous),
            Misread::AmbiguousHeader(ambiguous) => Self::AmbiguousHeader(ambiguous),
            Misread::PathTooLong => Self::PathTooLong,
            Misread::MethodCase => Self::MethodCase,
        }
    }
}

impl Rejection<'_> {
    /// The wait while the store is away: it is asked again by every request, so one that heals is
    /// back within a second.
    const UNAVAILABLE_RETRY_SECS: u64 = 1;

    /// The HTTP status. A gRPC caller gets 200 and reads `grpc-status` instead.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Limited(decision) => {
                let own = decision.own_rejection().and_then(|(_, own)| own.status());
                own.map_or(StatusCode::TOO_MANY_REQUESTS, |status| {
                    StatusCode::from_u16(status).expect("400 to 599 are statuses")
                })
            }
            Self::Unavailable(status) => {
                StatusCode::from_u16(status.get()).expect("400 to 599 are statuses")
            }
            Self::Unidentified(_) | Self::AmbiguousHeader(_) | Self::AmbiguousPath(_) => {
                StatusCode::BAD_REQUEST
            }
            Self::PathTooLong => StatusCode::URI_TOO_LONG,
            Self::MethodCase => StatusCode::NOT_IMPLEMENTED,
        }
    }

    /// The response, in the format that the request's headers ask for: gRPC, problem details in
    /// JSON, or plain text.
    ///
    /// A spent limit and an absent store carry `Retry-After`. A 400 names the limit and the part of
    /// its key, never a value that the caller sent. The placeholder `{request_id}` of an
    /// [`OwnRejection`] is the request's [`sent_request_id`], or `-`.
    pub fn respond(
        &self,
        request_headers: &HeaderMap,
        headers: &ResponseHeaders,
    ) -> Response<Bytes> {
        let mut fields = HeaderMap::with_capacity(FIELDS);
        let request_id = sent_request_id(request_headers).unwrap_or("-");
        let (status, body) = self.write(request_headers, headers, request_id, &mut fields);
        let mut response = Response::new(body);
        (*response.status_mut(), *response.headers_mut()) = (status, fields);
        response
    }

    /// The same for a server whose responses are not `http::Response`, or which names requests
    /// itself: writes the header lines, and returns status and body.
    pub fn write(
        &self,
        request_headers: &HeaderMap,
        headers: &ResponseHeaders,
        request_id: &str,
        fields: &mut impl ResponseFields,
    ) -> (StatusCode, Bytes) {
        let format = BodyFormat::for_request(request_headers);
        let own = self.own(request_id);
        let own_body = own.as_ref().and_then(|own| own.body_for(format));
        let content_type = own_body.map_or(format.content_type(), |body| &body.content_type);
        fields.append(&CONTENT_TYPE, |text| {
            text.extend_from_slice(content_type.as_bytes())
        });
        if let Some(seconds) = self.retry_after_secs() {
            fields.append(&RETRY_AFTER, |text| push_number(text, seconds));
        }
        if let Self::Limited(decision) = self {
            headers.write(decision, fields);
        }
        if let Some(own) = &own {
            own.write_headers(fields);
        }
        let status = match format {
            BodyFormat::Text | BodyFormat::Json => self.status(),
            BodyFormat::Grpc | BodyFormat::GrpcWeb => {
                fields.append(&GRPC_STATUS, |text| push_number(text, self.grpc_status()));
                fields.append(&GRPC_MESSAGE, |text| {
                    push_grpc_message(text, &self.sentence())
                });
                StatusCode::OK
            }
        };
        let body = match (own, own_body) {
            (Some(own), Some(body)) => own.filled(body),
            _ => self.body(format),
        };
        (status, body)
    }

    /// The rejection of the limit's own, if it has one, with the values to fill in.
    fn own<'b>(&'b self, request_id: &'b str) -> Option<FilledRejection<'b>> {
        let Self::Limited(decision) = self else {
            return None;
        };
        let (limit, own) = decision.own_rejection()?;
        Some(FilledRejection::new(limit, own, decision, request_id))
    }

    /// The value of `Retry-After`; `None` where waiting does not help.
    fn retry_after_secs(&self) -> Option<u64> {
        match self {
            Self::Limited(decision) => Some(retry_after_secs(decision)),
            Self::Unavailable(_) => Some(Self::UNAVAILABLE_RETRY_SECS),
            Self::Unidentified(_)
            | Self::AmbiguousHeader(_)
            | Self::AmbiguousPath(_)
            | Self::PathTooLong
            | Self::MethodCase => None,
        }
    }

    /// The status of gRPC: `RESOURCE_EXHAUSTED`, `UNAVAILABLE` or `INVALID_ARGUMENT`.
    fn grpc_status(&self) -> u64 {
        match self {
            Self::Limited(_) => 8,
            Self::Unavailable(_) => 14,
            Self::Unidentified(_)
            | Self::AmbiguousHeader(_)
            | Self::AmbiguousPath(_)
            | Self::PathTooLong
            | Self::MethodCase => 3,
        }
    }

    fn body(&self, format: BodyFormat) -> Bytes {
        match (format, self) {
            (BodyFormat::Grpc | BodyFormat::GrpcWeb, _) => Bytes::new(),
            // The frequent ones allocate nothing.
            (BodyFormat::Text, Self::Limited(_) | Self::Unavailable(_)) => {
                Bytes::from_static(self.reason_phrase().as_bytes())
            }
            (BodyFormat::Text, _) => self.sentence().into(),
            (BodyFormat::Json, _) => self.problem().into(),
        }
    }

    /// The reason phrase of the status.
    fn reason_phrase(&self) -> &'static str {
        // Only a status that was configured may have no phrase of its own.
        let instead = match self {
            Self::Limited(_) => LIMITED,
            _ => "Service Unavailable",
        };
        self.status().canonical_reason().unwrap_or(instead)
    }

    /// The reason in one line, for plain text and gRPC.
    fn sentence(&self) -> String {
        match self {
            // Beside a gRPC status, which is always the same one.
            Self::Limited(_) => LIMITED.to_owned(),
            Self::Unavailable(_) | Self::PathTooLong => self.reason_phrase().to_owned(),
            Self::Unidentified(missing) => format!("{KEY_EXTRACTION_FAILED}: {missing}"),
            Self::AmbiguousHeader(ambiguous) => format!("{KEY_EXTRACTION_FAILED}: {ambiguous}"),
            Self::AmbiguousPath(ambiguous) => format!("{AMBIGUOUS_PATH}: {ambiguous}"),
            Self::MethodCase => METHOD_CASE.to_owned(),
        }
    }

    /// The reason as problem details of RFC 9457. A spent limit has the type that the RateLimit
    /// draft registers; `code` is for programs, `detail` for people.
    fn problem(&self) -> String {
        let (problem_type, title) = match self {
            Self::Limited(_) => (QUOTA_EXCEEDED, "Quota exceeded"),
            _ => ("about:blank", self.reason_phrase()),
        };
        let mut problem = ProblemJson::new(problem_type, title, self.status().as_u16());
        if let Some(seconds) = self.retry_after_secs() {
            problem.number("retry_after", seconds);
        }
        match self {
            Self::Limited(decision) => {
                problem.texts(
                    "violated-policies",
                    decision.denials().map(|(limit, _)| limit.name.as_str()),
                );
                let is_too_large = |outcome: &Outcome| matches!(outcome, Outcome::TooLarge { .. });
                if decision
                    .denials()
                    .any(|(_, charged)| is_too_large(&charged.outcome))
                {
                    problem.text("detail", "the request costs more than the limit ever holds");
                }
            }
            Self::Unavailable(_) | Self::PathTooLong => {}
            Self::MethodCase => problem.text("detail", METHOD_CASE),
            Self::Unidentified(missing) => {
                problem.text("code", KEY_EXTRACTION_FAILED);
                problem.text("limit", &missing.limit);
                if let Some(part) = &missing.part {
                    problem.text("part", &part.to_string());
                }
                problem.text("detail", &missing.to_string());
            }
            Self::AmbiguousHeader(ambiguous) => {
                problem.text("code", KEY_EXTRACTION_FAILED);
                problem.text("limit", &ambiguous.limit);
                let part = KeyPart::Header(ambiguous.header.clone());
                problem.text("part", &part.to_string());
                problem.text("detail", &ambiguous.to_string());
            }
            Self::AmbiguousPath(ambiguous) => {
                problem.text("code", AMBIGUOUS_PATH);
                problem.text("detail", &ambiguous.to_string());
            }
        }
        problem.finish()
    }
}

/// The sentence about a method that is not in capitals.
const METHOD_CASE: &str = "methods are in capitals";
/// A rejection of a limit's own, with the values of one denial.
struct FilledRejection<'a> {
    own: &'a OwnRejection,
    values: RejectionValues<'a>,
}

impl<'a> FilledRejection<'a> {
    fn new(
        limit: &'a Limit,
        own: &'a OwnRejection,
        decision: &Decision,
        request_id: &'a str,
    ) -> Self {
        let values = RejectionValues {
            limit: &limit.name,
            retry_after_secs: retry_after_secs(decision),
            request_id,
        };
        Self { own, values }
    }

    /// The body for a caller who reads bodies.
    fn body_for(&self, format: BodyFormat) -> Option<&'a OwnBody> {
        match format {
            BodyFormat::Text | BodyFormat::Json => self.own.body(),
            BodyFormat::Grpc | BodyFormat::GrpcWeb => None,
        }
    }

    fn write_headers(&self, fields: &mut impl ResponseFields) {
        for (name, value) in self.own.headers() {
            // Always `Ok`, because the name was checked when the rejection was made.
            if let Ok(name) = HeaderName::from_bytes(name.as_bytes()) {
                fields.append(&name, |text| value.fill(&self.values, text));
            }
        }
    }

    /// The bytes of a body; one without placeholders is not copied.
    fn filled(&self, body: &OwnBody) -> Bytes {
        /// Room for the values.
        const VALUES: usize = 64;
        if let Some(fixed) = body.text.as_fixed() {
            return Bytes::from_owner(SharedText(Arc::clone(fixed)));
        }
        let mut text = Vec::with_capacity(body.text.fixed_len() + VALUES);
        body.text.fill(&self.values, &mut text);
        text.into()
    }
}

/// A text as bytes.
struct SharedText(Arc<str>);

impl AsRef<[u8]> for SharedText {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// The phrase of a spent limit.
const LIMITED: &str = "Too Many Requests";
/// About as many header lines as a rejection has, to allocate once.
const FIELDS: usize = 12;
/// The problem type of a spent limit, from the IANA registry.
const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";
const KEY_EXTRACTION_FAILED: &str = "key_extraction_failed";
const AMBIGUOUS_PATH: &str = "ambiguous_path";
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// The format of a rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyFormat {
    Text,
    /// Problem details.
    Json,
    /// HTTP 200 without a body: what would be trailers is in the headers.
    Grpc,
    /// The same for browsers.
    GrpcWeb,
}

impl BodyFormat {
    /// The format for the sender of these headers. gRPC is known by its `Content-Type`, before
    /// `Accept` is read: its clients send one too, and mean something else by it.
    fn for_request(headers: &HeaderMap) -> Self {
        let content_type = headers
            .get(CONTENT_TYPE)
            .map_or(&b""[..], HeaderValue::as_bytes);
        let is = |prefix: &[u8]| {
            content_type
                .get(..prefix.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
        };
        if is(b"application/grpc-web") {
            Self::GrpcWeb
        } else if is(b"application/grpc") {
            Self::Grpc
        } else if prefers_json(headers) {
            Self::Json
        } else {
            Self::Text
        }
    }

    fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; charset=utf-8",
            Self::Json => "application/problem+json",
            Self::Grpc => "application/grpc",
            Self::GrpcWeb => "application/grpc-web",
        }
    }
}

/// Writes the value of `grpc-message`: everything but printable ASCII is percent-encoded, and so is
/// the percent sign.
fn push_grpc_message(text: &mut Vec<u8>, message: &str) {
    for byte in message.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => text.push(byte),
            _ => text.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grpc_messages_escape_what_is_not_printable_ascii() {
        let written = |message: &str| {
            let mut text = Vec::new();
            push_grpc_message(&mut text, message);
            String::from_utf8(text).unwrap()
        };
        assert_eq!(written("Too Many Requests"), "Too Many Requests");
        assert_eq!(written("100% caf\u{e9}\r\n"), "100%25 caf%C3%A9%0D%0A");
    }
}
