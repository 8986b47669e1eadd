//! Keys: the name of one counter, such that two different tuples never share one.
//!
//! A key is a view on a limit and a request; nothing is copied until its text is written. It can be
//! hashed, for tables in this process, and written, for stores elsewhere. Both are unambiguous: a
//! caller who chooses the value of one part cannot make it look like two parts, like another kind
//! of part, or like the stand-in for a part that is missing.

mod detached;
mod part_value;
mod plain_key;

pub use part_value::PartValue;

use std::fmt::{self, Write};
use std::hash::{Hash, Hasher};
use std::net::IpAddr;

pub use self::detached::DetachedKey;
use self::detached::DetachedPart;
pub(crate) use self::plain_key::PlainKey;
use crate::address;
use crate::cookie::cookie;
use crate::limit::{KeyPart, Limit};
use crate::missing_key::{MissingKey, MissingReason};
use crate::path;
use crate::query::{self, QueryValue};
use crate::short_hash::ShortHasher;
use crate::subject::{HeaderValue, Subject};
use part_value::{ALL, hash_address, hash_global};

/// A limit and the values of its key parts, as a view on the request they come from.
///
/// Its [`Hash`] is unambiguous (every part is tagged and measured), and so is its text:
/// `limit:part:part` with everything but plain characters escaped.
///
/// ```
/// use sluicegate_core::{Key, KeyPart, Limit, Quota, Subject};
///
/// let limit = Limit::new("tenant", Quota::per_second(10))
///     .key([KeyPart::header("x-tenant-id"), KeyPart::ClientIp]);
/// let headers = [("x-tenant-id", "a:b")];
/// let subject = Subject {
///     client_ip: Some("2001:db8::7".parse()?),
///     headers: &headers,
///     ..Subject::ANONYMOUS
/// };
/// // The colon of the caller is escaped, and the address is cut to its /64.
/// let key = Key::of_subject(&limit, &subject)?;
/// assert_eq!(key.to_string(), "tenant:a%3Ab:[2001:db8::]");
/// assert_eq!(Key::of_parts(&limit, &["a:b", "2001:db8::1"])?.to_string(), key.to_string());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Key<'a> {
    limit: &'a Limit,
    name_hash: NameHash,
    source: KeySource<'a>,
}

