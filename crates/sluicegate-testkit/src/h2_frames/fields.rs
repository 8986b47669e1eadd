//! Fields of requests and statuses of responses in HPACK (RFC 7541), as far as tests need them.

/// The fields of a GET for `a.example`.
pub fn get_fields(path: &str) -> Vec<u8> {
    const METHOD_GET: u8 = 0x82;
    request_fields(METHOD_GET, path)
}

/// The fields of a POST for `a.example`.
pub fn post_fields(path: &str) -> Vec<u8> {
    const METHOD_POST: u8 = 0x83;
    request_fields(METHOD_POST, path)
}

fn request_fields(method: u8, path: &str) -> Vec<u8> {
    const SCHEME_HTTP: u8 = 0x86;
    [
        vec![method, SCHEME_HTTP],
        field(":path", path),
        field(":authority", "a.example"),
    ]
    .concat()
}

/// A field written out in full: a literal without indexing, its name and value as they are.
pub fn field(name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Vec<u8> {
    let mut bytes = vec![0];
    for text in [name.as_ref(), value.as_ref()] {
        push_integer(&mut bytes, 0, 127, text.len());
        bytes.extend_from_slice(text);
    }
    bytes
}

/// Adds an integer whose first byte has room for `most` beside `flags` (RFC 7541, section 5.1).
pub fn push_integer(bytes: &mut Vec<u8>, flags: u8, most: u8, number: usize) {
    if number < usize::from(most) {
        return bytes.push(flags | number as u8);
    }
    bytes.push(flags | most);
    let mut rest = number - usize::from(most);
    while rest >= 128 {
        bytes.push((rest % 128) as u8 | 128);
        rest /= 128;
    }
    bytes.push(rest as u8);
}

/// The status, which is the first field of a response: from the static table, as three digits, or
/// as three digits in Huffman code. `None` in any other form.
pub fn status(block: &[u8]) -> Option<u16> {
    Some(match *block {
        // The peer follows our setting that its table has no room.
        [0x20, ref rest @ ..] => return status(rest),
        [0x88, ..] => 200,
        [0x89, ..] => 204,
        [0x8a, ..] => 206,
        [0x8b, ..] => 304,
        [0x8c, ..] => 400,
        [0x8d, ..] => 404,
        [0x8e, ..] => 500,
        [0x08 | 0x48, 0x03, a, b, c, ..] => return str::from_utf8(&[a, b, c]).ok()?.parse().ok(),
        [0x08 | 0x48, 0x82, a, b, ..] => {
            return three_digits(u32::from(u16::from_be_bytes([a, b])) << 8);
        }
        [0x08 | 0x48, 0x83, a, b, c, ..] => return three_digits(u32::from_be_bytes([0, a, b, c])),
        _ => return None,
    })
}

/// Three digits in the code of RFC 7541, appendix B, from the highest of 24 bits on.
fn three_digits(bits: u32) -> Option<u16> {
    let mut at = 24;
    let mut take = |count: u32| {
        at -= count;
        (bits >> at) & ((1 << count) - 1)
    };
    let mut number = 0;
    for _ in 0..3 {
        let five = take(5);
        // 0, 1 and 2 have five bits; 3 to 9 have six and begin with 011.
        let digit = if five < 3 {
            five
        } else {
            (five * 2 + take(1) + 3).checked_sub(0b01_1001)?
        };
        number = number * 10 + digit;
    }
    u16::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_read_in_every_form() {
        assert_eq!(status(&[0x88]), Some(200));
        assert_eq!(status(&[0x20, 0x8c]), Some(400));
        assert_eq!(status(b"\x08\x03431"), Some(431));
        // 4 is 011010, 2 is 00010, 9 is 011111.
        let huffman = [0x48, 0x83, 0b0110_1000, 0b0100_1111, 0b1111_1111];
        assert_eq!(status(&huffman), Some(429));
        for (block, expected) in [
            ([0x68, 0x0f, 0x7f], 408),
            ([0x68, 0x2d, 0x7f], 414),
            ([0x69, 0x90, 0xff], 431),
            ([0x6c, 0x0d, 0x7f], 504),
        ] {
            assert_eq!(
                status(&[&[0x48, 0x83], &block[..]].concat()),
                Some(expected)
            );
        }
        assert_eq!(status(&[0x40]), None);
    }

    #[test]
    fn long_values_have_lengths_of_several_bytes() {
        assert_eq!(field("x", "y"), [0, 1, b'x', 1, b'y']);
        assert_eq!(field("x", "a".repeat(300))[3..6], [127, 0xad, 1]);
    }
}
