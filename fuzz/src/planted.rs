//! A planted bug: `cargo xtask fuzz` looks for it first, and does not go on without having found
//! it. A fuzzer whose instrumentation is lost would otherwise find nothing, quickly.

/// Panics at one word in 2^64, which only a fuzzer comes to that sees how far it got.
pub fn run(data: &[u8]) {
    const WORD: &[u8; 8] = b"sluice!\n";
    let mut steps = STEPS.iter();
    for (byte, wanted) in data.iter().zip(WORD) {
        if byte != wanted {
            return;
        }
        // Each step is code of its own, as in a parser.
        let step = steps.next().expect("a step for each byte");
        std::hint::black_box(step());
    }
    assert!(data.len() < WORD.len(), "the planted bug");
}

const STEPS: [fn() -> u8; 8] = [
    || 1, //
    || 2,
    || 3,
    || 4,
    || 5,
    || 6,
    || 7,
    || 8,
];
