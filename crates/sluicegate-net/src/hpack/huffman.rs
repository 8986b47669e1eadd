//! The Huffman code of header fields (RFC 7541, section 5.2 and appendix B).
//!
//! The code is canonical: the codes of one length are consecutive numbers in the order of their
//! symbols, so the lengths alone define it. Text is mostly made of codes of up to eight bits, which
//! one lookup of the next byte decodes; the longer ones are found by comparing with the first code
//! of each length.

use super::HpackError;

/// Bits of the code of each byte; the last is the end of text, which must not occur.
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7,
    7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21,
    23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24,
    21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

/// The end of text.
const END: u16 = 256;
const LENGTH_MAX: usize = 30;

static TABLES: Tables = Tables::new();

/// The code, made for looking it up.
struct Tables {
    /// Symbol and length of the code that these eight bits begin with; length 0 if it is longer.
    short: [(u8, u8); 256],
    /// All symbols in the order of their codes.
    symbols: [u16; 257],
    /// For each length: its first code, the place of that in `symbols`, and the number of codes.
    by_length: [(u32, u16, u16); LENGTH_MAX + 1],
}

impl Tables {
    const fn new() -> Self {
        let mut tables = Self {
            short: [(0, 0); 256],
            symbols: [0; 257],
            by_length: [(0, 0, 0); LENGTH_MAX + 1],
        };
        let (mut code, mut place, mut length) = (0, 0, 1);
        while length <= LENGTH_MAX {
            code <<= 1;
            tables.by_length[length] = (code, place as u16, 0);
            let mut symbol = 0;
            while symbol < LENGTHS.len() {
                if LENGTHS[symbol] as usize == length {
                    tables.symbols[place] = symbol as u16;
                    tables.by_length[length].2 += 1;
                    if length <= 8 {
                        let first = (code << (8 - length)) as usize;
                        let mut at = first;
                        while at < first + (1 << (8 - length)) {
                            tables.short[at] = (symbol as u8, length as u8);
                            at += 1;
                        }
                    }
                    code += 1;
                    place += 1;
                }
                symbol += 1;
            }
            length += 1;
        }
        tables
    }

    /// Symbol and length of a code of more than eight bits, which `bits` begin with.
    fn long(&self, bits: u64) -> (u16, u32) {
        for length in 9..=LENGTH_MAX {
            let (first, place, count) = self.by_length[length];
            let code = (bits >> (64 - length)) as u32;
            if let Some(offset) = code.checked_sub(first)
                && offset < u32::from(count)
            {
                return (
                    self.symbols[usize::from(place) + offset as usize],
                    length as u32,
                );
            }
        }
        // Every sequence of 30 bits begins with some code.
        (END, LENGTH_MAX as u32)
    }
}

/// Appends the text of `code` to `text`.
pub(super) fn decode(code: &[u8], text: &mut Vec<u8>) -> Result<(), HpackError> {
    text.reserve(code.len() * 8 / 5);
    // The next bits of the code are the highest of `bits`; `count` of them are there.
    let (mut bits, mut count, mut code) = (0u64, 0u32, code);
    loop {
        if count < 32 {
            (bits, count, code) = refill(bits, count, code);
        }
        // Padding consists of ones, so behind the last bit there are ones.
        let padded = match count {
            32.. => bits,
            _ => bits | u64::MAX >> count,
        };
        let (symbol, length) = match TABLES.short[(padded >> 56) as usize] {
            (_, 0) => TABLES.long(padded),
            (symbol, length) => (u16::from(symbol), u32::from(length)),
        };
        if length > count {
            let is_padding = count < 8 && padded == u64::MAX;
            return if is_padding { Ok(()) } else { Err(HpackError) };
        }
        if symbol == END {
            return Err(HpackError);
        }
        text.push(symbol as u8);
        bits <<= length;
        count -= length;
    }
}

/// Adds the next bytes of the code to fewer than 32 bits: four of them if there are, else all.
fn refill(mut bits: u64, mut count: u32, mut code: &[u8]) -> (u64, u32, &[u8]) {
    if let Some((four, rest)) = code.split_first_chunk() {
        bits |= u64::from(u32::from_be_bytes(*four)) << (32 - count);
        return (bits, count + 32, rest);
    }
    while let Some((byte, rest)) = code.split_first() {
        bits |= u64::from(*byte) << (56 - count);
        (count, code) = (count + 8, rest);
    }
    (bits, count, code)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoded(code: &[u8]) -> Result<Vec<u8>, HpackError> {
        let mut text = Vec::new();
        decode(code, &mut text).map(|()| text)
    }

    /// The code of a text, by the slow way round.
    fn encoded(text: &[u8]) -> Vec<u8> {
        let mut bits = String::new();
        for byte in text {
            let length = usize::from(LENGTHS[usize::from(*byte)]);
            let (first, place, _) = TABLES.by_length[length];
            let at = TABLES
                .symbols
                .iter()
                .position(|symbol| *symbol == u16::from(*byte));
            let code = first + at.unwrap() as u32 - u32::from(place);
            bits.push_str(&format!("{code:0length$b}"));
        }
        while !bits.len().is_multiple_of(8) {
            bits.push('1');
        }
        (0..bits.len())
            .step_by(8)
            .map(|at| u8::from_str_radix(&bits[at..at + 8], 2).unwrap())
            .collect()
    }

    /// RFC 7541, appendices C.4 and C.6.
    #[test]
    fn the_examples_of_the_rfc_are_decoded() {
        for (code, text) in [
            (
                &[
                    0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff,
                ][..],
                "www.example.com",
            ),
            (&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf], "no-cache"),
            (
                &[0x25, 0xa8, 0x49, 0xe9, 0x5b, 0xa9, 0x7d, 0x7f],
                "custom-key",
            ),
            (&[0x64, 0x02], "302"),
            (
                &[
                    0xd0, 0x7a, 0xbe, 0x94, 0x10, 0x54, 0xd4, 0x44, 0xa8, 0x20, 0x05, 0x95, 0x04,
                    0x0b, 0x81, 0x66, 0xe0, 0x82, 0xa6, 0x2d, 0x1b, 0xff,
                ],
                "Mon, 21 Oct 2013 20:13:21 GMT",
            ),
            (&[], ""),
        ] {
            assert_eq!(decoded(code).unwrap(), text.as_bytes());
            assert_eq!(encoded(text.as_bytes()), code);
        }
    }

    #[test]
    fn padding_that_is_long_or_not_of_ones_and_the_end_of_text_are_errors() {
        for code in [
            &[0x1f, 0xff][..],
            &[0x18],
            &[0xff; 4],
            &[0xff],
            &[0x1f, 0xff, 0xff],
        ] {
            assert_eq!(decoded(code), Err(HpackError), "{code:x?}");
        }
        assert_eq!(decoded(&[0x1f]).unwrap(), b"a");
    }

    proptest! {
        #[test]
        fn every_text_is_read_as_it_was_written(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(decoded(&encoded(&text)).unwrap(), text);
        }

        #[test]
        fn any_bytes_are_a_text_or_an_error(code in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decoded(&code);
        }
    }
}
