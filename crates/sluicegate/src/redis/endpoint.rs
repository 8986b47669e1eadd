//! The address of a server: a host and a port.

use std::error::Error;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::Ipv6Addr;
use std::str::FromStr;

/// Host and port of a server, written `rl-0:6379`, `rl-0` or `[::1]:6379`.
///
/// Without a port it is 6379, or 26379 in [`RedisOptions::sentinel`].
///
/// ```
/// use sluicegate::Endpoint;
///
/// let endpoint: Endpoint = "rl-0".parse().unwrap();
/// assert_eq!((endpoint.host(), endpoint.port()), ("rl-0", 6379));
/// assert_eq!(Endpoint::new("::1", 6380).to_string(), "[::1]:6380");
/// ```
///
/// [`RedisOptions::sentinel`]: crate::RedisOptions::sentinel
#[derive(Clone, Debug)]
pub struct Endpoint {
    host: String,
    /// `None` if none was written: the default depends on who listens there.
    port: Option<u16>,
}

impl Endpoint {
    const REDIS_PORT: u16 = 6_379;
    pub(super) const SENTINEL_PORT: u16 = 26_379;

    /// An endpoint of `host`, which is a name or an address; an IPv6 address without brackets.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self {
            host: host.into(),
            port: Some(port),
        }
    }

    /// The name or address; an IPv6 address without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port; 6379 if none was written.
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(Self::REDIS_PORT)
    }

    /// The same endpoint, at `port` if none was written.
    pub(super) fn or_port(self, port: u16) -> Self {
        Self {
            port: self.port.or(Some(port)),
            ..self
        }
    }
}

impl PartialEq for Endpoint {
    fn eq(&self, other: &Self) -> bool {
        (self.host(), self.port()) == (other.host(), other.port())
    }
}

impl Eq for Endpoint {}

impl Hash for Endpoint {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.host(), self.port()).hash(state);
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port()),
            false => write!(f, "{}:{}", self.host, self.port()),
        }
    }
}

impl FromStr for Endpoint {
    type Err = ParseEndpointError;

    fn from_str(text: &str) -> Result<Self, ParseEndpointError> {
        if text.contains('@') {
            return Err(ParseEndpointError::Credentials);
        }
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => split_bracketed(rest)?,
            None => split_name(text)?,
        };
        let port = port.map(parse_port).transpose()?;
        Ok(Self {
            host: host.to_owned(),
            port,
        })
    }
}

/// Splits `::1]:6379`, the text behind an opening bracket, into address and port.
fn split_bracketed(rest: &str) -> Result<(&str, Option<&str>), ParseEndpointError> {
    let (host, after) = rest
        .split_once(']')
        .ok_or(ParseEndpointError::NotAnIpv6Address)?;
    host.parse::<Ipv6Addr>()
        .map_err(|_| ParseEndpointError::NotAnIpv6Address)?;
    match after.strip_prefix(':') {
        Some(port) => Ok((host, Some(port))),
        None if after.is_empty() => Ok((host, None)),
        None => Err(ParseEndpointError::Port),
    }
}

/// Splits `rl-0:6379` into name and port.
fn split_name(text: &str) -> Result<(&str, Option<&str>), ParseEndpointError> {
    const HOST_LENGTH_MAX: usize = 253;
    let (host, port) = text
        .split_once(':')
        .map_or((text, None), |(host, port)| (host, Some(port)));
    if port.is_some_and(|port| port.contains(':')) {
        return Err(ParseEndpointError::NoBrackets);
    }
    if host.is_empty() {
        return Err(ParseEndpointError::NoHost);
    }
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if host.len() > HOST_LENGTH_MAX || !host.bytes().all(is_name) {
        return Err(ParseEndpointError::Host);
    }
    Ok((host, port))
}

fn parse_port(text: &str) -> Result<u16, ParseEndpointError> {
    // `parse` alone accepts `+1`.
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(port) if is_number && port > 0 => Ok(port),
        _ => Err(ParseEndpointError::Port),
    }
}

/// The reason why a text is no endpoint.
///
/// It does not repeat the text, which may hold a password in the wrong place.
///
/// ```
/// use sluicegate::{Endpoint, ParseEndpointError};
///
/// assert_eq!("rl-0:0".parse::<Endpoint>(), Err(ParseEndpointError::Port));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParseEndpointError {
    /// There is an `@`: user and password are options of their own.
    Credentials,
    /// The host is missing.
    NoHost,
    /// The host has invalid characters or is too long.
    Host,
    /// The text in brackets is no IPv6 address.
    NotAnIpv6Address,
    /// There are several colons: an IPv6 address needs brackets.
    NoBrackets,
    /// The port is invalid.
    Port,
}

impl fmt::Display for ParseEndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Credentials => "user and password do not belong here (use username and password_file)",
            Self::NoHost => "the host is missing (expected host:port)",
            Self::Host => {
                "the host may hold letters, digits, '.', '-' and '_', at most 253 of them (expected host:port)"
            }
            Self::NotAnIpv6Address => "invalid IPv6 address in brackets (expected [::1]:6379)",
            Self::NoBrackets => "an IPv6 address needs brackets (expected [::1]:6379)",
            Self::Port => "the port must be a number from 1 to 65535 (expected host:port)",
        })
    }
}

impl Error for ParseEndpointError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read_with_and_without_a_port() {
        let read = |text: &str| {
            text.parse::<Endpoint>()
                .map(|endpoint| endpoint.to_string())
        };
        for (text, written) in [
            ("rl-0:6380", "rl-0:6380"),
            ("rl-0", "rl-0:6379"),
            ("10.0.0.1:1", "10.0.0.1:1"),
            ("[::1]:65535", "[::1]:65535"),
            ("[2001:db8::1]", "[2001:db8::1]:6379"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(written));
        }
        let sentinel = |text: &str| {
            text.parse::<Endpoint>()
                .unwrap()
                .or_port(Endpoint::SENTINEL_PORT)
                .port()
        };
        assert_eq!([sentinel("s"), sentinel("s:6379")], [26_379, 6_379]);
        assert_eq!("rl-0".parse::<Endpoint>(), Ok(Endpoint::new("rl-0", 6_379)));
    }

    #[test]
    fn what_is_wrong_with_an_endpoint_is_named() {
        for (text, why) in [
            ("", ParseEndpointError::NoHost),
            (":6379", ParseEndpointError::NoHost),
            ("rl 0", ParseEndpointError::Host),
            ("rl/0", ParseEndpointError::Host),
            ("::1", ParseEndpointError::NoBrackets),
            ("[::1", ParseEndpointError::NotAnIpv6Address),
            ("[rl-0]:1", ParseEndpointError::NotAnIpv6Address),
            ("[::1]1", ParseEndpointError::Port),
            ("rl-0:", ParseEndpointError::Port),
            ("rl-0:0", ParseEndpointError::Port),
            ("rl-0:+1", ParseEndpointError::Port),
            ("rl-0:65536", ParseEndpointError::Port),
            ("ann:secret@rl-0:6379", ParseEndpointError::Credentials),
        ] {
            assert_eq!(text.parse::<Endpoint>(), Err(why), "{text:?}");
        }
    }
}
