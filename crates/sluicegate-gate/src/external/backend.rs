//! Backends that a reply may name, and the check against server-side request forgery (SSRF).
//!
//! A reply can send a caller's requests to a server of its choice. Whoever controls a tenant's plan
//! could so reach the cloud's metadata service or another machine inside our network. The check has
//! two halves, and both are needed:
//!
//! 1. [`BackendPolicy::parse`], when the reply comes: the URL must have one reading only (no user,
//!    no path, no `127.1` or `0x7f000001`), an allowed scheme and an allowed host.
//! 2. [`BackendPolicy::may_dial`], for each address right before it is connected to: a name that
//!    resolved to a public address a moment ago may resolve to a private one now (DNS rebinding),
//!    so only the address that is used counts.
//!
//! Invariant: with `deny_private_networks`, no connection goes to an address outside the public
//! internet, however it is written or embedded in an IPv6 address.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use sluicegate_config::{BackendScheme, BackendUrlSettings};

/// A server that a reply names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Backend {
    /// True for `https`.
    pub tls: bool,
    /// A name in lower case, or an address; an IPv6 address without its brackets.
    pub host: String,
    /// Without one in the URL, 80, or 443 with TLS.
    pub port: u16,
    /// The version of HTTP; comes from `backend_protocol` and not from the URL.
    pub http: BackendHttp,
}

/// The version of HTTP towards a backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BackendHttp {
    /// Negotiated, as with configured servers.
    #[default]
    Auto,
    /// HTTP/1.1 only.
    Http1,
    /// HTTP/2 only.
    Http2,
}

/// Why a backend is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendRefusal {
    /// Not an absolute URL of visible ASCII, or longer than 512 bytes.
    Malformed,
    /// A scheme that the configuration does not allow.
    Scheme,
    /// It contains a user or password.
    UserInfo,
    /// It has a path, query or fragment; requests keep their own.
    Path,
    /// The host is neither a name nor an address in its usual form.
    Host,
    /// The host is not in `allowed_hosts`.
    NotAllowed,
    /// The port is not a number from 1 to 65535.
    Port,
    /// The address is not public.
    Private,
}

impl BackendRefusal {
    /// The reason in words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "not a URL",
            Self::Scheme => "scheme is not allowed",
            Self::UserInfo => "contains a user or password",
            Self::Path => "has a path, query or fragment, expected none",
            Self::Host => "host is neither a name nor an address in its usual form",
            Self::NotAllowed => "host is not in allowed_hosts",
            Self::Port => "invalid port",
            Self::Private => "address is not public",
        }
    }
}

impl fmt::Display for BackendRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::error::Error for BackendRefusal {}

/// The backends that the configuration allows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BackendPolicy {
    settings: BackendUrlSettings,
}

impl BackendPolicy {
    /// The policy that a configuration asks for.
    pub fn new(settings: &BackendUrlSettings) -> Self {
        Self {
            settings: settings.clone(),
        }
    }

    /// The backend that a URL names, or why it is not used. For an address the result is final; a
    /// name is resolved later, and [`BackendPolicy::may_dial`] decides about each of its addresses.
    pub fn parse(&self, url: &str) -> Result<Backend, BackendRefusal> {
        const LENGTH_MAX: usize = 512;
        if url.len() > LENGTH_MAX
            || !url
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && byte != b'\\')
        {
            return Err(BackendRefusal::Malformed);
        }
        let (scheme, rest) = url.split_once("://").ok_or(BackendRefusal::Malformed)?;
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "http" => BackendScheme::Http,
            "https" => BackendScheme::Https,
            _ => return Err(BackendRefusal::Scheme),
        };
        if !self.settings.schemes.contains(&scheme) {
            return Err(BackendRefusal::Scheme);
        }
        // Checked first: in `a.example#@127.0.0.1` one parser sees a user, another a host.
        if rest.contains('@') {
            return Err(BackendRefusal::UserInfo);
        }
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.contains(['/', '?', '#']) {
            return Err(BackendRefusal::Path);
        }
        let tls = scheme == BackendScheme::Https;
        let (host, port) = host_and_port(authority)?;
        let port = port.unwrap_or(if tls { 443 } else { 80 });
        if !self.is_allowed(&host) {
            return Err(BackendRefusal::NotAllowed);
        }
        match host.parse() {
            Ok(address) if !self.may_dial(address) => Err(BackendRefusal::Private),
            _ => Ok(Backend {
                tls,
                host,
                port,
                http: BackendHttp::default(),
            }),
        }
    }

    /// Returns true when a connection to this address is allowed. To be asked about the very
    /// address that is connected to, right before.
    pub fn may_dial(&self, address: IpAddr) -> bool {
        if is_never_a_server(address) {
            return false;
        }
        !self.settings.deny_private_networks || is_public(address)
    }

    /// Returns true for a host in `allowed_hosts`, where `*.domain` covers all names below
    /// `domain`; an empty list allows every host.
    fn is_allowed(&self, host: &str) -> bool {
        let covers = |allowed: &String| match allowed.strip_prefix("*.") {
            Some(domain) => host
                .strip_suffix(domain)
                .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
            None => allowed == host,
        };
        self.settings.allowed_hosts.is_empty() || self.settings.allowed_hosts.iter().any(covers)
    }
}

