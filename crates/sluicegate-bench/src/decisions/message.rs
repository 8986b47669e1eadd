//! The little of protobuf and gRPC that a question needs.

/// A message under construction.
#[derive(Default)]
pub struct ProtobufMessage(Vec<u8>);

impl ProtobufMessage {
    /// A text or a message within it.
    pub fn bytes(mut self, number: u8, value: &[u8]) -> Self {
        self.0.push(number << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    pub fn message(self, number: u8, value: &Self) -> Self {
        self.bytes(number, &value.0)
    }

    pub fn number(mut self, number: u8, value: u64) -> Self {
        self.0.push(number << 3);
        self.varint(value);
        self
    }

    /// As a call carries it: not compressed, with its length before it.
    pub fn framed(&self) -> Vec<u8> {
        let length = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        [&[0][..], &length.to_be_bytes(), &self.0].concat()
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_encoded_as_protobuf_says() {
        let inner = ProtobufMessage::default().bytes(1, b"key").bytes(2, b"hot");
        let outer = ProtobufMessage::default()
            .bytes(1, b"d")
            .message(2, &inner)
            .number(3, 300);
        let expected = b"\x0a\x01d\x12\x0a\x0a\x03key\x12\x03hot\x18\xac\x02";
        assert_eq!(
            outer.framed(),
            [&[0, 0, 0, 0, expected.len() as u8][..], expected].concat()
        );
    }
}
