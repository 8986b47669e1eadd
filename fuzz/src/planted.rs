//! A planted bug: `cargo xtask fuzz` looks for it first, and does not go on without having found
//! it. A fuzzer whose instrumentation is lost would otherwise find nothing, quickly.

/// Panics at one word in 2^64, which only a fuzzer that sees each comparison comes to.
pub fn run(data: &[u8]) {
    const WORD: &[u8; 8] = b"sluice!\n";
    let mut found = 0;
    for (byte, wanted) in data.iter().zip(WORD) {
        if byte != wanted {
            return;
        }
        found += 1;
    }
    assert!(found < WORD.len(), "the planted bug");
}
