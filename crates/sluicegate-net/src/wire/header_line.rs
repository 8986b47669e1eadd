//! Positions of header lines in the bytes of a head, so that nothing is copied to find them.

use std::ops::Range;

/// Position of a line's name and value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeaderLine {
    pub(crate) name: ByteRange,
    pub(crate) value: ByteRange,
}

impl HeaderLine {
    /// Position of a line that was parsed from `text`.
    pub(crate) fn of(text: &[u8], line: &httparse::Header<'_>) -> Self {
        Self {
            name: ByteRange::of(text, line.name.as_bytes()),
            value: ByteRange::of(text, line.value),
        }
    }
}

/// Position of a part in a text that is much shorter than four gigabytes: half the size of a
/// [`Range`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByteRange {
    start: u32,
    end: u32,
}

impl ByteRange {
    /// The part from `start` up to `end`.
    pub(crate) fn new(start: usize, end: usize) -> Self {
        Self {
            start: start as u32,
            end: end as u32,
        }
    }

    /// Position of `part`, which must be a slice of `text`.
    pub(crate) fn of(text: &[u8], part: &[u8]) -> Self {
        let start = (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
        Self::new(start, start + part.len())
    }

    /// Bytes in the part.
    pub(crate) fn length(self) -> usize {
        (self.end - self.start) as usize
    }

    /// The same for a text that lacks the first `before` bytes.
    pub(crate) fn range_behind(self, before: usize) -> Range<usize> {
        let Range { start, end } = self.range();
        start - before..end - before
    }

    /// The part as an index for slices.
    pub(crate) fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}
