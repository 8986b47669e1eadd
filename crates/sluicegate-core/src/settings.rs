//! Choices that a configuration names and the library carries out.
//!
//! They are plain words without behaviour that needs I/O or a dependency. They are here because
//! `sluicegate-config` and `sluicegate` both know this crate and must not know each other: each
//! re-exports them, and a value goes from the file to the library without a conversion.

/// A family of response headers that tell a caller what is left of its limits.
///
/// `Retry-After` belongs to no family: a denial always carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderStyle {
    /// `RateLimit-Policy` with every enforced limit, `RateLimit` with the tightest.
    Ietf,
    /// `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`, the whole seconds
    /// until the tightest limit is full again.
    XRateLimit,
    /// `X-RateLimit-Remaining`, `X-RateLimit-Clear`, the seconds until the tightest limit is full
    /// again, and on a denial `X-RateLimit-Reset`, the seconds until a retry passes; both with up
    /// to three decimals.
    ///
    /// Beside [`HeaderStyle::XRateLimit`], `X-RateLimit-Reset` keeps the meaning it has there, on
    /// every response. It is never the shorter of the two waits, and `Retry-After` has the other.
    Clear,
}

/// The header in which trusted proxies name the addresses they saw.
///
/// ```
/// use sluicegate_core::ProxyHeader;
///
/// assert_eq!(ProxyHeader::default().name(), "x-forwarded-for");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProxyHeader {
    /// `X-Forwarded-For: client, proxy, proxy`.
    #[default]
    XForwardedFor,
    /// `Forwarded: for=client, for="[2001:db8::1]:80"` of RFC 7239. `unknown` and `_names` are not
    /// addresses.
    Forwarded,
    /// `X-Real-IP: client`.
    XRealIp,
}

impl ProxyHeader {
    /// The header's name, lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::XForwardedFor => "x-forwarded-for",
            Self::Forwarded => "forwarded",
            Self::XRealIp => "x-real-ip",
        }
    }
}

/// The form of keys in Redis.
///
/// In every form distinct keys of one limit stay distinct, hold printable ASCII only, and have at
/// most [`KeyLayout::LENGTH_MAX`] bytes, provided that the prefix is printable ASCII of at most
/// [`KeyLayout::PREFIX_MAX`] bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyLayout {
    /// `<prefix>:<limit>:<part>:…`
    #[default]
    Readable,
    /// `sg` and 72 bits of a digest, 14 bytes in all: least memory.
    Compact,
    /// `rl:edgequota:<part>:…`, independent of the prefix; `rl:edgequota:<limit>` for a limit on all
    /// requests together, `rl:edgequota:t:<tenant>` for a tenant that a limits service names. Most
    /// pairs of limits cannot be told apart so ([`KeyLayout::may_share`]).
    EdgeQuota,
    /// `<prefix>:ip:<address>`, `<prefix>:route:<path>:<address>` with the path as the rule has it,
    /// `<prefix>:key:<principal>`; readable for the rest. Two limits of one kind cannot be told apart
    /// so ([`KeyLayout::may_share`]).
    EdgeGuard,
}

impl KeyLayout {
    /// The longest stored key, in bytes; longer keys end in a digest instead of their tail.
    pub const LENGTH_MAX: usize = 128;
    /// The longest prefix, in bytes, that leaves room for a tag and a digest.
    pub const PREFIX_MAX: usize = 64;

    /// The layout as a configuration names it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Readable => "readable",
            Self::Compact => "compact",
            Self::EdgeQuota => "edgequota",
            Self::EdgeGuard => "edgeguard",
        }
    }
}

/// The clock that decisions in Redis are made by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RedisClock {
    /// The server's: the same for all replicas.
    #[default]
    Server,
    /// The clock of the replica that asks: for servers whose clock is worse than the replicas'.
    Replica,
    /// The time given with each call, taken as it is: for tests and simulations with a manual
    /// clock. A configuration file cannot choose it.
    Given,
}
