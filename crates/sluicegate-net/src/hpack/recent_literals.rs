//! The last fields that a client has written out.
//!
//! Some clients write a field out with every request, such as the path of a call that they make again
//! and again. The same bytes mean the same field, so it is decoded and parsed once.
//!
//! **Invariant:** nothing is kept whose name is a number of the dynamic table, because such numbers
//! change their meaning. What a client asks never to be kept in a table is not kept here either.

use super::field::Field;
use super::static_table;

/// A few fields, each with the bytes that stand for it.
#[derive(Debug, Default)]
pub(super) struct RecentLiterals {
    fields: [Option<RecentLiteral>; Self::MOST],
    /// The place of the oldest.
    next: usize,
}

#[derive(Debug)]
struct RecentLiteral {
    bytes: Vec<u8>,
    field: Field,
}

impl RecentLiterals {
    /// As many as clients write out again and again in each request.
    const MOST: usize = 4;
    /// Bytes of a field that is kept.
    const BYTES_MAX: usize = 256;

    /// The field that the block begins with, and the number of its bytes.
    pub(super) fn find(&self, block: &[u8]) -> Option<(&Field, usize)> {
        let mut known = self.fields.iter().flatten();
        let literal = known.find(|literal| block.starts_with(&literal.bytes))?;
        Some((&literal.field, literal.bytes.len()))
    }

    /// Keeps a field in the place of the oldest.
    pub(super) fn keep(&mut self, bytes: &[u8], field: Field) {
        if bytes.len() > Self::BYTES_MAX || !means_always_the_same(bytes) {
            return;
        }
        let place = &mut self.fields[self.next];
        self.next = (self.next + 1) % Self::MOST;
        let mut memory = place.take().map_or_else(Vec::new, |oldest| oldest.bytes);
        memory.clear();
        memory.extend_from_slice(bytes);
        *place = Some(RecentLiteral {
            bytes: memory,
            field,
        });
    }

    /// Frees all memory.
    pub(super) fn shrink(&mut self) {
        *self = Self::default();
    }
}

/// Returns true for a literal without indexing (RFC 7541, section 6.2.2) whose name is written out or
/// in the static table.
fn means_always_the_same(literal: &[u8]) -> bool {
    match *literal {
        [0..0x0f, ..] => true,
        [0x0f, more, ..] => usize::from(more) <= static_table::LENGTH - 0x0f,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::field::FieldName;
    use super::*;

    fn field(value: &[u8]) -> Field {
        Field::new(FieldName::parse(b"abc"), 3, value)
    }

    fn found(recent: &RecentLiterals, block: &[u8]) -> Option<usize> {
        recent.find(block).map(|(_, length)| length)
    }

    #[test]
    fn fields_are_found_at_the_beginning_of_a_block_until_others_take_their_place() {
        let mut recent = RecentLiterals::default();
        for number in 0..RecentLiterals::MOST as u8 {
            recent.keep(&[4, 1, number], field(b"x"));
        }
        assert_eq!(found(&recent, &[4, 1, 0, 9, 9]), Some(3));
        assert_eq!(found(&recent, &[4, 1]), None);
        recent.keep(&[4, 1, 9], field(b"x"));
        assert_eq!(found(&recent, &[4, 1, 0]), None);
        assert_eq!(found(&recent, &[4, 1, 9]), Some(3));
        recent.shrink();
        assert_eq!(found(&recent, &[4, 1, 9]), None);
    }

    #[test]
    fn what_may_change_its_meaning_or_is_secret_or_long_is_not_kept() {
        let long = [&[4, 0x7f, 0x90, 2][..], &[b'a'; 400]].concat();
        // The first number of the dynamic table is 62, which is 15 and 47.
        for bytes in [
            &[0x0f, 47, 1, b'x'][..],
            &[0x0f, 0x80, 1, 0],
            &[0x14, 1, 0],
            &long,
        ] {
            let mut recent = RecentLiterals::default();
            recent.keep(bytes, field(b"x"));
            assert_eq!(found(&recent, bytes), None, "{:x?}", &bytes[..2]);
        }
        let mut recent = RecentLiterals::default();
        recent.keep(&[0x0f, 46, 1, b'x'], field(b"x"));
        assert!(found(&recent, &[0x0f, 46, 1, b'x']).is_some());
    }
}
