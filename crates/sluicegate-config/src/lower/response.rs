//! `response` and `log`: what callers are told, and what operators read.

use crate::item::Item;
use crate::typed::{BodyStyle, HeaderStyle, Log, LogFormat, Response};

const HEADERS: [(&str, Option<HeaderStyle>); 4] = [
    ("ietf", Some(HeaderStyle::Ietf)),
    ("x-ratelimit", Some(HeaderStyle::XRateLimit)),
    ("clear", Some(HeaderStyle::Clear)),
    ("none", None),
];

const BODIES: [(&str, BodyStyle); 3] = [
    ("auto", BodyStyle::Auto),
    ("text", BodyStyle::Text),
    ("json", BodyStyle::Json),
];

pub(super) fn response(item: Option<&Item<'_>>) -> Response {
    let both = || vec![HeaderStyle::Ietf, HeaderStyle::XRateLimit];
    let read = item.and_then(|item| {
        item.section(|section| Response {
            headers: section
                .get("headers")
                .map_or_else(both, |item| headers(&item)),
            body: section.read("body", BodyStyle::default(), |item| item.word(&BODIES)),
        })
    });
    read.unwrap_or_else(|| Response {
        headers: both(),
        body: BodyStyle::default(),
    })
}

fn headers(item: &Item<'_>) -> Vec<HeaderStyle> {
    let items = item.one_or_more();
    let mut styles = Vec::new();
    for item in &items {
        match item.word(&HEADERS) {
            Some(Some(style)) if !styles.contains(&style) => styles.push(style),
            Some(None) if items.len() > 1 => item.note("none stands alone"),
            _ => {}
        }
    }
    styles
}

pub(super) fn log(item: Option<&Item<'_>>) -> Log {
    let by_default = Log {
        format: LogFormat::default(),
        access: false,
        rate_limit_line: true,
    };
    let read = item.and_then(|item| {
        item.section(|section| Log {
            format: section.read("format", by_default.format, |item| {
                item.word(&[("text", LogFormat::Text), ("json", LogFormat::Json)])
            }),
            access: section.read("access", by_default.access, Item::switch),
            rate_limit_line: section.read(
                "rate_limit_line",
                by_default.rate_limit_line,
                Item::switch,
            ),
        })
    });
    read.unwrap_or(by_default)
}
