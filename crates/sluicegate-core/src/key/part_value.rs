//! The value of one key part: hashed for tables in this process, written for stores elsewhere.

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;

use crate::path;
use crate::query::QueryText;

/// The value of one key part.
#[derive(Clone, Copy, Debug, Eq)]
pub enum PartValue<'a> {
    /// Bytes of the request; escaped when written.
    Text(&'a [u8]),
    /// A text of the query string that has to be decoded; hashed and written like the text it stands
    /// for.
    Query(QueryText<'a>),
    /// A path or a part of one. Its letters count in either case, as those of a pattern do: where a
    /// server serves `/API` for `/api`, both are one counter. Written in lower case.
    Path(&'a str),
    /// An address, cut to its prefix.
    Address(IpAddr),
    /// One counter for all requests.
    Global,
    /// The address of a request that lacks a part.
    AddressInstead(IpAddr),
    /// One counter for all requests that lack a part.
    Shared,
    /// The tenant that a limits service knows behind the caller.
    Tenant(&'a str),
}

impl<'a> PartValue<'a> {
    /// The bytes of a value that is text; `None` for addresses, tenants and stand-ins.
    pub fn text(&self) -> Option<Cow<'a, [u8]>> {
        match *self {
            Self::Text(bytes) => Some(Cow::Borrowed(bytes)),
            Self::Query(text) => Some(text.decoded()),
            Self::Path(path) => Some(Cow::Owned(path.to_ascii_lowercase().into_bytes())),
            Self::Address(_)
            | Self::Global
            | Self::AddressInstead(_)
            | Self::Shared
            | Self::Tenant(_) => None,
        }
    }
}

/// Two values are equal when they are the same part of a key: a text of the query is equal to the
/// text that it stands for.
impl PartialEq for PartValue<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Address(one), Self::Address(two))
            | (Self::AddressInstead(one), Self::AddressInstead(two)) => one == two,
            (Self::Global, Self::Global) | (Self::Shared, Self::Shared) => true,
            (Self::Tenant(one), Self::Tenant(two)) => one == two,
            (one, two) => match (one.text(), two.text()) {
                (Some(one), Some(two)) => one == two,
                _ => false,
            },
        }
    }
}

impl Hash for PartValue<'_> {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Text(bytes) => hash_text(state, bytes),
            Self::Query(text) => hash_text(state, &text.decoded()),
            Self::Path(path) => {
                state.write_u8(8);
                state.write_usize(path.len());
                hash_in_lower_case(state, path.as_bytes());
            }
            Self::Address(ip) => hash_address(state, 1, ip),
            Self::AddressInstead(ip) => hash_address(state, 3, ip),
            Self::Global => hash_global(state),
            Self::Shared => state.write_u8(6),
            Self::Tenant(tenant) => {
                state.write_u8(7);
                state.write_usize(tenant.len());
                state.write(tenant.as_bytes());
            }
        }
    }
}

/// Hashes text without regard to the case of its letters, piece by piece, because nothing is copied
/// to the heap on the way of a request.
fn hash_in_lower_case<H: Hasher>(state: &mut H, text: &[u8]) {
    const PIECE: usize = 64;
    let mut lower = [0; PIECE];
    for piece in text.chunks(PIECE) {
        let lower = &mut lower[..piece.len()];
        lower.copy_from_slice(piece);
        lower.make_ascii_lowercase();
        state.write(lower);
    }
}

#[inline]
fn hash_text<H: Hasher>(state: &mut H, bytes: &[u8]) {
    state.write_u8(0);
    state.write_usize(bytes.len());
    state.write(bytes);
}

/// Hashes an address under `tag` for IPv4 and `tag + 1` for IPv6, so that no tag may follow another
/// directly.
#[inline(always)]
pub(super) fn hash_address<H: Hasher>(state: &mut H, tag: u8, address: &IpAddr) {
    match address {
        IpAddr::V4(v4) => {
            state.write_u8(tag);
            state.write_u32(v4.to_bits());
        }
        IpAddr::V6(v6) => {
            state.write_u8(tag + 1);
            state.write_u128(v6.to_bits());
        }
    }
}

#[inline(always)]
pub(super) fn hash_global<H: Hasher>(state: &mut H) {
    state.write_u8(5);
}

/// The text of a part that all requests share.
pub(super) const ALL: &str = "!all";

/// `!` and brackets are escaped in text, so a caller cannot imitate the forms that begin with them
/// here.
impl fmt::Display for PartValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(bytes) => write_escaped(f, bytes),
            Self::Query(text) => write_escaped(f, &text.decoded()),
            Self::Path(path) => write_escaped(f, path.to_ascii_lowercase().as_bytes()),
            Self::Address(IpAddr::V4(v4)) => write!(f, "{v4}"),
            Self::Address(IpAddr::V6(v6)) => write!(f, "[{v6}]"),
            Self::AddressInstead(address) => write!(f, "!client:{}", Self::Address(*address)),
            Self::Global => f.write_str(ALL),
            Self::Shared => f.write_str("!missing"),
            Self::Tenant(tenant) => {
                f.write_str("!tenant:")?;
                write_escaped(f, tenant.as_bytes())
            }
        }
    }
}

/// Writes the bytes with `%XX` for all that is not plain. The colon is escaped, so parts stay
/// apart.
fn write_escaped(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/@+=,".contains(&byte);
    let mut escaped = String::with_capacity(bytes.len());
    for byte in bytes {
        match is_plain(*byte) {
            true => escaped.push(char::from(*byte)),
            false => path::push_escape(&mut escaped, *byte),
        }
    }
    f.write_str(&escaped)
}