/// The origin of a key's values.
#[derive(Clone, Copy)]
enum KeySource<'a> {
    /// The client's address, cut to its prefix, as the only part of the limit's key.
    Address(IpAddr),
    /// One counter for all requests, as the only part of the limit's key.
    All,
    /// The parts of the limit's key, read off the request.
    Subject(&'a Subject<'a>),
    /// The parts of the limit's key, given as text in the same order.
    Given(&'a [&'a str]),
    /// Bytes that came with a quota in the request.
    Raw(&'a [&'a [u8]]),
    /// In place of a missing part: the client address, apart from every real key.
    AddressInstead(&'a Subject<'a>),
    /// In place of a missing part: one counter for all such requests.
    Shared,
    /// In place of the caller: the tenant that a limits service knows behind it.
    Tenant(&'a str),
    /// The values of a request that is over.
    Detached(&'a [DetachedPart]),
}

impl<'a> Key<'a> {
    /// The key of a subject; every part must be there.
    pub fn of_subject(limit: &'a Limit, subject: &'a Subject<'a>) -> Result<Self, MissingKey> {
        Self::of_request(limit, NameHash::of(&limit.name), subject)
    }

    /// The same with the hash of the limit's name at hand.
    #[inline]
    pub(crate) fn of_request(
        limit: &'a Limit,
        name_hash: NameHash,
        subject: &'a Subject<'a>,
    ) -> Result<Self, MissingKey> {
        // Most keys are an address alone, which one comparison finds present.
        if let ([KeyPart::ClientIp], Some(address)) = (&limit.key[..], subject.client_ip) {
            let masked = limit.prefixes.mask(address);
            return Ok(Self::of_masked(limit, name_hash, masked));
        }
        check_parts(limit, subject)?;
        Ok(Self {
            limit,
            name_hash,
            source: KeySource::Subject(subject),
        })
    }

    /// The key of a limit that counts by client address and nothing else; the address is cut to its
    /// prefix.
    #[inline(always)]
    pub(crate) fn of_masked(limit: &'a Limit, name_hash: NameHash, masked: IpAddr) -> Self {
        Self {
            limit,
            name_hash,
            source: KeySource::Address(masked),
        }
    }

    /// The key of a limit that has one counter for all requests.
    #[inline(always)]
    pub(crate) fn of_all(limit: &'a Limit, name_hash: NameHash) -> Self {
        Self {
            limit,
            name_hash,
            source: KeySource::All,
        }
    }

    /// The key for parts given as text, one for each part of the limit's key and in its order.
    pub fn of_parts(limit: &'a Limit, parts: &'a [&'a str]) -> Result<Self, MissingKey> {
        Self::of_given(limit, NameHash::of(&limit.name), parts)
    }

    /// The same with the hash of the limit's name at hand.
    pub(crate) fn of_given(
        limit: &'a Limit,
        name_hash: NameHash,
        parts: &'a [&'a str],
    ) -> Result<Self, MissingKey> {
        for (index, part) in limit.key.iter().enumerate() {
            let Some(text) = parts.get(index) else {
                return Err(MissingKey::new(limit, part, MissingReason::Missing));
            };
            if *part == KeyPart::ClientIp && address::parse(text).is_none() {
                return Err(MissingKey::new(limit, part, MissingReason::NotAnAddress));
            }
        }
        match parts.get(limit.key.len()) {
            None => Ok(Self {
                limit,
                name_hash,
                source: KeySource::Given(parts),
            }),
            Some(_) => Err(MissingKey::too_many(limit)),
        }
    }

    /// The parts from which [`Key::of_parts`] makes the key with this text.
    ///
    /// `None` when there are none: the text belongs to another limit, to a tenant, to a request
    /// that lacked a part, or to bytes that are not text.
    pub fn parts_in(limit: &Limit, text: &str) -> Option<Vec<String>> {
        let mut parts = Vec::with_capacity(limit.key.len());
        let mut rest = text.strip_prefix(&limit.name)?;
        while let Some(after) = rest.strip_prefix(':') {
            // Colons are within an address, between brackets, and else only between parts.
            let in_brackets = after
                .strip_prefix('[')
                .and_then(|inner| inner.split_once(']'));
            let (part, others) = in_brackets
                .unwrap_or_else(|| after.split_at(after.find(':').unwrap_or(after.len())));
            parts.push(if part == ALL {
                String::new()
            } else {
                path::unescape(part)?
            });
            rest = others;
        }
        // The split above is a guess; it is right exactly when these parts make this text.
        let given: Vec<&str> = parts.iter().map(String::as_str).collect();
        let is_text_of = |key: Key<'_>| rest.is_empty() && key.to_string() == text;
        let is_this = Key::of_parts(limit, &given).is_ok_and(is_text_of);
        is_this.then_some(parts)
    }

    /// The key of these bytes, instead of the parts that the limit names.
    pub(crate) fn of_bytes(limit: &'a Limit, name_hash: NameHash, parts: &'a [&'a [u8]]) -> Self {
        Self {
            limit,
            name_hash,
            source: KeySource::Raw(parts),
        }
    }

    /// The key of a request that lacks a part: its client address. `None` when that is missing too.
    pub(crate) fn address_instead(
        limit: &'a Limit,
        name_hash: NameHash,
        subject: &'a Subject<'a>,
    ) -> Option<Self> {
        subject.client_ip.map(|_| Self {
            limit,
            name_hash,
            source: KeySource::AddressInstead(subject),
        })
    }

    /// The key that all requests share which lack a part.
    pub(crate) fn shared(limit: &'a Limit, name_hash: NameHash) -> Self {
        Self {
            limit,
            name_hash,
            source: KeySource::Shared,
        }
    }

    /// The key of the tenant behind the caller, apart from every key that a request could make
    /// itself.
    #[must_use]
    pub fn of_tenant(self, tenant: &'a str) -> Self {
        Self {
            source: KeySource::Tenant(tenant),
            ..self
        }
    }

    /// The values of the key, for use when its request is over.
    pub fn detach(&self) -> DetachedKey {
        DetachedKey::of(self)
    }

    /// The limit this key belongs to.
    pub fn limit(&self) -> &'a Limit {
        self.limit
    }

    /// The values alone, as text: the name of the caller for a service that knows no limits.
    pub fn caller(&self) -> String {
        let mut text = String::new();
        for (index, part) in self.parts().enumerate() {
            let colon = if index == 0 { "" } else { ":" };
            // Writing to a string cannot fail.
            let _ = write!(text, "{colon}{part}");
        }
        text
    }

    /// The address, cut to its prefix, of a key that is the client's address and nothing else, as
    /// most keys are.
    #[inline]
    pub fn only_address(&self) -> Option<IpAddr> {
        match self.source {
            KeySource::Address(address) => Some(address),
            _ => None,
        }
    }

    /// The value of each part, in order.
    pub fn parts(&self) -> impl Iterator<Item = PartValue<'a>> {
        let Self { limit, source, .. } = *self;
        let instead = match source {
            KeySource::Address(address) => Some(PartValue::Address(address)),
            KeySource::All => Some(PartValue::Global),
            KeySource::AddressInstead(subject) => {
                let masked = subject
                    .client_ip
                    .map(|address| limit.prefixes.mask(address));
                Some(masked.map_or(PartValue::Shared, PartValue::AddressInstead))
            }
            KeySource::Shared => Some(PartValue::Shared),
            KeySource::Tenant(tenant) => Some(PartValue::Tenant(tenant)),
            KeySource::Subject(_)
            | KeySource::Given(_)
            | KeySource::Raw(_)
            | KeySource::Detached(_) => None,
        };
        let (own, raw) = match source {
            KeySource::Subject(_) | KeySource::Given(_) => (limit.key.as_slice(), &[][..]),
            KeySource::Raw(raw) => (&[][..], raw),
            KeySource::Address(_)
            | KeySource::All
            | KeySource::AddressInstead(_)
            | KeySource::Shared
            | KeySource::Tenant(_)
            | KeySource::Detached(_) => (&[][..], &[][..]),
        };
        let detached = match source {
            KeySource::Detached(values) => values,
            _ => &[],
        };
        let own = own
            .iter()
            .enumerate()
            .map(move |(index, part)| match source {
                // Both constructors have checked every part, so none is missing here.
                KeySource::Subject(subject) => {
                    part_of(part, limit, subject).unwrap_or(PartValue::Shared)
                }
                KeySource::Given(given) => given
                    .get(index)
                    .map_or(PartValue::Shared, |text| given_part(part, limit, text)),
                KeySource::Raw(_)
                | KeySource::Address(_)
                | KeySource::All
                | KeySource::AddressInstead(_)
                | KeySource::Shared
                | KeySource::Tenant(_)
                | KeySource::Detached(_) => PartValue::Shared,
            });
        own.chain(instead)
            .chain(raw.iter().map(|bytes| PartValue::Text(bytes)))
            .chain(detached.iter().map(DetachedPart::value))
    }
}

