//! Encoding of header blocks.
//!
//! Names of the static table are sent by their number, everything else as it is: without Huffman
//! code and without a dynamic table, because looking fields up costs more than the bytes that it
//! saves. So there is nothing to keep in step with the client.

use http::StatusCode;
use smallvec::SmallVec;

use super::{integer, static_table};

/// Writes the header blocks of one connection.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    /// The client knows that our table has no size.
    is_announced: bool,
}

impl Encoder {
    /// Begins a block. The first one says that our table has no size: so no setting of the client
    /// for its size concerns us.
    pub(crate) fn begin(&mut self, out: &mut Vec<u8>) {
        const NO_TABLE: u8 = 0x20;
        if !std::mem::replace(&mut self.is_announced, true) {
            out.push(NO_TABLE);
        }
    }
}

/// Appends the status, which comes before all fields.
pub(crate) fn push_status(out: &mut Vec<u8>, status: StatusCode) {
    match static_table::status(status.as_u16()) {
        Some(number) => out.push(0x80 | number),
        None => {
            out.extend_from_slice(&[static_table::STATUS, 3]);
            out.extend_from_slice(status.as_str().as_bytes());
        }
    }
}

/// Appends a field. Its name may have capitals, which are written small.
pub(crate) fn push_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    let mut small = SmallVec::<[u8; 64]>::from_slice(name);
    small.make_ascii_lowercase();
    push_lower_field(out, &small, value);
}

/// Appends a field whose name has no capitals.
pub(crate) fn push_lower_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    match static_table::response_name(name) {
        Some(number) => integer::encode(out, 0, 4, usize::from(number)),
        None => {
            out.push(0);
            push_length(out, name.len());
            out.extend_from_slice(name);
        }
    }
    push_length(out, value.len());
    out.extend_from_slice(value);
}

fn push_length(out: &mut Vec<u8>, length: usize) {
    integer::encode(out, 0, 7, length);
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::super::{Decoder, FieldName, FieldValue};
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut out = Vec::new();
        let long = "a".repeat(300);
        let fields = [
            ("Content-Type", "text/plain"),
            ("Server", "x"),
            ("X-Long", &long),
            ("www-authenticate", ""),
        ];
        fields
            .iter()
            .for_each(|(name, value)| push_field(&mut out, name.as_bytes(), value.as_bytes()));
        let mut read = Vec::new();
        Decoder::new()
            .decode(&out, |field| {
                if let (FieldName::Header(name), FieldValue::Header(value)) =
                    (&field.name, &field.value)
                {
                    read.push((name.as_str().to_owned(), value.to_str().unwrap().to_owned()));
                }
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(
            read,
            fields.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        );
        assert_eq!(out[..3], [0x0f, 31 - 15, 10], "a name by its number");
    }

    #[test]
    fn only_the_first_block_speaks_of_the_table() {
        let (mut encoder, mut out) = (Encoder::default(), Vec::new());
        for status in [200, 429] {
            encoder.begin(&mut out);
            push_status(&mut out, StatusCode::from_u16(status).unwrap());
        }
        assert_eq!(out, b"\x20\x88\x08\x03429");
    }
}
