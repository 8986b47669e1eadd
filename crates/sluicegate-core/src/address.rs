//! Client addresses: one spelling per address, and the prefix that is counted as one caller.
//!
//! A caller who can write one address in two ways would have two counters; one who owns a whole
//! IPv6 network would have 2^64. So every address goes through [`parse`] and every key through
//! [`Prefixes::mask`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The number of leading bits of an address that name a caller.
///
/// ```
/// use sluicegate_core::address::Prefixes;
///
/// let prefixes = Prefixes::new(24, 56).expect("at most 32 and 128 bits");
/// assert_eq!(prefixes.mask("203.0.113.7".parse()?).to_string(), "203.0.113.0");
/// assert_eq!(Prefixes::new(33, 64), None);
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefixes {
    /// 0 to 32.
    ipv4: u8,
    /// 0 to 128.
    ipv6: u8,
}

impl Prefixes {
    /// True when addresses of this family are counted one by one, not by network.
    pub const fn are_whole(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(_) => self.ipv4 == 32,
            IpAddr::V6(_) => self.ipv6 == 128,
        }
    }

    /// The number of leading bits that name a caller of this family.
    pub const fn length(&self, address: IpAddr) -> u8 {
        match address {
            IpAddr::V4(_) => self.ipv4,
            IpAddr::V6(_) => self.ipv6,
        }
    }

    /// Prefixes of these lengths; `None` when one is longer than its address (32 bits for IPv4, 128
    /// for IPv6).
    pub const fn new(ipv4: u8, ipv6: u8) -> Option<Self> {
        if ipv4 <= 32 && ipv6 <= 128 {
            Some(Self { ipv4, ipv6 })
        } else {
            None
        }
    }

    /// The address with every bit after the prefix cleared; IPv4-mapped addresses are IPv4.
    pub fn mask(self, address: IpAddr) -> IpAddr {
        match address.to_canonical() {
            IpAddr::V4(v4) => IpAddr::V4(v4 & self.mask_v4()),
            IpAddr::V6(v6) => {
                let ones = u128::MAX.unbounded_shl(128 - u32::from(self.ipv6));
                IpAddr::V6(v6 & Ipv6Addr::from_bits(ones))
            }
        }
    }

    /// The bits of an IPv4 address that are kept.
    pub(crate) fn mask_v4(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(u32::MAX.unbounded_shl(32 - u32::from(self.ipv4)))
    }
}

impl Default for Prefixes {
    /// IPv4 per address, IPv6 per /64: what one subscriber usually has.
    fn default() -> Self {
        Self { ipv4: 32, ipv6: 64 }
    }
}

/// Writes an IPv4 address byte by byte, each through `push`: many times faster than `Display`, for
/// the places that every request passes.
#[inline]
pub fn write_v4(address: Ipv4Addr, mut push: impl FnMut(u8)) {
    let digit = |number: u8| b'0' + number % 10;
    for (place, octet) in address.octets().into_iter().enumerate() {
        if place > 0 {
            push(b'.');
        }
        if octet >= 100 {
            push(digit(octet / 100));
        }
        if octet >= 10 {
            push(digit(octet / 10));
        }
        push(digit(octet));
    }
}

/// Reads an address as proxies write it: bare, in brackets, with a port or a zone, in any case,
/// IPv4-mapped or not.
///
/// Spellings that two readers could take for different addresses (octets with leading zeros) are
/// refused.
///
/// ```
/// use sluicegate_core::address::parse;
///
/// let plain = parse("203.0.113.7");
/// assert!(plain.is_some());
/// assert_eq!(parse("203.0.113.7:8080"), plain);
/// assert_eq!(parse("[::FFFF:203.0.113.7]:8080"), plain);
/// assert_eq!(parse("203.0.113.007"), None);
/// ```
pub fn parse(text: &str) -> Option<IpAddr> {
    let text = text.trim_matches([' ', '\t']);
    let bare = match text.strip_prefix('[') {
        Some(rest) => {
            let (inside, after) = rest.split_once(']')?;
            if !after.is_empty() {
                port(after.strip_prefix(':')?)?;
            }
            return parse_v6(inside);
        }
        None => text,
    };
    match bare.bytes().filter(|byte| *byte == b':').count() {
        0 => bare.parse().ok().map(IpAddr::V4),
        1 => {
            let (host, after) = bare.split_once(':')?;
            port(after)?;
            host.parse().ok().map(IpAddr::V4)
        }
        _ => parse_v6(bare),
    }
}

/// Reads an IPv6 address without brackets; a zone is dropped, if it is one (RFC 6874).
fn parse_v6(text: &str) -> Option<IpAddr> {
    let (address, zone) = text.split_once('%').unwrap_or((text, "0"));
    let is_of_zone = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%".contains(&byte);
    if zone.is_empty() || !zone.bytes().all(is_of_zone) {
        return None;
    }
    let v6: Ipv6Addr = address.parse().ok()?;
    Some(IpAddr::V6(v6).to_canonical())
}

