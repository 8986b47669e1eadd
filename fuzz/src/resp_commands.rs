//! Commands of RESP, as the decision service takes them from a connection.

use sluicegate_server::fuzz_internals::parse_commands;

use crate::input::InputBytes;

/// The first byte is the length of the pieces in which the rest arrives.
pub fn run(data: &[u8]) {
    let mut input = InputBytes::new(data);
    let piece = input.piece_length();
    let bytes = input.rest();
    let whole = parse_commands(bytes, bytes.len());
    let pieces = parse_commands(bytes, piece);
    assert_eq!(whole, pieces);
    assert!(whole.left <= bytes.len());
    // The same commands, all as arrays.
    let written: Vec<u8> = whole
        .commands
        .iter()
        .flat_map(|words| array(words))
        .collect();
    let again = parse_commands(&written, piece);
    assert_eq!(again.commands, whole.commands);
    assert_eq!(again.left, 0);
    assert_eq!(again.error, None);
}

fn array(words: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        let length = format!("${}\r\n", word.len());
        bytes.extend_from_slice(length.as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}
