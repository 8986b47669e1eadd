//! Messages of protobuf, written field by field in the order of their numbers.

/// Appends the fields of one message. A number that is zero is left out, as the format has it.
pub(super) struct MessageWriter<'a>(pub(super) &'a mut Vec<u8>);

impl MessageWriter<'_> {
    const VARINT: u8 = 0;
    const SIXTY_FOUR_BITS: u8 = 1;
    const DELIMITED: u8 = 2;

    pub(super) fn number(&mut self, tag: u8, number: u64) {
        if number > 0 {
            self.0.push(tag << 3 | Self::VARINT);
            push_varint(self.0, number);
        }
    }

    /// A number that is written also if it is zero, because its presence means something.
    pub(super) fn present_number(&mut self, tag: u8, number: u64) {
        self.0.push(tag << 3 | Self::VARINT);
        push_varint(self.0, number);
    }

    /// The same for a fraction.
    pub(super) fn present_double(&mut self, tag: u8, number: f64) {
        self.0.push(tag << 3 | Self::SIXTY_FOUR_BITS);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    pub(super) fn text(&mut self, tag: u8, text: &[u8]) {
        if !text.is_empty() {
            self.delimited(tag, |out| out.extend_from_slice(text));
        }
    }

    pub(super) fn message(&mut self, tag: u8, write: impl FnOnce(&mut MessageWriter<'_>)) {
        self.delimited(tag, |out| write(&mut MessageWriter(out)));
    }

    /// A field whose length comes before its bytes. Most have less than 128, which takes one byte.
    pub(super) fn delimited(&mut self, tag: u8, write: impl FnOnce(&mut Vec<u8>)) {
        self.0.extend_from_slice(&[tag << 3 | Self::DELIMITED, 0]);
        let start = self.0.len();
        write(self.0);
        let length = self.0.len() - start;
        if let Ok(length @ ..0x80) = u8::try_from(length) {
            self.0[start - 1] = length;
            return;
        }
        let bytes = self.0.split_off(start);
        self.0.pop();
        push_varint(self.0, length as u64);
        self.0.extend_from_slice(&bytes);
    }
}

fn push_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}
