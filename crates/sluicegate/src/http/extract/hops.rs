//! The chain of addresses in a proxy header, read from the right.
//!
//! The right end was written by the proxies we trust, the left end by anybody. Reading from the
//! right meets no byte of the caller's before every trusted hop is known, so that no spelling on
//! the left can change what they say. That includes quotes: an opening quote that a caller never
//! closes would swallow everything after it for a reader from the left.

use http::HeaderMap;

use sluicegate_core::ProxyHeader;

/// The text of each hop, last line first and right to left; `None` for an element that names no
/// hop.
///
/// Lazy, because a chain may be as long as a request head: the walk stops at the first hop that is
/// not trusted.
pub(super) fn hops_from_the_right(
    header: ProxyHeader,
    headers: &HeaderMap,
) -> impl Iterator<Item = Option<&str>> {
    let has_quotes = header == ProxyHeader::Forwarded;
    let lines = headers.get_all(header.name()).iter().rev();
    let elements = lines.flat_map(move |line| {
        let mut quoted = false;
        line.as_bytes().rsplit(move |byte| {
            quoted ^= has_quotes && *byte == b'"';
            *byte == b',' && !quoted
        })
    });
    elements.map(move |element| {
        let element = std::str::from_utf8(element).ok()?;
        if has_quotes {
            forwarded_for(element)
        } else {
            Some(element)
        }
    })
}

/// The node that an element of `Forwarded` is for: `for=192.0.2.60;proto=http`,
/// `For="[2001:db8:cafe::17]:4711"`. `None` when it names none or several.
fn forwarded_for(element: &str) -> Option<&str> {
    // An escaped quote would have counted as a quote above. No address needs one, so an element
    // with a backslash is not understood.
    if element.contains('\\') {
        return None;
    }
    let mut quoted = false;
    let pairs = element.split(move |letter| {
        quoted ^= letter == '"';
        letter == ';' && !quoted
    });
    let mut nodes = pairs.filter_map(|pair| {
        let (name, value) = pair.trim_matches([' ', '\t']).split_once('=')?;
        name.eq_ignore_ascii_case("for").then_some(value)
    });
    match (nodes.next(), nodes.next()) {
        (Some(node), None) => unquoted(node),
        _ => None,
    }
}

/// A value without its quotes; `None` when only one of them is there, or one within the value.
fn unquoted(value: &str) -> Option<&str> {
    let bare = match value.strip_prefix('"') {
        Some(rest) => rest.strip_suffix('"')?,
        None => value,
    };
    (!bare.contains('"')).then_some(bare)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_found_beside_other_pairs_in_any_case_and_quoting() {
        for element in [
            "for=192.0.2.60",
            " for=192.0.2.60;proto=http;by=203.0.113.43",
            "proto=http;FOR=192.0.2.60",
            "host=\"a;for=9.9.9.9,b\"; For=\"192.0.2.60\"\t",
        ] {
            assert_eq!(forwarded_for(element), Some("192.0.2.60"), "{element}");
        }
        assert_eq!(
            forwarded_for("for=\"[2001:db8::1]:80\""),
            Some("[2001:db8::1]:80")
        );
    }

    #[test]
    fn elements_that_name_no_node_or_two_have_none() {
        for element in [
            "",
            "for",
            "proto=http",
            "for =192.0.2.60",
            "for=192.0.2.60;for=192.0.2.61",
            "for=\"192.0.2.60",
            "for=\"[2001:db8::1%\"0]\"",
            "for=192.0.2.60\"\"",
            "for=\"192.0.2.\\60\"",
            "fort=192.0.2.60",
        ] {
            assert_eq!(forwarded_for(element), None, "{element}");
        }
    }

    #[test]
    fn an_open_quote_on_the_left_does_not_swallow_what_a_proxy_appended() {
        let mut headers = HeaderMap::new();
        headers.insert(
            "forwarded",
            "for=\"9.9.9.9, for=\"[2001:db8::1]\"".parse().unwrap(),
        );
        assert_eq!(
            hops_from_the_right(ProxyHeader::Forwarded, &headers).next(),
            Some(Some("[2001:db8::1]"))
        );
    }
}
