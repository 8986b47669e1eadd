//! The message of a question (`RateLimitRequest`), read where it lies.
//!
//! Only the fields that we use are read, and nothing is copied. Whether a message is one, and what it
//! means, is decided as prost decides it, whose types describe the same message to everybody else: of a
//! field that occurs twice the last one counts, messages are merged, unknown fields are passed over,
//! known ones of another wire type are errors. `reading_tests.rs` compares the two.

use smallvec::SmallVec;

/// The most descriptors of one request.
pub(super) const DESCRIPTORS_MAX: usize = 64;
/// The most entries of one descriptor.
pub(super) const ENTRIES_MAX: usize = 32;
/// Levels of messages and groups within each other, as prost has them.
const DEPTH_MAX: u32 = 100;

/// What a gateway asks.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Question<'a> {
    pub(super) domain: &'a str,
    /// No more than one beyond [`DESCRIPTORS_MAX`] is kept.
    pub(super) descriptors: SmallVec<[Descriptor<'a>; 2]>,
    pub(super) hits_addend: u32,
}

/// One descriptor.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Descriptor<'a> {
    /// No more than one beyond [`ENTRIES_MAX`] is kept.
    pub(super) entries: SmallVec<[(&'a str, &'a str); 4]>,
    pub(super) limit: Option<LimitOverride>,
    pub(super) hits_addend: Option<u64>,
    pub(super) is_negative_hits: bool,
}

/// The limit that a descriptor brings along.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LimitOverride {
    pub(super) requests_per_unit: u32,
    /// The number of a unit, which may be none.
    pub(super) unit: i32,
}

/// The bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MalformedMessage;

impl<'a> Question<'a> {
    pub(super) fn decode(message: &'a [u8]) -> Result<Self, MalformedMessage> {
        let mut question = Self::default();
        let mut fields = Fields::new(message, DEPTH_MAX);
        while let Some(key) = fields.next_key()? {
            match key.tag {
                1 => question.domain = fields.text(key)?,
                2 => {
                    let descriptor = Descriptor::decode(fields.message(key)?)?;
                    push_bounded(&mut question.descriptors, descriptor, DESCRIPTORS_MAX);
                }
                3 => question.hits_addend = fields.number(key)? as u32,
                _ => fields.skip(key)?,
            }
        }
        Ok(question)
    }
}

impl<'a> Descriptor<'a> {
    fn decode(mut fields: Fields<'a>) -> Result<Self, MalformedMessage> {
        let mut descriptor = Self::default();
        while let Some(key) = fields.next_key()? {
            match key.tag {
                1 => {
                    let entry = decode_entry(fields.message(key)?)?;
                    push_bounded(&mut descriptor.entries, entry, ENTRIES_MAX);
                }
                2 => {
                    let limit = descriptor.limit.get_or_insert_default();
                    limit.merge(fields.message(key)?)?;
                }
                3 => {
                    let hits = descriptor.hits_addend.get_or_insert(0);
                    merge_wrapped_number(fields.message(key)?, hits)?;
                }
                4 => descriptor.is_negative_hits = fields.number(key)? != 0,
                _ => fields.skip(key)?,
            }
        }
        Ok(descriptor)
    }
}

fn decode_entry<'a>(mut fields: Fields<'a>) -> Result<(&'a str, &'a str), MalformedMessage> {
    let mut entry = ("", "");
    while let Some(key) = fields.next_key()? {
        match key.tag {
            1 => entry.0 = fields.text(key)?,
            2 => entry.1 = fields.text(key)?,
            _ => fields.skip(key)?,
        }
    }
    Ok(entry)
}

impl LimitOverride {
    fn merge(&mut self, mut fields: Fields<'_>) -> Result<(), MalformedMessage> {
        while let Some(key) = fields.next_key()? {
            match key.tag {
                1 => self.requests_per_unit = fields.number(key)? as u32,
                2 => self.unit = fields.number(key)? as i32,
                _ => fields.skip(key)?,
            }
        }
        Ok(())
    }
}

/// Reads a `google.protobuf.UInt64Value`.
fn merge_wrapped_number(mut fields: Fields<'_>, number: &mut u64) -> Result<(), MalformedMessage> {
    while let Some(key) = fields.next_key()? {
        match key.tag {
            1 => *number = fields.number(key)?,
            _ => fields.skip(key)?,
        }
    }
    Ok(())
}

