//! The responses to requests that are not forwarded.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use sluicegate_core::{AmbiguousPath, Decision, FailureStatus, KeyPart, MissingKey, Outcome};

use super::accept::prefers_json;
use super::extract::AmbiguousHeader;
use super::headers::{ResponseHeaders, retry_after_secs};
use super::response_fields::{ResponseFields, push_number};

/// Why a request is not forwarded.
#[derive(Clone, Copy, Debug)]
pub enum Rejection<'a> {
    /// A limit is spent: 429.
    Limited(&'a Decision),
    /// The store is away and the policy is closed: 503, or as configured.
    Unavailable(FailureStatus),
    /// The request lacks what a limit is keyed by: 400.
    Unidentified(&'a MissingKey),
    /// The request has a header that passes for one that a limit is keyed by: 400.
    AmbiguousHeader(&'a AmbiguousHeader),
    /// Servers read the path differently: 400.
    AmbiguousPath(AmbiguousPath),
    /// The path, in its one spelling, is longer than a target may be: 414.
    PathTooLong,
}

impl Rejection<'_> {
    /// A store that heals is back within a second.
    const UNAVAILABLE_RETRY_SECS: u64 = 1;

    /// The status, which a gRPC caller gets as `grpc-status` instead.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Limited(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::Unavailable(status) => {
                StatusCode::from_u16(status.get()).expect("400 to 599 are statuses")
            }
            Self::Unidentified(_) | Self::AmbiguousHeader(_) | Self::AmbiguousPath(_) => {
                StatusCode::BAD_REQUEST
            }
            Self::PathTooLong => StatusCode::URI_TOO_LONG,
        }
    }

    /// The response, in the form that the request's headers ask for: gRPC, problem details in JSON, or plain text.
    ///
    /// A spent limit and an absent store carry `Retry-After`. A 400 names the limit and the part of its key, never what the caller sent.
    pub fn respond(
        &self,
        request_headers: &HeaderMap,
        headers: &ResponseHeaders,
    ) -> Response<Bytes> {
        let mut fields = HeaderMap::with_capacity(FIELDS);
        let (status, body) = self.write(request_headers, headers, &mut fields);
        let mut response = Response::new(body);
        (*response.status_mut(), *response.headers_mut()) = (status, fields);
        response
    }

    /// The same for a front door of another shape: writes the lines, and gives status and body.
    pub fn write(
        &self,
        request_headers: &HeaderMap,
        headers: &ResponseHeaders,
        fields: &mut impl ResponseFields,
    ) -> (StatusCode, Bytes) {
        let form = BodyFormat::for_caller(request_headers);
        fields.append(&CONTENT_TYPE, |text| {
            text.extend_from_slice(form.content_type().as_bytes())
        });
        if let Some(seconds) = self.retry_after_secs() {
            fields.append(&RETRY_AFTER, |text| push_number(text, seconds));
        }
        if let Self::Limited(decision) = self {
            headers.write(decision, fields);
        }
        let status = match form {
            BodyFormat::Text | BodyFormat::Json => self.status(),
            BodyFormat::Grpc | BodyFormat::GrpcWeb => {
                fields.append(&GRPC_STATUS, |text| push_number(text, self.grpc_status()));
                fields.append(&GRPC_MESSAGE, |text| {
                    push_grpc_message(text, &self.sentence())
                });
                StatusCode::OK
            }
        };
        (status, self.body(form))
    }

    fn retry_after_secs(&self) -> Option<u64> {
        match self {
            Self::Limited(decision) => Some(retry_after_secs(decision)),
            Self::Unavailable(_) => Some(Self::UNAVAILABLE_RETRY_SECS),
            Self::Unidentified(_)
            | Self::AmbiguousHeader(_)
            | Self::AmbiguousPath(_)
            | Self::PathTooLong => None,
        }
    }

    /// `RESOURCE_EXHAUSTED`, `UNAVAILABLE`, `INVALID_ARGUMENT`.
    fn grpc_status(&self) -> u64 {
        match self {
            Self::Limited(_) => 8,
            Self::Unavailable(_) => 14,
            Self::Unidentified(_)
            | Self::AmbiguousHeader(_)
            | Self::AmbiguousPath(_)
            | Self::PathTooLong => 3,
        }
    }

    fn body(&self, form: BodyFormat) -> Bytes {
        match (form, self) {
            (BodyFormat::Grpc | BodyFormat::GrpcWeb, _) => Bytes::new(),
            (BodyFormat::Text, Self::Limited(_) | Self::Unavailable(_)) => {
                Bytes::from_static(self.phrase().as_bytes())
            }
            (BodyFormat::Text, _) => self.sentence().into(),
            (BodyFormat::Json, _) => self.problem().into(),
        }
    }

    /// The words that belong to the status.
    fn phrase(&self) -> &'static str {
        // Only a status that was configured may have no words of its own.
        self.status()
            .canonical_reason()
            .unwrap_or("Service Unavailable")
    }

    fn sentence(&self) -> String {
        match self {
            Self::Limited(_) | Self::Unavailable(_) | Self::PathTooLong => self.phrase().to_owned(),
            Self::Unidentified(missing) => format!("{KEY_EXTRACTION_FAILED}: {missing}"),
            Self::AmbiguousHeader(twin) => format!("{KEY_EXTRACTION_FAILED}: {twin}"),
            Self::AmbiguousPath(ambiguous) => format!("{AMBIGUOUS_PATH}: {ambiguous}"),
        }
    }

    /// ProblemJson details as RFC 9457 has them.
    fn problem(&self) -> String {
        let mut problem = ProblemJson::new(self);
        if let Some(seconds) = self.retry_after_secs() {
            problem.number("retry_after", seconds);
        }
        match self {
            Self::Limited(decision) => {
                problem.names(
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
            Self::Unidentified(missing) => {
                problem.text("code", KEY_EXTRACTION_FAILED);
                problem.text("limit", &missing.limit);
                if let Some(part) = &missing.part {
                    problem.text("part", &part.to_string());
                }
                problem.text("detail", &missing.to_string());
            }
            Self::AmbiguousHeader(twin) => {
                problem.text("code", KEY_EXTRACTION_FAILED);
                problem.text("limit", &twin.limit);
                problem.text("part", &KeyPart::Header(twin.header.clone()).to_string());
                problem.text("detail", &twin.to_string());
            }
            Self::AmbiguousPath(ambiguous) => {
                problem.text("code", AMBIGUOUS_PATH);
                problem.text("detail", &ambiguous.to_string());
            }
        }
        problem.finish()
    }
}

/// About as many headers as a response has.
const FIELDS: usize = 12;
const KEY_EXTRACTION_FAILED: &str = "key_extraction_failed";
const AMBIGUOUS_PATH: &str = "ambiguous_path";
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// The shapes of a rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyFormat {
    Text,
    Json,
    /// HTTP 200 without a body: the trailers are in the headers.
    Grpc,
    GrpcWeb,
}

