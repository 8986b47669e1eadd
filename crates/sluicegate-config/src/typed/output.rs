//! Responses and logs: what leaves Sluicegate besides the forwarded request.

use std::path::PathBuf;
use std::sync::Arc;

use sluicegate_core::{HeaderStyle, OwnRejection};

/// Headers and bodies of our own responses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The families of headers that tell a caller what is left; empty is none.
    pub headers: Vec<HeaderStyle>,
    /// The form of a rejection's body.
    pub body: BodyStyle,
    /// The response to denied requests, where their limit has none of its own; `None` is the usual
    /// one. Limits have it already.
    pub reject: Option<Arc<OwnRejection>>,
    /// The files with bodies of rejections, those of limits included.
    pub body_files: Vec<Arc<BodyFile>>,
}

/// A file with the body of a rejection, as it was read with the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyFile {
    /// Its name.
    pub path: PathBuf,
    /// Its content.
    pub text: String,
}

/// The form of a rejection's body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyStyle {
    /// Problem details when the caller prefers JSON, else text.
    #[default]
    Auto,
    /// Text, regardless of what the caller prefers.
    Text,
    /// Problem details (RFC 9457), regardless of what the caller prefers.
    Json,
}

/// The log: its format and its optional lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// JSON or text.
    pub format: LogFormat,
    /// True when every request is logged.
    pub access: bool,
    /// True when a rejection writes a line that starts with `RATE_LIMIT`.
    pub rate_limit_line: bool,
}

/// The form of a log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object per line.
    Json,
    /// Text for people.
    #[default]
    Text,
}
