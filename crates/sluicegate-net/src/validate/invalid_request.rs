//! Reasons for which a request is refused, and the response to each.

use std::fmt;

use http::StatusCode;

/// Reason for which a request is refused before it is counted or forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InvalidRequest {
    /// The method is CONNECT: this is no forward proxy.
    Connect,
    /// The method is TRACE: it would show the caller the headers that are added for servers.
    Trace,
    /// The method has more than 32 bytes.
    Method,
    /// The target is longer than configured.
    TargetTooLong,
    /// The target is neither a path nor the `*` of OPTIONS.
    TargetForm,
    /// The target's scheme is neither `http` nor `https`.
    Scheme,
    /// The target names a user.
    Userinfo,
    /// The target has bytes outside ASCII.
    TargetBytes,
    /// There are more header lines than configured.
    TooManyHeaders,
    /// The head is larger than configured.
    HeadersTooLarge,
    /// `Host` is missing.
    NoHost,
    /// There is more than one `Host`.
    RepeatedHost,
    /// `Host` or the target's authority is malformed.
    MalformedHost,
    /// `Host` and the target's authority differ.
    OtherHost,
    /// There is more than one `Content-Length`.
    RepeatedLength,
    /// `Content-Length` is not a number.
    MalformedLength,
    /// `Transfer-Encoding` is anything but `chunked`.
    Coding,
    /// A request of HTTP/1.0 has a `Transfer-Encoding`.
    CodingInHttp10,
    /// There are both a `Transfer-Encoding` and a `Content-Length`.
    CodingBesideLength,
    /// A request that changes the protocol has a body.
    UpgradeWithBody,
    /// The body is longer than configured.
    BodyTooLong,
    /// A request of HTTP/2 has this header, which belongs to a connection of HTTP/1.
    ConnectionHeader(&'static str),
    /// A value begins or ends with a blank, over HTTP/2.
    Blanks,
    /// `Expect` is anything but `100-continue`.
    Expectation,
    /// The protocol of a stream of HTTP/2 is to become another than that of WebSocket.
    Protocol,
}

impl InvalidRequest {
    /// Status of the response.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Connect | Self::Trace => StatusCode::METHOD_NOT_ALLOWED,
            Self::TargetTooLong => StatusCode::URI_TOO_LONG,
            Self::TooManyHeaders | Self::HeadersTooLarge => {
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE
            }
            Self::BodyTooLong => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Expectation => StatusCode::EXPECTATION_FAILED,
            Self::Protocol => StatusCode::NOT_IMPLEMENTED,
            _ => StatusCode::BAD_REQUEST,
        }
    }

    /// Returns true when the connection must end: the end of this request, and so the beginning of
    /// the next, is in doubt.
    pub fn closes(&self) -> bool {
        matches!(
            self,
            Self::Connect
                | Self::RepeatedLength
                | Self::MalformedLength
                | Self::Coding
                | Self::CodingInHttp10
                | Self::CodingBesideLength
                | Self::UpgradeWithBody
        )
    }
}

impl fmt::Display for InvalidRequest {
    /// Writes a sentence that names the part and never its value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "the method CONNECT is not served",
            Self::Trace => "the method TRACE is not served",
            Self::Method => "the method is too long",
            Self::TargetTooLong => "the target is too long",
            Self::TargetForm => "the target is not a path",
            Self::Scheme => "the target's scheme is neither http nor https",
            Self::Userinfo => "the target names a user",
            Self::TargetBytes => "the target has bytes outside ASCII that are not escaped",
            Self::TooManyHeaders => "there are too many header lines",
            Self::HeadersTooLarge => "the request line and headers are too large",
            Self::NoHost => "Host is missing",
            Self::RepeatedHost => "Host is there more than once",
            Self::MalformedHost => "Host is malformed",
            Self::OtherHost => "Host differs from the target's authority",
            Self::RepeatedLength => "Content-Length is there more than once",
            Self::MalformedLength => "Content-Length is not a number",
            Self::Coding => "Transfer-Encoding is not chunked",
            Self::CodingInHttp10 => "Transfer-Encoding does not exist in HTTP/1.0",
            Self::CodingBesideLength => "Transfer-Encoding and Content-Length are both there",
            Self::UpgradeWithBody => "a request with Upgrade has a body",
            Self::BodyTooLong => "the body is too long",
            Self::ConnectionHeader(name) => return write!(f, "{name} does not exist in HTTP/2"),
            Self::Blanks => "a header's value begins or ends with a blank",
            Self::Expectation => "Expect is not 100-continue",
            Self::Protocol => "the protocol is not websocket",
        })
    }
}

impl std::error::Error for InvalidRequest {}