impl Hash for Key<'_> {
    #[inline(always)]
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name_hash.write(state);
        // The same bytes as below by a shorter way: every decision hashes a key.
        match self.source {
            KeySource::Address(address) => hash_address(state, 1, &address),
            KeySource::All => hash_global(state),
            _ => self.hash_parts(state),
        }
    }
}

impl Key<'_> {
    fn hash_parts<H: Hasher>(&self, state: &mut H) {
        for part in self.parts() {
            part.hash(state);
        }
    }
}

/// The hash of a limit's name, which stands for it in the hash of a key: names are long, and every
/// decision hashes one. Operators choose the names, so it needs no seed, and two names share one
/// only by a chance of 2^-64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NameHash(u64);

impl NameHash {
    pub(crate) fn of(name: &str) -> Self {
        let mut hasher = ShortHasher::default();
        hasher.write(name.as_bytes());
        Self(hasher.finish())
    }

    #[inline(always)]
    fn write<H: Hasher>(self, state: &mut H) {
        state.write_u64(self.0);
    }
}

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.limit.name)?;
        for part in self.parts() {
            write!(f, ":{part}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

/// Finds the first part that the request lacks.
fn check_parts(limit: &Limit, subject: &Subject<'_>) -> Result<(), MissingKey> {
    for part in &limit.key {
        part_of(part, limit, subject).map_err(|reason| MissingKey::new(limit, part, reason))?;
    }
    Ok(())
}

/// The value of one part in a request, or the reason why there is none.
fn part_of<'a>(
    part: &'a KeyPart,
    limit: &Limit,
    subject: &Subject<'a>,
) -> Result<PartValue<'a>, MissingReason> {
    let text = |text: Option<&'a str>| {
        text.map(|text| PartValue::Text(text.as_bytes()))
            .ok_or(MissingReason::Missing)
    };
    match part {
        KeyPart::ClientIp => subject
            .client_ip
            .map(|ip| PartValue::Address(limit.prefixes.mask(ip)))
            .ok_or(MissingReason::Missing),
        KeyPart::Method => text(Some(subject.method)),
        KeyPart::Host => text(subject.host),
        KeyPart::Path => Ok(PartValue::Path(without_trailing_slash(subject.path))),
        KeyPart::PathSegment(number) => match path::segments(subject.path).nth(number - 1) {
            Some(segment) => Ok(PartValue::Path(segment)),
            None if *number == 1 => Ok(PartValue::Path("root")),
            None => Err(MissingReason::Missing),
        },
        KeyPart::Header(name) => header_text(subject.headers.get(name)).map(PartValue::Text),
        KeyPart::Query(name) => parameter(query::parameter(subject.query, name)),
        KeyPart::Cookie(name) => cookie(subject.headers, name).map(PartValue::Text),
        KeyPart::Sni => text(subject.sni),
        KeyPart::Principal => text(subject.principal.map(|principal| principal.id.as_str())),
        KeyPart::Claim(name) => text(
            subject
                .principal
                .and_then(|principal| principal.claims.get(name))
                .map(String::as_str),
        ),
        KeyPart::Descriptor(name) => text(
            subject
                .descriptors
                .iter()
                .find(|(own, _)| own == name)
                .map(|(_, value)| *value),
        ),
        KeyPart::Global => Ok(PartValue::Global),
    }
}

