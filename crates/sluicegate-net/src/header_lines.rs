//! Reads header lines that we have written ourselves.
//!
//! Our lines are kept as the text that HTTP/1 sends. HTTP/2 and gRPC take them apart again, for every
//! response, so this looks at eight bytes at a time.

/// Names and values of lines as HTTP/1 sends them: each with a name, `: `, a value, CR LF.
pub fn header_lines(mut text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    std::iter::from_fn(move || {
        let colon = position(text, b':')?;
        let (name, behind) = (&text[..colon], &text[colon + 1..]);
        let end = position(behind, b'\n')?;
        text = &behind[end + 1..];
        Some((name, behind[..end].trim_ascii()))
    })
}

/// Position of the first byte that is `wanted`.
fn position(bytes: &[u8], wanted: u8) -> Option<usize> {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGHEST: u64 = u64::from_le_bytes([0x80; 8]);
    let pattern = u64::from(wanted) * ONES;
    let (words, rest) = bytes.as_chunks::<8>();
    for (place, word) in words.iter().enumerate() {
        // A byte that is wanted becomes 0. Subtracting one borrows from its highest bit; bytes
        // above it may be wrong then, so only the lowest is looked at.
        let differs = u64::from_le_bytes(*word) ^ pattern;
        let found = differs.wrapping_sub(ONES) & !differs & HIGHEST;
        if found != 0 {
            return Some(place * 8 + found.trailing_zeros() as usize / 8);
        }
    }
    let of_rest = rest.iter().position(|byte| *byte == wanted)?;
    Some(words.len() * 8 + of_rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_are_taken_apart_as_they_were_put_together() {
        let text = b"a: 1\r\nlocation: https://a.example:80/\r\nempty: \r\nx:y\r\n";
        let lines: Vec<_> = header_lines(text)
            .map(|(name, value)| {
                (
                    str::from_utf8(name).unwrap(),
                    str::from_utf8(value).unwrap(),
                )
            })
            .collect();
        let expected = [
            ("a", "1"),
            ("location", "https://a.example:80/"),
            ("empty", ""),
            ("x", "y"),
        ];
        assert_eq!(lines, expected);
        assert_eq!(header_lines(b"").count() + header_lines(b"\r\n").count(), 0);
    }

    proptest! {
        #[test]
        fn a_byte_is_found_where_it_is(bytes in proptest::collection::vec(8u8..14, 0..40)) {
            let expected = bytes.iter().position(|byte| *byte == b'\n');
            prop_assert_eq!(position(&bytes, b'\n'), expected);
        }
    }
}
