//! Which of our two bodies a caller would rather read.

use http::{HeaderMap, header};

/// Whether JSON is accepted with more weight than text. Text wins ties, and so it answers `*/*` and silence.
pub(super) fn prefers_json(headers: &HeaderMap) -> bool {
    let json = weight(headers, "application", "json").max(weight(headers, "application", "problem+json"));
    json > weight(headers, "text", "plain")
}

/// The weight of a media type in thousandths: that of the most particular range that covers it, as RFC 9110 has it.
fn weight(headers: &HeaderMap, kind: &str, subtype: &str) -> u16 {
    let lines = headers.get_all(header::ACCEPT).iter().filter_map(|line| line.to_str().ok());
    let ranges = lines.flat_map(|line| line.split(',')).filter_map(Range::parse);
    let covering = ranges.filter_map(|range| Some((range.precision(kind, subtype)?, range.thousandths)));
    covering.max().map_or(0, |(_, thousandths)| thousandths)
}

struct Range<'a> {
    kind: &'a str,
    subtype: &'a str,
    thousandths: u16,
}

impl<'a> Range<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut fields = text.split(';').map(str::trim);
        let (kind, subtype) = fields.next()?.split_once('/')?;
        let quality = fields.find_map(|field| field.strip_prefix("q=").or_else(|| field.strip_prefix("Q=")));
        let thousandths = quality.map_or(Some(1_000), parse_quality)?;
        Some(Self { kind, subtype, thousandths })
    }

    /// How particularly this range names a type; `None` if it does not cover it.
    fn precision(&self, kind: &str, subtype: &str) -> Option<u8> {
        match (self.kind, self.subtype) {
            ("*", "*") => Some(0),
            (own, "*") if own.eq_ignore_ascii_case(kind) => Some(1),
            (own, sub) if own.eq_ignore_ascii_case(kind) && sub.eq_ignore_ascii_case(subtype) => Some(2),
            _ => None,
        }
    }
}

/// `0.5` is 500; more than three decimals or a number above 1 is no quality.
fn parse_quality(text: &str) -> Option<u16> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    if decimals.len() > 3 || !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let padded = decimals.bytes().chain(std::iter::repeat(b'0')).take(3);
    let thousandths = padded.fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0'));
    match whole {
        "0" => Some(thousandths),
        "1" if thousandths == 0 => Some(1_000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json_for(lines: &[&'static str]) -> bool {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(header::ACCEPT, http::HeaderValue::from_static(line));
        }
        prefers_json(&headers)
    }

    #[test]
    fn json_is_for_those_who_weigh_it_higher() {
        for line in [
            "application/json",
            "application/problem+json",
            "Application/JSON",
            "application/json, */*;q=0.8",
            "application/json, text/plain;q=0.999",
            "application/*",
            "text/plain;q=0.1, application/json;q=0.2",
            "text/html, application/json;charset=utf-8;Q=0.5",
            "text/*;q=0, */*",
        ] {
            assert!(json_for(&[line]), "{line}");
        }
        assert!(json_for(&["text/plain;q=0.5", "application/json"]));
    }

    #[test]
    fn text_is_for_everybody_else() {
        for line in [
            "",
            "*/*",
            "text/plain",
            "application/json, text/plain, */*",
            "application/json;q=0.5, */*;q=0.8",
            "application/json;q=0",
            "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
            "application/json;q=2",
            "application/json;q=0.0001",
            "json",
            "application",
            "application/xml",
        ] {
            assert!(!json_for(&[line]), "{line}");
        }
        assert!(!json_for(&[]));
    }
}
