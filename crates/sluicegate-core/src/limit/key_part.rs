//! The parts of a key, and how the configuration writes them.

use std::fmt;
use std::str::FromStr;

use crate::rule_error::ParseRuleError;

/// One part of a key: which fact about a request tells one caller from another.
///
/// ```
/// use sluicegate_core::KeyPart;
///
/// assert_eq!("header:X-Tenant-Id".parse(), Ok(KeyPart::header("x-tenant-id")));
/// assert_eq!(KeyPart::PathSegment(1).to_string(), "path_segment:1");
/// assert!("body:name".parse::<KeyPart>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KeyPart {
    /// The client address, cut to the limit's prefix: see
    /// [`Limit::prefixes`](crate::Limit::prefixes).
    ClientIp,
    /// The request's method, as sent.
    Method,
    /// The host, lower case and without port.
    Host,
    /// The whole path, without a trailing slash.
    Path,
    /// The n-th segment of the path, from 1; the first segment of `/` is `root`.
    PathSegment(usize),
    /// The value of the header with this lower-case name. A header that is empty, occurs twice or
    /// is not plain text counts as missing.
    Header(String),
    /// The value of the query parameter of this name; see
    /// [`query_parameter`](crate::query_parameter). One that is empty, occurs twice, or has a
    /// control character or a bare `;` in it counts as missing.
    Query(String),
    /// The value of the cookie of this name, from all `Cookie` lines and without quotes. One that
    /// is empty or occurs twice counts as missing, and so does one that servers may read
    /// differently: with a comma, a quote or a backslash in it.
    Cookie(String),
    /// The server's name in the TLS handshake of the client, lower case.
    Sni,
    /// The id of the verified caller.
    Principal,
    /// The claim of this name of the verified caller.
    Claim(String),
    /// The value of the descriptor's entry of this name.
    Descriptor(String),
    /// Nothing: one counter for all.
    Global,
}

impl KeyPart {
    /// The header `name`, given in any case.
    pub fn header(name: &str) -> Self {
        Self::Header(name.to_ascii_lowercase())
    }
}

/// Written as in the configuration: `client_ip`, `header:x-tenant-id`, `path_segment:1`.
impl fmt::Display for KeyPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClientIp => f.write_str("client_ip"),
            Self::Method => f.write_str("method"),
            Self::Host => f.write_str("host"),
            Self::Path => f.write_str("path"),
            Self::PathSegment(number) => write!(f, "path_segment:{number}"),
            Self::Header(name) => write!(f, "header:{name}"),
            Self::Query(name) => write!(f, "query:{name}"),
            Self::Cookie(name) => write!(f, "cookie:{name}"),
            Self::Sni => f.write_str("sni"),
            Self::Principal => f.write_str("principal"),
            Self::Claim(name) => write!(f, "claim:{name}"),
            Self::Descriptor(name) => write!(f, "descriptor:{name}"),
            Self::Global => f.write_str("global"),
        }
    }
}

impl FromStr for KeyPart {
    type Err = ParseRuleError;

    fn from_str(text: &str) -> Result<Self, ParseRuleError> {
        const EXPECTED: &str = "client_ip, method, host, path, path_segment:N, header:NAME, query:NAME, \
                                cookie:NAME, sni, principal, claim:NAME, descriptor:NAME or global";
        let refused = || ParseRuleError::new(text, EXPECTED);
        match text.split_once(':') {
            None => match text {
                "client_ip" => Ok(Self::ClientIp),
                "method" => Ok(Self::Method),
                "host" => Ok(Self::Host),
                "path" => Ok(Self::Path),
                "sni" => Ok(Self::Sni),
                "principal" => Ok(Self::Principal),
                "global" => Ok(Self::Global),
                _ => Err(refused()),
            },
            Some((_, "")) => Err(ParseRuleError::new(
                text,
                "a name or number after the colon",
            )),
            Some(("path_segment", number)) => match number.parse() {
                Ok(number @ 1..) => Ok(Self::PathSegment(number)),
                _ => Err(ParseRuleError::new(text, "path_segment:N with N from 1")),
            },
            Some(("header", name)) if is_token(name) => Ok(Self::header(name)),
            Some(("header", _)) => Err(ParseRuleError::new(text, "a header name after the colon")),
            Some(("cookie", name)) if is_token(name) => Ok(Self::Cookie(name.to_owned())),
            Some(("cookie", _)) => Err(ParseRuleError::new(text, "a cookie name after the colon")),
            Some(("query", name)) => Ok(Self::Query(name.to_owned())),
            Some(("claim", name)) => Ok(Self::Claim(name.to_owned())),
            Some(("descriptor", name)) => Ok(Self::Descriptor(name.to_owned())),
            Some(_) => Err(refused()),
        }
    }
}

/// Returns true when every byte may be in a token of RFC 9110, such as a header's name.
fn is_token(text: &str) -> bool {
    text.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}