/// Checks a port: digits only, at most 65535.
fn port(text: &str) -> Option<u16> {
    let digits_only = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits_only { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn addresses_are_spelled_as_usual() {
        for bits in
            (0..=u32::MAX)
                .step_by(16_777_619)
                .chain([0, u32::MAX, 0x0a01_640a, 0x6363_0909])
        {
            let (address, mut text) = (Ipv4Addr::from_bits(bits), String::new());
            write_v4(address, |byte| text.push(byte.into()));
            assert_eq!(text, address.to_string());
        }
    }

    #[test]
    fn forty_spellings_come_down_to_the_same_bits() {
        let v4 = [
            "203.0.113.7",
            " 203.0.113.7",
            "203.0.113.7\t",
            "203.0.113.7:0",
            "203.0.113.7:65535",
            "::ffff:203.0.113.7",
            "::FFFF:203.0.113.7",
            "::ffff:cb00:7107",
            "::FFFF:CB00:7107",
            "::ffff:cb00:7107%eth0",
            "[::ffff:203.0.113.7]",
            "[::ffff:cb00:7107]:443",
            "0:0:0:0:0:ffff:cb00:7107",
            "0:0:0:0:0:FFFF:203.0.113.7",
            "0000:0000:0000:0000:0000:ffff:cb00:7107",
            "[0:0:0:0:0:ffff:203.0.113.7]:1",
            "::0:ffff:cb00:7107",
            "0::ffff:cb00:7107",
            "[::ffff:203.0.113.7%1]",
            "[::FFFF:CB00:7107]",
        ];
        let v6 = [
            "2001:db8::1",
            "2001:DB8::1",
            "2001:0db8::1",
            "2001:0DB8:0000::0001",
            "2001:db8:0:0:0:0:0:1",
            "2001:db8:0::0:1",
            "[2001:db8::1]",
            "[2001:db8::1]:443",
            "[2001:DB8::1]:0",
            "2001:db8::1%eth0",
            "[2001:db8::1%25eth0]:80",
            "2001:0db8:0000:0000:0000:0000:0000:0001",
            "2001:db8::0.0.0.1",
            "2001:db8:0:0::1",
            "2001:db8::0:0:1",
            "\t2001:db8::1 ",
            "[2001:db8:0:0:0:0:0:1]",
            "2001:db8::0001",
            "2001:db8:0:0:0:0::1",
            "[2001:0db8::1%lo]",
        ];
        assert_eq!(v4.len() + v6.len(), 40);
        for spelling in v4 {
            assert_eq!(parse(spelling), Some(ip("203.0.113.7")), "{spelling}");
        }
        for spelling in v6 {
            assert_eq!(parse(spelling), Some(ip("2001:db8::1")), "{spelling}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for spelling in [
            "",
            " ",
            "unknown",
            "_hidden",
            "203.0.113",
            "203.0.113.7.8",
            "203.0.113.007",
            "0xcb.0.113.7",
            "3405803783",
            "203.0.113.7:",
            "203.0.113.7:x",
            "203.0.113.7:70000",
            "203.0.113.7:+1",
            "[203.0.113.7]",
            "[2001:db8::1",
            "2001:db8::1]",
            "[2001:db8::1]x",
            "[2001:db8::1]:",
            "2001:db8::1%",
            "2001:db8::1%a b",
            "[2001:db8::1%5for=r=[2001:db8::2]:80",
            "2001:db8::g",
            "a.example",
            "203.0.113.7/32",
            "203.0.113.7 8",
            "１.2.3.4",
        ] {
            assert_eq!(parse(spelling), None, "{spelling}");
        }
    }

    #[test]
    fn masks_keep_the_prefix_and_nothing_else() {
        let prefixes = |v4, v6| Prefixes::new(v4, v6).unwrap();
        assert_eq!(
            prefixes(32, 64).mask(ip("2001:db8:1:2:3:4:5:6")),
            ip("2001:db8:1:2::")
        );
        assert_eq!(
            prefixes(32, 56).mask(ip("2001:db8:1:2ff::1")),
            ip("2001:db8:1:200::")
        );
        assert_eq!(
            prefixes(32, 48).mask(ip("2001:db8:1:2::1")),
            ip("2001:db8:1::")
        );
        assert_eq!(prefixes(32, 128).mask(ip("2001:db8::1")), ip("2001:db8::1"));
        assert_eq!(prefixes(0, 0).mask(ip("2001:db8::1")), ip("::"));
        assert_eq!(prefixes(0, 0).mask(ip("203.0.113.7")), ip("0.0.0.0"));
        assert_eq!(prefixes(24, 64).mask(ip("203.0.113.7")), ip("203.0.113.0"));
        assert_eq!(
            prefixes(32, 64).mask(ip("::ffff:203.0.113.7")),
            ip("203.0.113.7")
        );
        assert_eq!(Prefixes::new(33, 64), None);
        assert_eq!(Prefixes::new(32, 129), None);
    }
}
