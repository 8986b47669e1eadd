//! Header blocks of HTTP/2 (RFC 7541), one after the other on a connection.
//!
//! A field that was decoded, from any table and in any code, is the same field when it is encoded
//! in plain words.

use sluicegate_net::fuzz_internals::{BlockDecoder, DecodedField, encode_field};

use crate::input::InputBytes;

/// Each block follows a byte that is its length.
pub fn run(data: &[u8]) {
    let mut input = InputBytes::new(data);
    let mut decoder = BlockDecoder::new();
    let mut twin = BlockDecoder::new();
    while !input.is_empty() {
        let length = usize::from(input.byte());
        let block = input.take(length);
        let fields = decoder.decode(block);
        assert_eq!(fields, twin.decode(block), "a decoder has no other state");
        let Some(fields) = fields else { return };
        // A byte makes one field at most: nobody gets more of us than was sent.
        assert!(fields.len() <= block.len());
        fields.iter().flatten().for_each(check);
    }
}

fn check(field: &DecodedField) {
    let DecodedField { name, value, size } = field;
    let plain_size = name.len() + value.len() + 32;
    // A fragment of a path is dropped, but counts.
    let is_path = name == b":path";
    let shown = String::from_utf8_lossy(name);
    assert!(*size >= plain_size, "{shown}");
    assert!(is_path || *size == plain_size, "{shown}");
    assert!(!name.iter().any(u8::is_ascii_uppercase), "{shown}");
    let mut block = Vec::new();
    encode_field(&mut block, name, value);
    let again = BlockDecoder::new().decode(&block);
    let expected = DecodedField {
        size: plain_size,
        ..field.clone()
    };
    assert_eq!(again, Some(vec![Some(expected)]));
}