/// The value of one part that was given as text; addresses are cut and paths trimmed as those of
/// requests are.
fn given_part<'a>(part: &KeyPart, limit: &Limit, text: &'a str) -> PartValue<'a> {
    match part {
        KeyPart::ClientIp => match address::parse(text) {
            Some(ip) => PartValue::Address(limit.prefixes.mask(ip)),
            None => PartValue::Shared,
        },
        KeyPart::Global => PartValue::Global,
        KeyPart::Path => PartValue::Path(without_trailing_slash(text)),
        KeyPart::PathSegment(_) => PartValue::Path(text),
        _ => PartValue::Text(text.as_bytes()),
    }
}

/// `/a` for `/a/`: both name the same resource, and would be two counters.
fn without_trailing_slash(path: &str) -> &str {
    match path.strip_suffix('/') {
        Some("") | None => path,
        Some(shorter) => shorter,
    }
}

/// A header names a caller only if it has one value of printable text. A list counts as repeated:
/// proxies join repeated lines with commas.
pub(crate) fn header_text(value: HeaderValue<'_>) -> Result<&[u8], MissingReason> {
    let bytes = match value {
        HeaderValue::Missing => return Err(MissingReason::Missing),
        HeaderValue::Repeated => return Err(MissingReason::Repeated),
        HeaderValue::One(bytes) => bytes.trim_ascii(),
    };
    if bytes.is_empty() {
        return Err(MissingReason::Empty);
    }
    if bytes.len() > MissingReason::VALUE_MAX {
        return Err(MissingReason::TooLong);
    }
    if bytes.contains(&b',') {
        return Err(MissingReason::Repeated);
    }
    if !bytes.iter().all(|byte| matches!(byte, b' '..=b'~')) {
        return Err(MissingReason::NotText);
    }
    Ok(bytes)
}

/// A query parameter names a caller only if it has one value, and one that every server reads
/// alike: some servers split a query at `;` too, and some end a text at a control character.
fn parameter(value: QueryValue<'_>) -> Result<PartValue<'_>, MissingReason> {
    let text = match value {
        QueryValue::Missing => return Err(MissingReason::Missing),
        QueryValue::Repeated => return Err(MissingReason::Repeated),
        QueryValue::One(text) => text,
    };
    if text.bytes().all(|byte| byte == b' ') {
        return Err(MissingReason::Empty);
    }
    if text.bytes().nth(MissingReason::VALUE_MAX).is_some() {
        return Err(MissingReason::TooLong);
    }
    if text.bytes().any(|byte| byte.is_ascii_control()) {
        return Err(MissingReason::NotText);
    }
    if text.as_sent().contains(';') {
        return Err(MissingReason::Ambiguous);
    }
    Ok(match text.is_plain() {
        true => PartValue::Text(text.as_sent().as_bytes()),
        false => PartValue::Query(text),
    })
}
