//! The reasons why a request has no response of a server: the status that the client gets, the
//! label under which the server's failure is counted, and the text for the log.

use std::fmt;
use std::io;

use bytes::Bytes;
use http::StatusCode;
use http::header::RETRY_AFTER;
use sluicegate_gate::telemetry::metrics::UpstreamFailure;
use sluicegate_net::http2_client::Http2Error;
use sluicegate_net::{BodyError, ExchangeError, HttpResponse};

/// The reason why there is no response of a server.
#[derive(Debug)]
pub(super) enum ForwardFailure {
    /// No route covers the request.
    NoRoute,
    /// The server that the limits service names cannot be used.
    NoBackend(String),
    /// No server could be reached.
    Unreachable(io::Error),
    /// No server may have another connection, and none came free in time.
    Busy,
    /// An idle connection ended before the answer came: the request may never have arrived.
    Unanswered(io::Error),
    /// The connection broke before the answer came.
    Broken {
        reason: UpstreamFailure,
        words: String,
    },
    /// The client's body did not come to its end.
    Client,
    /// The answer did not come in time.
    TooLate,
    /// The client's body did not come in time.
    TooSlow,
    /// The request's body is larger than is allowed.
    TooLarge,
}

impl From<ExchangeError> for ForwardFailure {
    fn from(error: ExchangeError) -> Self {
        let words = error.to_string();
        match error {
            ExchangeError::NoResponse(error) => Self::Unanswered(error),
            ExchangeError::Closed(_) => Self::Broken {
                reason: UpstreamFailure::Closed,
                words,
            },
            ExchangeError::Protocol(_) => Self::Broken {
                reason: UpstreamFailure::Protocol,
                words,
            },
            ExchangeError::Body(BodyError::TooLarge) => Self::TooLarge,
            ExchangeError::Body(BodyError::Stalled) => Self::TooSlow,
            ExchangeError::Body(_) => Self::Client,
            ExchangeError::TimedOut => Self::TooLate,
        }
    }
}

impl From<Http2Error> for ForwardFailure {
    fn from(error: Http2Error) -> Self {
        match error {
            Http2Error::Unsent(_) => Self::Unanswered(io::ErrorKind::NotConnected.into()),
            Http2Error::Failed(error) => error.into(),
        }
    }
}

impl From<hyper::Error> for ForwardFailure {
    fn from(error: hyper::Error) -> Self {
        let mut source = std::error::Error::source(&error);
        while let Some(inner) = source {
            match inner.downcast_ref() {
                Some(BodyError::TooLarge) => return Self::TooLarge,
                Some(BodyError::Stalled) => return Self::TooSlow,
                Some(_) => return Self::Client,
                None => source = inner.source(),
            }
        }
        let reason = if error.is_parse() {
            UpstreamFailure::Protocol
        } else {
            UpstreamFailure::Closed
        };
        Self::Broken {
            reason,
            words: error.to_string(),
        }
    }
}

impl ForwardFailure {
    /// The label under which the server's failure is counted; `None` when it is
    /// not the server's, or was counted already.
    pub(super) fn reason(&self) -> Option<UpstreamFailure> {
        match self {
            Self::Broken { reason, .. } => Some(*reason),
            Self::Unanswered(_) => Some(UpstreamFailure::Closed),
            Self::TooLate => Some(UpstreamFailure::Timeout),
            // Counted for each server that was tried, or nothing that a server has done.
            Self::Unreachable(_)
            | Self::Busy
            | Self::NoRoute
            | Self::NoBackend(_)
            | Self::TooLarge
            | Self::TooSlow
            | Self::Client => None,
        }
    }

    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::NoRoute => StatusCode::NOT_FOUND,
            Self::NoBackend(_)
            | Self::Unreachable(_)
            | Self::Unanswered(_)
            | Self::Broken { .. } => StatusCode::BAD_GATEWAY,
            Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::Client => StatusCode::BAD_REQUEST,
            Self::TooLate => StatusCode::GATEWAY_TIMEOUT,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        }
    }

    /// The response to the client. It tells nothing about the servers; the log does.
    pub(super) fn answer(&self) -> HttpResponse<Bytes> {
        let status = self.status();
        let words = status.canonical_reason().unwrap_or_default();
        let mut answer = HttpResponse::plain_text(status, words);
        if matches!(self, Self::Busy) {
            answer
                .lines
                .append(&RETRY_AFTER, |text| text.extend_from_slice(b"1"));
        }
        answer
    }
}

impl fmt::Display for ForwardFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoute => f.write_str("no route covers the request"),
            Self::NoBackend(why) => write!(
                f,
                "the server that the limits service names cannot be used: {why}"
            ),
            Self::Unreachable(error) => write!(f, "no server could be reached: {error}"),
            Self::Busy => f.write_str(
                "every server has proxy.max_connections_per_upstream connections, and none came free",
            ),
            Self::Unanswered(error) => write!(
                f,
                "the server ended the connection without an answer: {error}"
            ),
            Self::Broken { words, .. } => write!(f, "the server broke off: {words}"),
            Self::Client => f.write_str("the client's body did not come to its end"),
            Self::TooLate => f.write_str("the server did not answer in time"),
            Self::TooSlow => f.write_str("the client's body did not come in time"),
            Self::TooLarge => f.write_str("the body is larger than proxy.max_body"),
        }
    }
}
