//! Header blocks of HTTP/2: what is decoded is bounded by what came, and can be written and read
//! again.

use sluicegate_net::fuzz_internals::{HeaderBlocks, push_header};

use crate::input::InputBytes;

/// Blocks of one connection, each behind a byte with its length.
pub fn run(data: &[u8]) {
    let mut input = InputBytes::new(data);
    let mut blocks = HeaderBlocks::new();
    while !input.is_empty() {
        let length = usize::from(input.byte());
        let block = (0..length).map(|_| input.byte());
        let block: Vec<u8> = block.collect();
        let Some((headers, size)) = blocks.decode(&block) else {
            return;
        };
        // A byte can stand for a field of the table, which has 4,096 bytes.
        assert!(size <= block.len() * 4_096, "{size} bytes of {length}");
        let mut written = Vec::new();
        for (name, value) in &headers {
            push_header(&mut written, name, value);
        }
        let read = HeaderBlocks::new().decode(&written);
        let (read, _) = read.expect("what we write can be read");
        assert_eq!(read, headers);
    }
}