/// Adds an item while no more than `most` are there: one more shows that there are too many.
fn push_bounded<const SIZE: usize, T>(items: &mut SmallVec<[T; SIZE]>, item: T, most: usize)
where
    [T; SIZE]: smallvec::Array<Item = T>,
{
    if items.len() <= most {
        items.push(item);
    }
}

/// The number of a field, and the form of its value.
#[derive(Clone, Copy)]
struct FieldKey {
    tag: u32,
    wire_type: u8,
}

/// The forms of values.
mod wire_type {
    pub(super) const VARINT: u8 = 0;
    pub(super) const SIXTY_FOUR_BITS: u8 = 1;
    pub(super) const DELIMITED: u8 = 2;
    pub(super) const GROUP_START: u8 = 3;
    pub(super) const GROUP_END: u8 = 4;
    pub(super) const THIRTY_TWO_BITS: u8 = 5;
}

/// The fields of a message that have not been read.
struct Fields<'a> {
    rest: &'a [u8],
    /// Levels that may still follow within this one.
    depth: u32,
}

impl<'a> Fields<'a> {
    fn new(rest: &'a [u8], depth: u32) -> Self {
        Self { rest, depth }
    }

    /// The next field, whose value must be read or skipped; `None` at the end.
    fn next_key(&mut self) -> Result<Option<FieldKey>, MalformedMessage> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let key = u32::try_from(self.varint()?).map_err(|_| MalformedMessage)?;
        let (tag, wire_type) = (key >> 3, (key & 7) as u8);
        if tag == 0 || wire_type > wire_type::THIRTY_TWO_BITS {
            return Err(MalformedMessage);
        }
        Ok(Some(FieldKey { tag, wire_type }))
    }

    fn number(&mut self, key: FieldKey) -> Result<u64, MalformedMessage> {
        match key.wire_type {
            wire_type::VARINT => self.varint(),
            _ => Err(MalformedMessage),
        }
    }

    fn text(&mut self, key: FieldKey) -> Result<&'a str, MalformedMessage> {
        str::from_utf8(self.delimited(key)?).map_err(|_| MalformedMessage)
    }

    fn message(&mut self, key: FieldKey) -> Result<Fields<'a>, MalformedMessage> {
        // Known messages are never so deep that their number of levels matters.
        Ok(Fields::new(self.delimited(key)?, self.depth - 1))
    }

    fn delimited(&mut self, key: FieldKey) -> Result<&'a [u8], MalformedMessage> {
        if key.wire_type != wire_type::DELIMITED {
            return Err(MalformedMessage);
        }
        let length = self.varint()?;
        self.take(length)
    }

    /// Passes over a field that we do not know.
    fn skip(&mut self, key: FieldKey) -> Result<(), MalformedMessage> {
        self.skip_within(key, self.depth)
    }

    fn skip_within(&mut self, key: FieldKey, depth: u32) -> Result<(), MalformedMessage> {
        if depth == 0 {
            return Err(MalformedMessage);
        }
        match key.wire_type {
            wire_type::VARINT => self.varint().map(drop),
            wire_type::SIXTY_FOUR_BITS => self.take(8).map(drop),
            wire_type::THIRTY_TWO_BITS => self.take(4).map(drop),
            wire_type::DELIMITED => self.delimited(key).map(drop),
            wire_type::GROUP_START => loop {
                let inner = self.next_key()?.ok_or(MalformedMessage)?;
                match inner.wire_type {
                    wire_type::GROUP_END if inner.tag == key.tag => return Ok(()),
                    wire_type::GROUP_END => return Err(MalformedMessage),
                    _ => self.skip_within(inner, depth - 1)?,
                }
            },
            // A group ends that has not begun.
            _ => Err(MalformedMessage),
        }
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], MalformedMessage> {
        let length = usize::try_from(length).map_err(|_| MalformedMessage)?;
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(MalformedMessage)?;
        self.rest = rest;
        Ok(taken)
    }

    /// A number in groups of seven bits, the lowest first.
    fn varint(&mut self) -> Result<u64, MalformedMessage> {
        let mut value = 0;
        for (place, byte) in self.rest.iter().enumerate().take(10) {
            // Of the tenth group one bit is left.
            if place == 9 && *byte > 1 {
                return Err(MalformedMessage);
            }
            value |= u64::from(byte & 0x7f) << (7 * place);
            if *byte < 0x80 {
                self.rest = &self.rest[place + 1..];
                return Ok(value);
            }
        }
        Err(MalformedMessage)
    }
}
