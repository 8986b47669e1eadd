//! Takes the parts of a structured input from the bytes of a fuzzer.

/// The bytes of an input that were not taken yet. At their end everything is zero.
pub(crate) struct InputBytes<'a>(&'a [u8]);

impl<'a> InputBytes<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u8) -> u8 {
        self.byte() % end
    }

    /// True in one of `count` cases.
    pub(crate) fn one_in(&mut self, count: u8) -> bool {
        self.below(count) == 1
    }

    /// A number from 0 to `max`, small ones as likely as large ones: its bits first, then its
    /// digits.
    pub(crate) fn number(&mut self, max: u64) -> u64 {
        let bits = u32::from(self.below(65));
        let bytes = bits.div_ceil(8);
        let digits = (0..bytes).fold(0, |digits, _| digits << 8 | u64::from(self.byte()));
        let mask = u64::MAX.checked_shr(64 - bits).unwrap_or(0);
        (digits & mask).min(max)
    }

    /// Everything up to the next line end, or to the end.
    pub(crate) fn line(&mut self) -> &'a [u8] {
        let end = self.0.iter().position(|byte| *byte == b'\n');
        let (line, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        self.0 = rest.split_first().map_or(rest, |(_, rest)| rest);
        line
    }

    /// Everything that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}
