//! The fields that a client has sent before (RFC 7541, section 2.3.2): a ring from the newest to
//! the oldest, bounded in bytes.

use std::collections::VecDeque;

use super::field::Field;

/// The dynamic table of one direction.
#[derive(Debug)]
pub(super) struct DynamicTable {
    /// The newest first.
    fields: VecDeque<Field>,
    /// Sum of the sizes of the fields.
    size: usize,
    size_max: usize,
}

impl DynamicTable {
    pub(super) fn new(size_max: usize) -> Self {
        Self {
            fields: VecDeque::new(),
            size: 0,
            size_max,
        }
    }

    /// The field at this place; the newest is at 0.
    pub(super) fn get(&self, place: usize) -> Option<&Field> {
        self.fields.get(place)
    }

    /// Adds a field. One that is larger than the table empties it and is not kept.
    pub(super) fn insert(&mut self, field: Field) {
        self.evict(self.size_max.saturating_sub(field.size));
        if field.size <= self.size_max {
            self.size += field.size;
            self.fields.push_front(field);
        }
    }

    /// Changes the size that the table may have.
    pub(super) fn resize(&mut self, size_max: usize) {
        self.size_max = size_max;
        self.evict(size_max);
    }

    /// Drops the oldest fields until the rest has at most this size.
    fn evict(&mut self, size: usize) {
        while self.size > size
            && let Some(oldest) = self.fields.pop_back()
        {
            self.size -= oldest.size;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::field::FieldName;
    use super::*;

    /// A field of 36 bytes.
    fn field(value: &str) -> Field {
        Field::new(FieldName::parse(b"abc"), 3, value.as_bytes())
    }

    #[test]
    fn the_oldest_make_room_for_the_newest() {
        let mut table = DynamicTable::new(80);
        (0..5).for_each(|number| table.insert(field(&number.to_string())));
        assert_eq!((table.fields.len(), table.size), (2, 72));
        assert_eq!(table.get(0).unwrap().value, field("4").value);
        assert_eq!(table.get(1).unwrap().value, field("3").value);
        table.insert(field(&"a".repeat(50)));
        assert_eq!(
            (table.fields.len(), table.size),
            (0, 0),
            "larger than the table"
        );
        table.insert(field("5"));
        table.resize(10);
        assert!(table.get(0).is_none());
    }
}
