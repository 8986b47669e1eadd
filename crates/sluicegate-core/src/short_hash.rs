//! A hash of few instructions, for names of the configuration.

use std::hash::Hasher;

/// A hash without a seed. It is for names that operators choose: callers choose what is looked up,
/// but never what is in a map, so they cannot make its chains long.
#[derive(Default)]
pub(crate) struct ShortHasher(u64);

impl Hasher for ShortHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut mix = |word: u64| self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(SPREAD);
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            mix(u64::from_le_bytes(*word));
        }
        let rest = rest
            .iter()
            .fold(1, |word, byte| word << 8 | u64::from(*byte));
        mix(rest);
    }

    #[inline]
    fn write_u8(&mut self, byte: u8) {
        self.0 ^= u64::from(byte);
    }

    #[inline]
    fn finish(&self) -> u64 {
        // Tables look at the highest and at the lowest bits; the product has its best ones on top.
        self.0 ^ self.0 >> 32
    }
}
