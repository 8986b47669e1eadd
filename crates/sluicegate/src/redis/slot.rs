//! The slot of a Redis Cluster that a key belongs to, as the cluster specification computes it.
//!
//! Client and server must agree on it, or every request would be redirected.

/// Number of slots of every cluster.
pub(crate) const SLOTS: u16 = 16_384;

/// The slot of `key`: the checksum of its hash tag, or of the whole key when it has none.
pub(crate) fn slot(key: &[u8]) -> u16 {
    crc16(hash_tag(key).unwrap_or(key)) % SLOTS
}

/// The bytes between the first `{` and the first `}` after it. If there is nothing between them the
/// key has no tag, even if a later pair of braces holds one.
fn hash_tag(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|byte| *byte == b'{')?;
    let inside = &key[open + 1..];
    let close = inside.iter().position(|byte| *byte == b'}')?;
    (close > 0).then(|| &inside[..close])
}

/// CRC16/XMODEM: polynomial 0x1021, initial value 0, highest bit first.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (crc << 8) ^ CRC_TABLE[usize::from((crc >> 8) as u8 ^ byte)]
    })
}

/// The checksum of each single byte, computed by the compiler.
const CRC_TABLE: [u16; 256] = {
    const POLYNOMIAL: u16 = 0x1021;
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 {
                crc << 1
            } else {
                (crc << 1) ^ POLYNOMIAL
            };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_cluster_specification() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(crc16(b""), 0);
    }

    #[test]
    fn a_slot_comes_from_the_first_pair_of_braces_with_something_inside() {
        // Answers of CLUSTER KEYSLOT.
        assert_eq!(slot(b"foo"), 12_182);
        assert_eq!(slot(b"bar"), 5_061);
        assert_eq!(slot(b"foo{bar}"), slot(b"bar"));
        assert_eq!(slot(b"{bar}foo"), slot(b"bar"));
        assert_eq!(slot(b"foo{bar}{zap}"), slot(b"bar"));
        assert_eq!(slot(b"foo{{bar}}zap"), slot(b"{bar"));
        for whole in [&b"{}"[..], b"foo{}{bar}", b"foo{bar", b"foo}bar{", b""] {
            assert_eq!(slot(whole), crc16(whole) % SLOTS, "{whole:?}");
        }
    }
}
