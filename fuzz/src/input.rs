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
        let mut digits = 0;
        for _ in 0..bits.div_ceil(8) {
            digits = digits << 8 | u64::from(self.byte());
        }
        let mask = u64::MAX.checked_shr(64 - bits);
        let number = digits & mask.unwrap_or(0);
        number.min(max)
    }

    /// One of these, by the next byte.
    pub(crate) fn one_of<'c, T>(&mut self, choices: &'c [T]) -> &'c T {
        let choice = usize::from(self.byte());
        &choices[choice % choices.len()]
    }

    /// The length of the pieces in which bytes arrive, by the next byte.
    pub(crate) fn piece_length(&mut self) -> usize {
        1 + usize::from(self.below(32))
    }

    /// Everything up to the next line end, or to the end.
    pub(crate) fn line(&mut self) -> &'a [u8] {
        let mut parts = self.0.splitn(2, |byte| *byte == b'\n');
        let line = parts.next();
        self.0 = parts.next().unwrap_or_default();
        line.unwrap_or_default()
    }

    /// So many bytes, or those that are left.
    pub(crate) fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Everything that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}

/// True when no byte could end the line of a header.
pub(crate) fn fits_one_line(value: &[u8]) -> bool {
    let ends_line = |byte: &u8| matches!(byte, b'\r' | b'\n' | 0);
    !value.iter().any(ends_line)
}
