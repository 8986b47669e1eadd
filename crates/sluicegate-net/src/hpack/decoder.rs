//! Decoding of header blocks.

use std::ops::ControlFlow;

use super::dynamic_table::DynamicTable;
use super::field::{Field, FieldName};
use super::recent_literals::RecentLiterals;
use super::{HpackError, huffman, integer, static_table};

/// Decodes the header blocks of one connection, one after the other.
#[derive(Debug)]
pub(crate) struct Decoder {
    table: DynamicTable,
    recent: RecentLiterals,
    /// Texts that were in Huffman code.
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Decoder {
    /// Size of the table that a client may use: the default of the protocol, which we leave.
    const TABLE_SIZE: usize = 4_096;

    pub(crate) fn new() -> Self {
        Self {
            table: DynamicTable::new(Self::TABLE_SIZE),
            recent: RecentLiterals::default(),
            name: Vec::new(),
            value: Vec::new(),
        }
    }

    /// Decodes a whole block and calls `each` with its fields, as long as it wants more. After an
    /// error the connection cannot go on; a field that is no field of HTTP is none.
    pub(crate) fn decode(
        &mut self,
        mut block: &[u8],
        mut each: impl FnMut(&Field) -> ControlFlow<()>,
    ) -> Result<(), HpackError> {
        let mut is_first = true;
        while let Some(first) = block.first() {
            let flow;
            (block, flow) = match *first {
                0x80.. => {
                    let (number, rest) = integer::decode(block, 7)?;
                    (rest, each(self.field(number)?))
                }
                0x40.. => {
                    let (field, rest) = self.literal(block, 6)?;
                    let flow = each(&field);
                    self.table.insert(field);
                    (rest, flow)
                }
                0x20.. if is_first => {
                    block = self.resize(block)?;
                    continue;
                }
                0x20.. => return Err(HpackError),
                // Without indexing, and never indexed: the same to us, who index nothing.
                _ => match self.recent.find(block) {
                    Some((field, length)) => (&block[length..], each(field)),
                    None => {
                        let (field, rest) = self.literal(block, 4)?;
                        let flow = each(&field);
                        self.recent.keep(&block[..block.len() - rest.len()], field);
                        (rest, flow)
                    }
                },
            };
            if flow.is_break() {
                return Err(HpackError);
            }
            is_first = false;
        }
        Ok(())
    }

    /// Frees memory that only a block needs.
    pub(crate) fn shrink(&mut self) {
        (self.name, self.value) = (Vec::new(), Vec::new());
        self.recent.shrink();
    }

    /// The field with this number in both tables.
    fn field(&self, number: usize) -> Result<&Field, HpackError> {
        let field = match number.checked_sub(static_table::LENGTH + 1) {
            None => static_table::field(number),
            Some(place) => self.table.get(place),
        };
        field.ok_or(HpackError)
    }

    /// A change of the table's size (RFC 7541, section 6.3).
    fn resize<'a>(&mut self, block: &'a [u8]) -> Result<&'a [u8], HpackError> {
        let (size, rest) = integer::decode(block, 5)?;
        if size > Self::TABLE_SIZE {
            return Err(HpackError);
        }
        self.table.resize(size);
        Ok(rest)
    }

    /// A field whose value is written out, and perhaps its name.
    fn literal<'a>(&mut self, block: &'a [u8], bits: u32) -> Result<(Field, &'a [u8]), HpackError> {
        let (number, mut rest) = integer::decode(block, bits)?;
        let (name, name_length) = if number > 0 {
            let known = self.field(number)?;
            (known.name.clone(), known.name_length)
        } else {
            let (name, after) = text(rest, &mut self.name)?;
            rest = after;
            (FieldName::parse(name), name.len())
        };
        let (value, rest) = text(rest, &mut self.value)?;
        Ok((Field::new(name, name_length, value), rest))
    }
}

