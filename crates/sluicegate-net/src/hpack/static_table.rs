//! The fields that both sides know from the start (RFC 7541, appendix A).

use std::sync::LazyLock;

use super::field::{Field, FieldName};

/// Number of the first field of the dynamic table.
pub(super) const LENGTH: usize = FIELDS.len();

/// Names and values; the first has number 1.
#[rustfmt::skip]
const FIELDS: [(&str, &str); 61] = [
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"),
    (":path", "/index.html"), (":scheme", "http"), (":scheme", "https"), (":status", "200"),
    (":status", "204"), (":status", "206"), (":status", "304"), (":status", "400"),
    (":status", "404"), (":status", "500"), ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""),
    ("accept", ""), ("access-control-allow-origin", ""), ("age", ""), ("allow", ""),
    ("authorization", ""), ("cache-control", ""), ("content-disposition", ""),
    ("content-encoding", ""), ("content-language", ""), ("content-length", ""),
    ("content-location", ""), ("content-range", ""), ("content-type", ""), ("cookie", ""),
    ("date", ""), ("etag", ""), ("expect", ""), ("expires", ""), ("from", ""), ("host", ""),
    ("if-match", ""), ("if-modified-since", ""), ("if-none-match", ""), ("if-range", ""),
    ("if-unmodified-since", ""), ("last-modified", ""), ("link", ""), ("location", ""),
    ("max-forwards", ""), ("proxy-authenticate", ""), ("proxy-authorization", ""), ("range", ""),
    ("referer", ""), ("refresh", ""), ("retry-after", ""), ("server", ""), ("set-cookie", ""),
    ("strict-transport-security", ""), ("transfer-encoding", ""), ("user-agent", ""),
    ("vary", ""), ("via", ""), ("www-authenticate", ""),
];

/// The same, parsed.
static PARSED: LazyLock<Vec<Field>> = LazyLock::new(|| {
    let parse = |(name, value): &(&str, &str)| {
        Field::new(
            FieldName::parse(name.as_bytes()),
            name.len(),
            value.as_bytes(),
        )
    };
    FIELDS.iter().map(parse).collect()
});

/// The field with this number, from 1 to [`LENGTH`].
pub(super) fn field(number: usize) -> Option<&'static Field> {
    PARSED.get(number.checked_sub(1)?)
}

/// The number of a name that responses have, in lower case; `None` for all others.
pub(super) fn response_name(name: &[u8]) -> Option<u8> {
    // The length excludes most names; within a length there are few.
    Some(match name {
        b"age" => 21,
        b"via" => 60,
        b"date" => 33,
        b"etag" => 34,
        b"vary" => 59,
        b"link" => 45,
        b"allow" => 22,
        b"server" => 54,
        b"expires" => 36,
        b"location" => 46,
        b"set-cookie" => 55,
        b"retry-after" => 53,
        b"content-type" => 31,
        b"accept-ranges" => 18,
        b"cache-control" => 24,
        b"content-range" => 30,
        b"last-modified" => 44,
        b"content-length" => 28,
        b"content-encoding" => 26,
        b"content-language" => 27,
        b"content-location" => 29,
        b"www-authenticate" => 61,
        b"content-disposition" => 25,
        b"strict-transport-security" => 56,
        b"access-control-allow-origin" => 20,
        _ => return None,
    })
}

/// The number of the field `:status` with this value.
pub(super) fn status(status: u16) -> Option<u8> {
    Some(match status {
        200 => 8,
        204 => 9,
        206 => 10,
        304 => 11,
        400 => 12,
        404 => 13,
        500 => 14,
        _ => return None,
    })
}

/// The number of the name `:status`.
pub(super) const STATUS: u8 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_responses_have_the_numbers_of_the_table() {
        let mut known = 0;
        for (place, (name, value)) in FIELDS.iter().enumerate() {
            if let Some(number) = response_name(name.as_bytes()) {
                assert_eq!(usize::from(number), place + 1, "{name}");
                known += 1;
            }
            if *name == ":status" {
                assert_eq!(status(value.parse().unwrap()), Some(place as u8 + 1));
            }
        }
        assert_eq!(
            (known, response_name(b"x-other"), status(429)),
            (25, None, None)
        );
        assert_eq!(FIELDS[usize::from(STATUS) - 1].0, ":status");
    }

    #[test]
    fn numbers_begin_with_one() {
        assert!(field(0).is_none() && field(LENGTH + 1).is_none());
        assert_eq!(field(2).unwrap().name, FieldName::Method);
        assert_eq!(field(61).unwrap().size, "www-authenticate".len() + 32);
    }
}
