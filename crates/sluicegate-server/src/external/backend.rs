//! Where an answer may send requests: which URLs are believed, and which addresses are dialled.
//!
//! A name is checked when the answer comes, its addresses when they are dialled: what a name means may change in between.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use sluicegate_config::{BackendScheme, BackendUrlSettings};

/// A server that an answer names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Backend {
    /// Whether it is spoken to over TLS.
    pub tls: bool,
    /// A name in lower case, or an address; an IPv6 address without its brackets.
    pub host: String,
    /// 80, or 443 with TLS, unless said.
    pub port: u16,
    /// Which version of HTTP it is spoken to in.
    pub http: BackendHttp,
}

/// The version of HTTP towards a backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BackendHttp {
    /// As for other servers.
    #[default]
    Auto,
    /// HTTP/1.1.
    Http1,
    /// HTTP/2.
    Http2,
}

/// Why a backend is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendRefusal {
    /// No absolute URL of visible ASCII.
    Malformed,
    /// Another scheme than those that are allowed.
    Scheme,
    /// A user or password.
    UserInfo,
    /// A path, query or fragment: requests keep their own.
    Path,
    /// A host that is neither a name nor an address in its usual form.
    Host,
    /// A host that is not on the list.
    NotAllowed,
    /// A port that is none.
    Port,
    /// An address that is not public.
    Private,
}

impl fmt::Display for BackendRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "is no URL",
            Self::Scheme => "has a scheme that is not allowed",
            Self::UserInfo => "holds a user or password",
            Self::Path => "does not end after the host and port",
            Self::Host => "has a host that is neither a name nor an address in its usual form",
            Self::NotAllowed => "has a host that is not on the list",
            Self::Port => "has a port that is none",
            Self::Private => "has an address that is not public",
        })
    }
}

impl std::error::Error for BackendRefusal {}

/// What of a URL and an address is allowed.
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

    /// The server that a URL names, if requests may go there.
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
        // Before anything else: where one reader sees a user, another sees a host.
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

    /// Whether an address may be dialled: to be asked about the address itself, right before.
    pub fn may_dial(&self, address: IpAddr) -> bool {
        if is_never_a_server(address) {
            return false;
        }
        !self.settings.deny_private_networks || is_public(address)
    }

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

/// A host in its one spelling, and the port if there is one.
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

/// A name, or an IPv4 address as four decimal numbers. What resolvers read as a number in other ways (`127.1`, `0x7f.1`,
/// `2130706433`, `0177.0.0.1`) is refused: its last label is a number.
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

fn port_number(text: &str) -> Result<u16, BackendRefusal> {
    // `parse` alone takes `+1`.
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(port) if is_number && port > 0 => Ok(port),
        _ => Err(BackendRefusal::Port),
    }
}

/// Addresses that mean no server, wherever they are dialled from.
fn is_never_a_server(address: IpAddr) -> bool {
    match embedded_ipv4(address) {
        IpAddr::V4(v4) => v4.octets()[0] == 0 || v4.is_multicast() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_unspecified() || v6.is_multicast(),
    }
}

/// Addresses of the public internet.
fn is_public(address: IpAddr) -> bool {
    match embedded_ipv4(address) {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

/// The IPv4 address that an IPv6 address stands for, where the network would go there: mapped, or by NAT64.
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
        // The host of one cloud's virtual machines.
        [168, 63, 129, 16] => true,
        // Multicast, reserved, broadcast.
        [224..=255, ..] => true,
        _ => false,
    };
    !is_special
}

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