/// A text, in Huffman code or as it is, and the bytes behind it.
fn text<'a, 'b: 'a>(
    bytes: &'b [u8],
    room: &'a mut Vec<u8>,
) -> Result<(&'a [u8], &'b [u8]), HpackError> {
    let is_huffman = *bytes.first().ok_or(HpackError)? >= 0x80;
    let (length, rest) = integer::decode(bytes, 7)?;
    let (text, rest) = rest.split_at_checked(length).ok_or(HpackError)?;
    if !is_huffman {
        return Ok((text, rest));
    }
    room.clear();
    huffman::decode(text, room)?;
    Ok((room, rest))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::super::field::FieldValue;
    use super::*;

    /// Names and values as text.
    fn decoded(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<String>, HpackError> {
        let mut fields = Vec::new();
        decoder.decode(block, |field| {
            let value = match &field.value {
                FieldValue::Method(method) => method.to_string(),
                FieldValue::Scheme(scheme) => scheme.to_string(),
                FieldValue::Authority(authority) => authority.to_string(),
                FieldValue::Path(path) => path.to_string(),
                FieldValue::Protocol(value) | FieldValue::Header(value) => {
                    value.to_str().unwrap().to_owned()
                }
                FieldValue::Malformed => "malformed".to_owned(),
            };
            let name = match &field.name {
                FieldName::Header(name) => name.as_str().to_owned(),
                name => format!("{name:?}"),
            };
            fields.push(format!("{name}: {value}"));
            ControlFlow::Continue(())
        })?;
        Ok(fields)
    }

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<char> = hex.chars().filter(|digit| !digit.is_whitespace()).collect();
        let byte = |pair: &[char]| u8::from_str_radix(&String::from_iter(pair), 16).unwrap();
        digits.chunks(2).map(byte).collect()
    }

    /// Three requests on one connection: RFC 7541, appendices C.3 (as they are) and C.4 (in code).
    #[test]
    fn the_requests_of_the_rfc_are_decoded() {
        let plain = [
            "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
            "8286 84be 5808 6e6f 2d63 6163 6865",
            "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
        ];
        let in_code = [
            "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
            "8286 84be 5886 a8eb 1064 9cbf",
            "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
        ];
        for blocks in [plain, in_code] {
            let mut decoder = Decoder::new();
            let fields = blocks.map(|block| decoded(&mut decoder, &bytes(block)).unwrap());
            let first = [
                "Method: GET",
                "Scheme: http",
                "Path: /",
                "Authority: www.example.com",
            ];
            assert_eq!(fields[0], first);
            assert_eq!(fields[1][..4], first);
            assert_eq!(fields[1][4], "cache-control: no-cache");
            assert_eq!(
                fields[2],
                [
                    "Method: GET",
                    "Scheme: https",
                    "Path: /index.html",
                    "Authority: www.example.com",
                    "custom-key: custom-value"
                ]
            );
        }
    }

    #[test]
    fn a_field_that_is_none_of_http_spoils_itself_and_not_the_table() {
        let mut decoder = Decoder::new();
        // A value with a null, kept under the name `x`; then its name with a good value.
        let block = [&[0x40, 1, b'x', 1, 0][..], &[0x7e, 1, b'y'], &[0xbf]].concat();
        assert_eq!(
            decoded(&mut decoder, &block).unwrap(),
            ["x: malformed", "x: y", "x: malformed"]
        );
        assert_eq!(
            decoded(&mut decoder, &[0, 1, b'X', 0]).unwrap(),
            ["Malformed: malformed"]
        );
    }

    #[test]
    fn a_field_that_is_written_out_again_is_the_same_whatever_the_tables_hold() {
        let mut decoder = Decoder::new();
        // `:path: /ab` without indexing; then a field that is kept under the number 62, a literal
        // with that name, another field that takes the number, and the literals once more.
        let path = [0x04, 3, b'/', b'a', b'b'];
        let named = [0x0f, 47, 1, b'z'];
        let block = [
            &path[..],
            &[0x40, 1, b'x', 0],
            &named,
            &path,
            &[0x40, 1, b'y', 0],
            &named,
        ];
        assert_eq!(
            decoded(&mut decoder, &block.concat()).unwrap(),
            ["Path: /ab", "x: ", "x: z", "Path: /ab", "y: ", "y: z"]
        );
    }

    #[test]
    fn sizes_are_measured_as_the_rfc_says() {
        let mut sizes = Vec::new();
        let block = [&[0x40, 1, b'x', 2, b'a', b'b', 0x7e, 0, 0xbe][..]].concat();
        Decoder::new()
            .decode(&block, |field| {
                sizes.push(field.size);
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(sizes, [35, 33, 33]);
    }

    #[test]
    fn what_a_field_is_parsed_to_is_shared_by_all_who_use_it() {
        let mut decoder = Decoder::new();
        let mut values: Vec<HeaderValue> = Vec::new();
        decoder
            .decode(&[0x40, 1, b'x', 1, b'y', 0xbe, 0xbe], |field| {
                if let FieldValue::Header(value) = &field.value {
                    values.push(value.clone());
                }
                ControlFlow::Continue(())
            })
            .unwrap();
        let places: Vec<_> = values
            .iter()
            .map(|value| value.as_bytes().as_ptr())
            .collect();
        assert!(places.len() == 3 && places.iter().all(|place| *place == places[0]));
    }

    proptest! {
        #[test]
        fn any_bytes_are_fields_or_an_error(blocks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..100), 1..10)) {
            let mut decoder = Decoder::new();
            for block in blocks {
                if decoder.decode(&block, |_| ControlFlow::Continue(())).is_err() {
                    break;
                }
            }
        }
    }
}
