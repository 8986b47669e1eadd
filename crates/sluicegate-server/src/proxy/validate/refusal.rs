//! Why a request is refused, and how.

use std::fmt;

use http::StatusCode;

/// Why a request is refused before it is counted or forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// CONNECT: this is no forward proxy.
    Connect,
    /// TRACE: it would show the caller what is added for the servers behind.
    Trace,
    /// The method has more than 32 bytes.
    Method,
    /// The target is longer than configured.
    TargetTooLong,
    /// The target is no path, and not `OPTIONS *`.
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
    /// `Host` is there more than once.
    RepeatedHost,
    /// `Host` or the target's authority is no host.
    MalformedHost,
    /// `Host` and the target's authority differ.
    OtherHost,
    /// `Content-Length` is there more than once.
    RepeatedLength,
    /// `Content-Length` is no number.
    MalformedLength,
    /// `Transfer-Encoding` is anything but `chunked`.
    Coding,
    /// `Transfer-Encoding` is there in HTTP/1.0.
    CodingInHttp10,
    /// `Transfer-Encoding` and `Content-Length` are both there.
    CodingBesideLength,
    /// A request that changes the protocol has a body.
    UpgradeWithBody,
    /// The body is longer than configured.
    BodyTooLong,
    /// A header that belongs to a connection, in HTTP/2.
    ConnectionHeader(&'static str),
    /// `Expect` is anything but `100-continue`.
    Expectation,
}

impl Refusal {
    /// What the caller is answered.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Connect | Self::Trace => StatusCode::METHOD_NOT_ALLOWED,
            Self::TargetTooLong => StatusCode::URI_TOO_LONG,
            Self::TooManyHeaders | Self::HeadersTooLarge => {
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE
            }
            Self::BodyTooLong => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Expectation => StatusCode::EXPECTATION_FAILED,
            _ => StatusCode::BAD_REQUEST,
        }
    }

    /// Whether the connection must end: where this request ends, and the next begins, is in doubt.
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

impl fmt::Display for Refusal {
    /// One sentence that names the part and never its value.
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
            Self::Expectation => "Expect is not 100-continue",
        })
    }
}

impl std::error::Error for Refusal {}
