//! Errors of a request's body, whichever version of HTTP it comes over.

use std::error::Error;
use std::fmt;

/// Reason for which a request's body did not come to its end.
#[derive(Debug)]
pub enum BodyError {
    /// The client closed the connection, or reset the stream.
    Closed,
    /// The chunks of an HTTP/1 body are malformed; says how.
    Chunks(&'static str),
    /// More bytes came than are allowed.
    TooLarge,
    /// The body is shorter or longer than its Content-Length.
    Length,
    /// The client stopped sending.
    Stalled,
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the client closed the connection"),
            Self::Chunks(what) => write!(f, "the body is not in chunks: {what}"),
            Self::TooLarge => f.write_str("the body is larger than allowed"),
            Self::Length => f.write_str("the body is not as long as its Content-Length"),
            Self::Stalled => f.write_str("the client stopped in the middle of the body"),
        }
    }
}

impl Error for BodyError {}
