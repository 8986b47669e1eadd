//! Integers with a prefix (RFC 7541, section 5.1).

use super::HpackError;

/// Reads an integer whose prefix are the lower `bits` of the first byte. Returns it with the bytes
/// that follow it.
pub(super) fn decode(bytes: &[u8], bits: u32) -> Result<(usize, &[u8]), HpackError> {
    /// No length or index that is sent in earnest has more than these bytes behind its prefix.
    const BYTES_MAX: usize = 4;
    let (first, mut rest) = bytes.split_first().ok_or(HpackError)?;
    let most = (1 << bits) - 1;
    let mut number = usize::from(*first) & most;
    if number < most {
        return Ok((number, rest));
    }
    for place in 0..BYTES_MAX {
        let (byte, after) = rest.split_first().ok_or(HpackError)?;
        rest = after;
        number += usize::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Ok((number, rest));
        }
    }
    Err(HpackError)
}

/// Appends an integer behind `flags`, which are the upper bits of its first byte.
#[inline]
pub(super) fn encode(out: &mut Vec<u8>, flags: u8, bits: u32, number: usize) {
    let most = (1 << bits) - 1;
    if number < most {
        return out.push(flags | number as u8);
    }
    encode_long(out, flags | most as u8, number - most);
}

/// Appends an integer that is larger than its prefix by `rest`.
fn encode_long(out: &mut Vec<u8>, prefix: u8, mut rest: usize) {
    out.push(prefix);
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7541, appendix C.1.
    #[test]
    fn the_examples_of_the_rfc_are_read_and_written() {
        for (bits, number, bytes) in [
            (5, 10, &[0b0000_1010][..]),
            (5, 1_337, &[0b0001_1111, 0b1001_1010, 0b0000_1010]),
            (8, 42, &[0b0010_1010]),
        ] {
            assert_eq!(decode(bytes, bits), Ok((number, &[][..])));
            let mut out = Vec::new();
            encode(&mut out, 0, bits, number);
            assert_eq!(out, bytes);
        }
    }

    #[test]
    fn integers_that_break_off_or_go_on_without_end_are_errors() {
        for bytes in [
            &[][..],
            &[0xff],
            &[0xff, 0x80],
            &[0xff, 0x80, 0x80, 0x80, 0x80, 0],
        ] {
            assert_eq!(decode(bytes, 7), Err(HpackError), "{bytes:?}");
        }
        assert_eq!(
            decode(&[0xff, 0xff, 0xff, 0xff, 0x7f], 7),
            Ok((127 + (1 << 28) - 1, &[][..]))
        );
    }

    #[test]
    fn every_integer_is_read_as_it_was_written() {
        for number in (0..70_000).chain([1 << 20, (1 << 28) - 1]) {
            let mut out = Vec::new();
            encode(&mut out, 0x80, 7, number);
            assert_eq!(decode(&out, 7), Ok((number, &[][..])));
        }
    }
}
