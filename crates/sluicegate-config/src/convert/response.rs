//! `response` and `log`: headers and bodies for callers, lines for operators.

use super::reject::reject;
use crate::field::Field;
use crate::typed::{BodyStyle, HeaderStyle, Log, LogFormat, Response};

/// The families of headers; `none` writes no family.
const HEADERS: [(&str, Option<HeaderStyle>); 4] = [
    ("ietf", Some(HeaderStyle::Ietf)),
    ("x-ratelimit", Some(HeaderStyle::XRateLimit)),
    ("clear", Some(HeaderStyle::Clear)),
    ("none", None),
];

/// The forms of a rejection's body.
const BODIES: [(&str, BodyStyle); 3] = [
    ("auto", BodyStyle::Auto),
    ("text", BodyStyle::Text),
    ("json", BodyStyle::Json),
];

/// Both common families of headers by default: clients know one or the other.
pub(super) fn response(field: Option<&Field<'_>>) -> Response {
    let both = || vec![HeaderStyle::Ietf, HeaderStyle::XRateLimit];
    let read = field.and_then(|field| {
        field.section(|section| Response {
            headers: section
                .get("headers")
                .map_or_else(both, |field| headers(&field)),
            body: section.read("body", BodyStyle::default(), |field| field.word(&BODIES)),
            reject: reject(section, None),
            body_files: Vec::new(),
        })
    });
    read.unwrap_or_else(|| Response {
        headers: both(),
        body: BodyStyle::default(),
        reject: None,
        body_files: Vec::new(),
    })
}

/// The styles, each once, in the order in which they are listed.
fn headers(field: &Field<'_>) -> Vec<HeaderStyle> {
    let fields = field.one_or_more();
    let mut styles = Vec::new();
    for field in &fields {
        match field.word(&HEADERS) {
            Some(Some(style)) if !styles.contains(&style) => styles.push(style),
            Some(None) if fields.len() > 1 => {
                field.note("none cannot be combined with other styles")
            }
            _ => {}
        }
    }
    styles
}

/// Text without an access log by default; rejections write a line that other programs can read.
pub(super) fn log(field: Option<&Field<'_>>) -> Log {
    let by_default = Log {
        format: LogFormat::default(),
        access: false,
        rate_limit_line: true,
    };
    let read = field.and_then(|field| {
        field.section(|section| Log {
            format: section.read("format", by_default.format, |field| {
                field.word(&[("text", LogFormat::Text), ("json", LogFormat::Json)])
            }),
            access: section.read("access", by_default.access, Field::boolean),
            rate_limit_line: section.read(
                "rate_limit_line",
                by_default.rate_limit_line,
                Field::boolean,
            ),
        })
    });
    read.unwrap_or(by_default)
}