/// The host in its canonical spelling, and the port if there is one.
fn host_and_port(authority: &str) -> Result<(String, Option<u16>), BackendRefusal> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, after) = rest.split_once(']').ok_or(BackendRefusal::Host)?;
        let address: Ipv6Addr = host.parse().map_err(|_| BackendRefusal::Host)?;
        let port = match after.strip_prefix(':') {
            Some(port) => Some(port_number(port)?),
            None if after.is_empty() => None,
            None => return Err(BackendRefusal::Host),
        };
        return Ok((address.to_string(), port));
    }
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, Some(port_number(port)?)),
        None => (authority, None),
    };
    Ok((host_name(host)?, port))
}

/// A name in lower case, or an IPv4 address as four decimal numbers.
///
/// Some resolvers accept other spellings of an address (`127.1`, `0x7f.1`, `2130706433`,
/// `0177.0.0.1`), which would slip past the check of addresses. They are refused: a name never ends
/// in a label that is a number.
fn host_name(host: &str) -> Result<String, BackendRefusal> {
    const LENGTH_MAX: usize = 253;
    const LABEL_MAX: usize = 63;
    if let Ok(address) = host.parse::<Ipv4Addr>() {
        return Ok(address.to_string());
    }
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let is_label = |label: &str| {
        (1..=LABEL_MAX).contains(&label.len())
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last = host.rsplit('.').next().unwrap_or_default();
    let is_number = last.starts_with("0x") || last.bytes().all(|byte| byte.is_ascii_digit());
    if host.len() > LENGTH_MAX || is_number || !host.split('.').all(is_label) {
        return Err(BackendRefusal::Host);
    }
    Ok(host)
}

/// A port from 1 to 65535.
fn port_number(text: &str) -> Result<u16, BackendRefusal> {
    // `parse` alone would accept `+1`.
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(port) if is_number && port > 0 => Ok(port),
        _ => Err(BackendRefusal::Port),
    }
}

/// Returns true for unspecified, multicast and broadcast addresses, which are refused even where
/// private networks are allowed.
fn is_never_a_server(address: IpAddr) -> bool {
    match embedded_ipv4(address) {
        IpAddr::V4(v4) => v4.octets()[0] == 0 || v4.is_multicast() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_unspecified() || v6.is_multicast(),
    }
}

/// Returns true for addresses of the public internet.
fn is_public(address: IpAddr) -> bool {
    match embedded_ipv4(address) {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

/// The IPv4 address inside an IPv6 address, where the network would deliver to it: IPv4-mapped, or
/// translated by NAT64. Other addresses stay as they are.
fn embedded_ipv4(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else {
        return address;
    };
    let last = |segments: [u16; 8]| {
        Ipv4Addr::from((u32::from(segments[6]) << 16) | u32::from(segments[7]))
    };
    match v6.segments() {
        segments @ ([0, 0, 0, 0, 0, 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..]) => {
            IpAddr::V4(last(segments))
        }
        _ => address,
    }
}

/// Everything but the special-purpose blocks of RFC 6890 and the known addresses of cloud metadata
/// services.
fn is_public_v4(address: Ipv4Addr) -> bool {
    let is_special = match address.octets() {
        // This network, private, loopback, link-local (and the metadata of most clouds).
        [0 | 10 | 127, ..] | [169, 254, ..] | [192, 168, ..] => true,
        [172, second, ..] => (16..32).contains(&second),
        // Shared by carriers (and the metadata of one cloud).
        [100, second, ..] => (64..128).contains(&second),
        // Protocol assignments, documentation, 6to4 relays.
        [192, 0, 0 | 2, _] | [198, 51, 100, _] | [203, 0, 113, _] | [192, 88, 99, _] => true,
        // Benchmarks.
        [198, 18 | 19, ..] => true,
        // The host service of one cloud's virtual machines, though the block is public.
        [168, 63, 129, 16] => true,
        // Multicast, reserved, broadcast.
        [224..=255, ..] => true,
        _ => false,
    };
    !is_special
}

/// Only global unicast, and of that not what is reserved or carries IPv4 in ways that a tunnel
/// would unpack.
fn is_public_v6(address: Ipv6Addr) -> bool {
    match address.segments() {
        // Teredo, ORCHID and other protocol assignments; documentation; 6to4.
        [0x2001, second, ..] if second < 0x200 || second == 0xdb8 => false,
        [0x2002, ..] => false,
        [0x3fff, second, ..] if second < 0x1000 => false,
        // Global unicast; all else is loopback, local, multicast or not given out.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests;
