//! The PROXY protocol: a load balancer names the client before the first byte of its connection.
//!
//! Version 1 is a line of text, version 2 is binary. A connection either begins with a header that
//! is right in every byte, or is refused: a lenient parser could be made to believe the client's
//! own bytes.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Longest header of version 1, with its line end.
const V1_BYTES_MAX: usize = 107;
/// Longest header of version 2 that is accepted: addresses and a few hundred bytes of additions.
const V2_BYTES_MAX: usize = 536;

const V1_START: &[u8] = b"PROXY ";
const V2_START: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// The start, version and command, family, length.
const V2_HEAD_BYTES: usize = 16;

/// The header at the beginning of a connection, as far as it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyHeader {
    /// At least this many more bytes belong to the header.
    Incomplete(usize),
    /// The header is complete.
    Complete {
        /// Address of the client; `None` is the peer itself.
        source: Option<SocketAddr>,
        /// Bytes of the header; the client's own bytes follow.
        used: usize,
    },
}

/// The first bytes of a connection are not a header of the PROXY protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedProxyHeader {
    found: &'static str,
}

impl fmt::Display for MalformedProxyHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the PROXY protocol header has {}", self.found)
    }
}

impl std::error::Error for MalformedProxyHeader {}

/// Parses the header at the beginning of a connection.
///
/// A connection that the balancer made for itself (`LOCAL`), or for a client that it cannot name
/// (`UNKNOWN`, a socket in the file system), is the peer's. Additions of version 2 are skipped.
pub fn parse(bytes: &[u8]) -> Result<ProxyHeader, MalformedProxyHeader> {
    match bytes.first() {
        None => Ok(ProxyHeader::Incomplete(1)),
        Some(b'P') => parse_v1(bytes),
        Some(_) => parse_v2(bytes),
    }
}

/// Says what the header has that it must not.
fn malformed<T>(found: &'static str) -> Result<T, MalformedProxyHeader> {
    Err(MalformedProxyHeader { found })
}

/// Version 1: `PROXY TCP4 192.0.2.1 198.51.100.1 56324 443`, CR LF.
fn parse_v1(bytes: &[u8]) -> Result<ProxyHeader, MalformedProxyHeader> {
    let window = &bytes[..bytes.len().min(V1_BYTES_MAX)];
    let start = window.len().min(V1_START.len());
    if window[..start] != V1_START[..start] {
        return malformed("another start");
    }
    let Some(end) = window.iter().position(|byte| *byte == b'\n') else {
        // The shortest line is `PROXY UNKNOWN`; a line end is missing in any case.
        let least = "PROXY UNKNOWN\r\n"
            .len()
            .saturating_sub(window.len())
            .max(1);
        return if window.len() < V1_BYTES_MAX {
            Ok(ProxyHeader::Incomplete(least))
        } else {
            malformed("no end")
        };
    };
    let line = window[..end]
        .strip_suffix(b"\r")
        .and_then(|line| str::from_utf8(line).ok());
    let Some(words) = line.and_then(|line| line.strip_prefix("PROXY ")) else {
        return malformed("a broken line");
    };
    let used = end + 1;
    if words == "UNKNOWN" || words.starts_with("UNKNOWN ") {
        return Ok(ProxyHeader::Complete { source: None, used });
    }
    let mut words = words.split(' ');
    let mut next = || words.next().unwrap_or_default();
    let (family, source, destination, source_port, destination_port) =
        (next(), next(), next(), next(), next());
    let read_address = |text: &str| match family {
        "TCP4" => text.parse().map(IpAddr::V4).ok(),
        "TCP6" => text.parse().map(IpAddr::V6).ok(),
        _ => None,
    };
    let addresses = read_address(source).zip(read_address(destination));
    let ports = read_port(source_port).zip(read_port(destination_port));
    match (addresses, ports, words.next()) {
        (Some((source, _)), Some((port, _)), None) => Ok(ProxyHeader::Complete {
            source: Some(SocketAddr::new(source, port)),
            used,
        }),
        _ => malformed("a broken line"),
    }
}

/// A port in digits, without a sign or leading zeros.
fn read_port(text: &str) -> Option<u16> {
    let is_number =
        text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if is_number { text.parse().ok() } else { None }
}

/// Version 2: twelve fixed bytes, version and command, family, length, addresses, additions.
fn parse_v2(bytes: &[u8]) -> Result<ProxyHeader, MalformedProxyHeader> {
    let start = bytes.len().min(V2_START.len());
    if bytes[..start] != V2_START[..start] {
        return malformed("another start");
    }
    let Some((head, _)) = bytes.split_first_chunk::<V2_HEAD_BYTES>() else {
        return Ok(ProxyHeader::Incomplete(V2_HEAD_BYTES - bytes.len()));
    };
    let [.., version_and_command, family, length_high, length_low] = *head;
    let used = V2_HEAD_BYTES + usize::from(u16::from_be_bytes([length_high, length_low]));
    if used > V2_BYTES_MAX {
        return malformed("too many bytes");
    }
    let is_local = match version_and_command {
        0x20 => true,
        0x21 => false,
        _ => return malformed("another version or command"),
    };
    let address_bytes = match family {
        0x00 => 0,
        0x11 => 12,
        0x21 => 36,
        0x31 => 216,
        // Datagrams are the families that are left, and no connection is made of them.
        _ if !is_local => return malformed("another family"),
        _ => 0,
    };
    if !is_local && used < V2_HEAD_BYTES + address_bytes {
        return malformed("too few bytes for its addresses");
    }
    let Some(addresses) = bytes.get(V2_HEAD_BYTES..used) else {
        return Ok(ProxyHeader::Incomplete(used - bytes.len()));
    };
    let source = match (is_local, family) {
        (false, 0x11) => {
            source_of::<4, 12>(addresses).map(|(ip, port)| (Ipv4Addr::from(ip).into(), port))
        }
        (false, 0x21) => {
            source_of::<16, 36>(addresses).map(|(ip, port)| (Ipv6Addr::from(ip).into(), port))
        }
        _ => None,
    };
    Ok(ProxyHeader::Complete {
        source: source.map(|(ip, port)| SocketAddr::new(ip, port)),
        used,
    })
}

/// Address and port of the source. The block has the source address, the destination address, the
/// source port and the destination port, in this order.
fn source_of<const ADDRESS: usize, const ALL: usize>(
    addresses: &[u8],
) -> Option<([u8; ADDRESS], u16)> {
    let block: &[u8; ALL] = addresses.first_chunk()?;
    let port = block.get(2 * ADDRESS..2 * ADDRESS + 2)?;
    Some((
        *block.first_chunk()?,
        u16::from_be_bytes(*port.first_chunk()?),
    ))
}

#[cfg(test)]
mod tests;
