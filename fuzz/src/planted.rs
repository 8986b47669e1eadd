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
        // Each step is code of its own, as in a parser.
        std::hint::black_box(STEPS[found - 1]());
    }
    assert!(found < WORD.len(), "the planted bug");
}

const STEPS: [fn() -> u8; 8] = [|| 1, || 2, || 3, || 4, || 5, || 6, || 7, || 8];
