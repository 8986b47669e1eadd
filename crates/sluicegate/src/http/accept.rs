//! The `Accept` header: which of our two bodies a caller would rather read.
//!
//! We have plain text and JSON to offer, so this is not a general negotiation: it answers one
//! question, by the rules of RFC 9110, section 12.5.1. A member that cannot be read is left out, as
//! if it had not been sent.

use http::{HeaderMap, header};

/// Returns true when JSON is accepted with more weight than text. Text wins ties, and so it answers
/// `*/*` and silence.
pub(super) fn prefers_json(headers: &HeaderMap) -> bool {
    const JSON: [(&str, &str); 2] = [("application", "json"), ("application", "problem+json")];
    const TEXT: (&str, &str) = ("text", "plain");
    let mut lines = headers.get_all(header::ACCEPT).iter();
    // Most callers send this, or nothing: no need to take it apart.
    let is_anything = |line: &http::HeaderValue| line == "*/*";
    if lines.all(is_anything) {
        return false;
    }
    let lines = headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|line| line.to_str().ok());
    let [mut json, mut problem, mut text] = [None; 3];
    for range in lines
        .flat_map(|line| line.split(','))
        .filter_map(MediaRange::parse)
    {
        for (best, wanted) in [
            (&mut json, JSON[0]),
            (&mut problem, JSON[1]),
            (&mut text, TEXT),
        ] {
            *best = (*best).max(range.weight(wanted));
        }
    }
    thousandths(json).max(thousandths(problem)) > thousandths(text)
}

/// The precision of a range (0 for `*/*`, 1 for `text/*`, 2 for `text/plain`) and its weight in
/// thousandths; `None` when it does not cover the type. The greatest counts: the order of the pair
/// makes the most precise range win over a heavier one, as RFC 9110 has it.
type RangeWeight = Option<(u8, u16)>;

/// The weight alone; a type that no range covers is not accepted.
fn thousandths(weight: RangeWeight) -> u16 {
    weight.map_or(0, |(_, thousandths)| thousandths)
}

/// A member of the list: `text/*;q=0.5`.
struct MediaRange<'a> {
    kind: &'a str,
    subtype: &'a str,
    thousandths: u16,
}

impl<'a> MediaRange<'a> {
    /// `None` for a member without a slash or with a malformed quality.
    fn parse(text: &'a str) -> Option<Self> {
        let mut fields = text.split(';').map(str::trim);
        let (kind, subtype) = fields.next()?.split_once('/')?;
        let quality = fields.find_map(|field| {
            field
                .strip_prefix("q=")
                .or_else(|| field.strip_prefix("Q="))
        });
        let thousandths = quality.map_or(Some(1_000), parse_quality)?;
        Some(Self {
            kind,
            subtype,
            thousandths,
        })
    }

    fn weight(&self, (kind, subtype): (&str, &str)) -> RangeWeight {
        let precision = match (self.kind, self.subtype) {
            ("*", "*") => Some(0),
            (own, "*") if own.eq_ignore_ascii_case(kind) => Some(1),
            (own, sub) if own.eq_ignore_ascii_case(kind) && sub.eq_ignore_ascii_case(subtype) => {
                Some(2)
            }
            _ => None,
        };
        Some((precision?, self.thousandths))
    }
}

/// A quality in thousandths: `0.5` is 500. `None` with more than three decimals or above 1.
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
