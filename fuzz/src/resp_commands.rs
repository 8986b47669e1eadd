//! Commands of RESP, as the decision service takes them from a connection.

use sluicegate_server::fuzz_internals::parse_commands;

/// The first byte is the length of the pieces in which the rest arrives.
pub fn run(data: &[u8]) {
    let Some((piece, bytes)) = data.split_first() else {
        return;
    };
    let whole = parse_commands(bytes, bytes.len());
    let pieces = parse_commands(bytes, 1 + usize::from(*piece % 32));
    assert_eq!(whole, pieces);
    assert!(whole.left <= bytes.len());
    // What was understood, as arrays, is the same commands.
    let written: Vec<u8> = whole
        .commands
        .iter()
        .flat_map(|words| array(words))
        .collect();
    let again = parse_commands(&written, 1 + usize::from(*piece));
    assert_eq!(again.commands, whole.commands);
    assert_eq!((again.left, again.error), (0, None));
}

fn array(words: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}
