//! The segments of a path.

/// The segments of a path; empty ones do not count, so a trailing slash makes no difference.
#[inline]
pub(crate) fn segments(path: &str) -> Segments<'_> {
    Segments(path)
}

/// The rest of a path whose segments are walked. Segments are short, so their ends are looked for
/// byte by byte.
#[derive(Clone)]
pub(crate) struct Segments<'a>(&'a str);

impl<'a> Iterator for Segments<'a> {
    type Item = &'a str;

    #[inline]
    fn next(&mut self) -> Option<&'a str> {
        let is_slash = |byte: &u8| *byte == b'/';
        let start = self.0.as_bytes().iter().position(|byte| !is_slash(byte))?;
        let rest = &self.0[start..];
        let end = rest.as_bytes().iter().position(is_slash);
        let (segment, rest) = rest.split_at(end.unwrap_or(rest.len()));
        self.0 = rest;
        Some(segment)
    }
}

/// A path without the slashes that it begins with.
#[inline(always)]
pub(crate) fn without_slashes(mut path: &[u8]) -> &[u8] {
    while let [b'/', after @ ..] = path {
        path = after;
    }
    path
}

/// The segment that a path without slashes in front begins with, and the rest.
pub(crate) fn split_segment(path: &[u8]) -> (&[u8], &[u8]) {
    let end = path.iter().position(|byte| *byte == b'/');
    path.split_at(end.unwrap_or(path.len()))
}
