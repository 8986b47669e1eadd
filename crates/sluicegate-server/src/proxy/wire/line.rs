//! Where in the bytes of a head its lines are.

use std::ops::Range;

/// Where name and value of a line are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    pub(crate) name: Span,
    pub(crate) value: Span,
}

impl Line {
    /// A line that was found in `text`.
    pub(crate) fn of(text: &[u8], line: &httparse::Header<'_>) -> Self {
        Self {
            name: Span::of(text, line.name.as_bytes()),
            value: Span::of(text, line.value),
        }
    }
}

/// A part of a text that is much shorter than four gigabytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    pub(crate) fn new(start: usize, end: usize) -> Self {
        Self {
            start: start as u32,
            end: end as u32,
        }
    }

    /// Of a part of `text`.
    pub(crate) fn of(text: &[u8], part: &[u8]) -> Self {
        let start = (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
        Self::new(start, start + part.len())
    }

    pub(crate) fn length(self) -> usize {
        (self.end - self.start) as usize
    }

    pub(crate) fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}