impl BodyFormat {
    fn for_caller(headers: &HeaderMap) -> Self {
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

/// Everything but printable ASCII is escaped, and the escape character.
fn push_grpc_message(text: &mut Vec<u8>, message: &str) {
    for byte in message.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => text.push(byte),
            _ => text.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
}

/// A JSON object, member by member.
struct ProblemJson(String);

impl ProblemJson {
    fn new(rejection: &Rejection<'_>) -> Self {
        let (kind, title) = match rejection {
            Rejection::Limited(_) => (
                "https://iana.org/assignments/http-problem-types#quota-exceeded",
                "Quota exceeded",
            ),
            _ => ("about:blank", rejection.phrase()),
        };
        let mut problem = Self("{".to_owned());
        problem.text("type", kind);
        problem.text("title", title);
        problem.number("status", rejection.status().as_u16().into());
        problem
    }

    fn text(&mut self, name: &str, value: &str) {
        self.name(name);
        self.string(value);
    }

    fn number(&mut self, name: &str, value: u64) {
        self.name(name);
        self.0.push_str(&value.to_string());
    }

    fn names<'a>(&mut self, name: &str, values: impl Iterator<Item = &'a str>) {
        self.name(name);
        self.0.push('[');
        for (place, value) in values.enumerate() {
            if place > 0 {
                self.0.push(',');
            }
            self.string(value);
        }
        self.0.push(']');
    }

    fn finish(mut self) -> String {
        self.0.push('}');
        self.0
    }

    fn name(&mut self, name: &str) {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        self.string(name);
        self.0.push(':');
    }

    fn string(&mut self, text: &str) {
        self.0.push('"');
        for letter in text.chars() {
            match letter {
                '"' | '\\' => self.0.extend(['\\', letter]),
                '\0'..' ' => self.0.push_str(&format!("\\u{:04x}", u32::from(letter))),
                _ => self.0.push(letter),
            }
        }
        self.0.push('"');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_letter_survives_a_json_string() {
        let text: String = ('\0'..'\u{300}').collect();
        let mut problem = ProblemJson(String::new());
        problem.string(&text);
        assert_eq!(serde_json::from_str::<String>(&problem.0).unwrap(), text);
    }

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
