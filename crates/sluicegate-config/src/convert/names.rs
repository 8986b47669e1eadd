//! Hosts and ports, as upstreams, Redis and listeners write them.
//!
//! No error contains the text: a password may have been written in the wrong place.

use std::net::{Ipv6Addr, SocketAddr};

/// Reads a host and perhaps a port: `a.example`, `a.example:80`, `[::1]:80`. The host comes back in
/// lower case, an IPv6 address without its brackets.
pub(super) fn host_and_port(text: &str) -> Result<(String, Option<u16>), &'static str> {
    if text.contains('@') {
        return Err("must not contain a user or password");
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => bracketed(rest)?,
        None => plain(text)?,
    };
    Ok((
        host.to_ascii_lowercase(),
        port.map(port_number).transpose()?,
    ))
}

/// An IPv6 address after its opening bracket, and the port after the closing one.
fn bracketed(rest: &str) -> Result<(&str, Option<&str>), &'static str> {
    const NO_ADDRESS: &str = "expected an IPv6 address between the brackets";
    let (host, after) = rest.split_once(']').ok_or(NO_ADDRESS)?;
    host.parse::<Ipv6Addr>().map_err(|_| NO_ADDRESS)?;
    match after.strip_prefix(':') {
        Some(port) => Ok((host, Some(port))),
        None if after.is_empty() => Ok((host, None)),
        None => Err("expected a colon and a port after the brackets"),
    }
}

/// A name or an IPv4 address, and the port after the colon.
fn plain(text: &str) -> Result<(&str, Option<&str>), &'static str> {
    const HOST_LENGTH_MAX: usize = 253;
    let (host, port) = text
        .split_once(':')
        .map_or((text, None), |(host, port)| (host, Some(port)));
    if port.is_some_and(|port| port.contains(':')) {
        return Err("an IPv6 address needs brackets, as in [::1]:80");
    }
    if host.is_empty() {
        return Err("the host is missing");
    }
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if host.len() > HOST_LENGTH_MAX || !host.bytes().all(is_name) {
        return Err("invalid host: must be a name or an address");
    }
    Ok((host, port))
}

/// A port that something can listen at: 0 would be a random one.
fn port_number(text: &str) -> Result<u16, &'static str> {
    // `parse` alone accepts `+1`.
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(port) if is_number && port > 0 => Ok(port),
        _ => Err("invalid port: must be 1 to 65535"),
    }
}

/// Returns true when two listeners are in each other's way: the same port, and the same address or
/// one that includes it. The system picks a port for 0, another one each time.
pub(super) fn share_port(one: SocketAddr, other: SocketAddr) -> bool {
    let is_same_host =
        one.ip() == other.ip() || one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() != 0 && one.port() == other.port() && is_same_host
}
