//! A limit: what it matches, how it makes a key, which quota it enforces.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

use crate::address::Prefixes;
use crate::factor::FactorRule;
use crate::failure::FailurePolicy;
use crate::path::PathPattern;
use crate::quota::Quota;
use crate::subject::{HeaderValue, Subject};

/// A named rule. Made with [`Limit::new`] and the methods below it, checked by [`Policy::new`](crate::Policy::new).
///
/// ```
/// use sluicegate_core::{KeyPart, Limit, Match, Quota};
///
/// let per_ip = Limit::per_client("per-ip", Quota::per_second(100).burst(200));
/// let api = Limit::per_client("api", Quota::per_second(10).burst(20))
///     .matching(Match::path("/api/")?.methods(["POST"]))
///     .replaces("per-ip");
/// let tenant = Limit::new("tenant", Quota::per_second(100).burst(50))
///     .key([KeyPart::header("X-Tenant-Id"), KeyPart::PathSegment(1)]);
/// # let _ = (per_ip, api, tenant);
/// # Ok::<(), sluicegate_core::ParseRuleError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// The name: letters, digits, `.`, `_` and `-`. Part of every key, so a renamed limit starts afresh.
    pub name: String,
    /// The numbers; `None` is unlimited.
    pub quota: Option<Quota>,
    /// Whether those numbers are the last word.
    pub quota_from: QuotaSource,
    /// What makes a caller: one counter for each distinct tuple.
    pub key: Vec<KeyPart>,
    /// Which requests it covers.
    pub matching: Match,
    /// The limit whose place it takes where it matches.
    pub replaces: Option<String>,
    /// Whether a denial rejects the request.
    pub mode: Mode,
    /// What to do when a key part is missing; `None` is the default for its parts, see [`Limit::missing_key_rule`].
    pub on_missing_key: Option<OnMissingKey>,
    /// What to do while the store is away; `None` is what the limiter does by default.
    pub on_failure: Option<FailurePolicy>,
    /// A caller's factor on the quota.
    pub factor: Option<FactorRule>,
    /// Which leading bits of an address make a caller.
    pub prefixes: Prefixes,
}

/// Where the quota of a key comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuotaSource {
    /// The limit itself.
    #[default]
    Limit,
    /// A service that knows the caller's plan; the limit's own quota while it does not answer.
    External,
}

impl Limit {
    /// A limit on all requests together; [`Limit::key`] splits it by caller.
    pub fn new(name: impl Into<String>, quota: impl Into<Quota>) -> Self {
        Self {
            name: name.into(),
            quota: Some(quota.into()),
            quota_from: QuotaSource::Limit,
            key: vec![KeyPart::Global],
            matching: Match::default(),
            replaces: None,
            mode: Mode::Enforce,
            on_missing_key: None,
            on_failure: None,
            factor: None,
            prefixes: Prefixes::default(),
        }
    }

    /// A limit on each client address.
    pub fn per_client(name: impl Into<String>, quota: impl Into<Quota>) -> Self {
        Self::new(name, quota).key([KeyPart::ClientIp])
    }

    /// A limit that lets everything it covers pass: a hole in the limit that it replaces.
    pub fn unlimited(name: impl Into<String>) -> Self {
        Self {
            quota: None,
            ..Self::new(name, Quota::per_second(1))
        }
    }

    /// One counter for each distinct tuple of these parts.
    #[must_use]
    pub fn key(mut self, parts: impl IntoIterator<Item = KeyPart>) -> Self {
        self.key = parts.into_iter().collect();
        self
    }

    /// Covers only the requests that match.
    #[must_use]
    pub fn matching(mut self, matching: Match) -> Self {
        self.matching = matching;
        self
    }

    /// Takes the place of the limit `name` where it matches; among several, the longest path wins.
    #[must_use]
    pub fn replaces(mut self, name: impl Into<String>) -> Self {
        self.replaces = Some(name.into());
        self
    }

    /// Counts and reports, never rejects.
    #[must_use]
    pub fn shadow(mut self) -> Self {
        self.mode = Mode::Shadow;
        self
    }

    /// Asks a service for the quota of each key; the limit's own is for when nobody knows better.
    #[must_use]
    pub fn quota_from_outside(mut self) -> Self {
        self.quota_from = QuotaSource::External;
        self
    }

    /// What to do with requests that lack a part of the key.
    #[must_use]
    pub fn on_missing_key(mut self, rule: OnMissingKey) -> Self {
        self.on_missing_key = Some(rule);
        self
    }

    /// What to do while the store is away, whatever the limiter does by default.
    #[must_use]
    pub fn on_failure(mut self, policy: FailurePolicy) -> Self {
        self.on_failure = Some(policy);
        self
    }

    /// Divides the quota by a claim of the principal.
    #[must_use]
    pub fn factor(mut self, rule: FactorRule) -> Self {
        self.factor = Some(rule);
        self
    }

    /// Counts addresses by these prefixes.
    #[must_use]
    pub fn prefixes(mut self, prefixes: Prefixes) -> Self {
        self.prefixes = prefixes;
        self
    }

    /// Whether key or quota are known only once the caller is authenticated.
    pub fn needs_principal(&self) -> bool {
        self.factor.is_some()
            || self
                .key
                .iter()
                .any(|part| matches!(part, KeyPart::Principal | KeyPart::Claim(_)))
    }

    /// Whether it speaks of exactly these entries of a descriptor, in its conditions or in its key: none that is not
    /// there, and none is left over.
    pub(crate) fn speaks_of(&self, entries: &[(&str, &str)]) -> bool {
        let conditions = &self.matching.descriptors;
        let is_condition = |name: &str| conditions.iter().any(|entry| entry.name == name);
        let in_key = self.key.iter().filter_map(|part| match part {
            KeyPart::Descriptor(name) if !is_condition(name) => Some(name.as_str()),
            _ => None,
        });
        let mut names = 0;
        let mut all_there = true;
        for name in conditions
            .iter()
            .map(|entry| entry.name.as_str())
            .chain(in_key)
        {
            names += 1;
            all_there &= entries.iter().any(|(own, _)| *own == name);
        }
        names > 0 && names == entries.len() && all_there
    }

    /// The rule for a missing key part: as configured, else to reject, else, for parts that only some requests have
    /// by nature (principal, claim, descriptor), not to apply.
    pub fn missing_key_rule(&self) -> OnMissingKey {
        let optional = |part: &KeyPart| {
            matches!(
                part,
                KeyPart::Principal | KeyPart::Claim(_) | KeyPart::Descriptor(_)
            )
        };
        let default = if self.key.iter().any(optional) {
            OnMissingKey::Skip
        } else {
            OnMissingKey::Reject
        };
        self.on_missing_key.unwrap_or(default)
    }
}

/// Whether a limit rejects or only watches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// A denial rejects the request.
    #[default]
    Enforce,
    /// Counted and reported, never rejected.
    Shadow,
}

/// What to do with a request that lacks a part of a limit's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnMissingKey {
    /// Answer 400.
    Reject,
    /// Count by client address instead, apart from every real key.
    ClientIp,
    /// Count all such requests in one counter.
    Shared,
    /// Leave this limit out.
    Skip,
}

/// One part of a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KeyPart {
    /// The client address, by prefix.
    ClientIp,
    /// The method.
    Method,
    /// The host.
    Host,
    /// The whole path, without a trailing slash.
    Path,
    /// The n-th segment of the path, from 1; the first segment of `/` is `root`.
    PathSegment(usize),
    /// A header that occurs once; lower case.
    Header(String),
    /// The verified caller.
    Principal,
    /// A fact about the verified caller.
    Claim(String),
    /// An entry of a descriptor.
    Descriptor(String),
    /// Nothing: one counter for all.
    Global,
}

impl KeyPart {
    /// The header `name`, in any case.
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
        const EXPECTED: &str = "client_ip, method, host, path, path_segment:N, header:NAME, principal, claim:NAME, \
                                descriptor:NAME or global";
        let refused = || ParseRuleError::new(text, EXPECTED);
        match text.split_once(':') {
            None => match text {
                "client_ip" => Ok(Self::ClientIp),
                "method" => Ok(Self::Method),
                "host" => Ok(Self::Host),
                "path" => Ok(Self::Path),
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
            Some(("claim", name)) => Ok(Self::Claim(name.to_owned())),
            Some(("descriptor", name)) => Ok(Self::Descriptor(name.to_owned())),
            Some(_) => Err(refused()),
        }
    }
}

/// Which requests a limit covers: all conditions must hold; an empty one always does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Match {
    /// Any of these methods.
    pub methods: Vec<String>,
    /// Any of these hosts.
    pub hosts: Vec<HostPattern>,
    /// This path and what lies below it.
    pub path: Option<PathPattern>,
    /// All of these headers.
    pub headers: Vec<HeaderMatch>,
    /// Descriptors of this domain.
    pub domain: Option<String>,
    /// All of these entries of a descriptor.
    pub descriptors: Vec<DescriptorMatch>,
}

impl Match {
    /// Covers a path and what lies below it, `{name}` standing for any one segment.
    pub fn path(pattern: &str) -> Result<Self, ParseRuleError> {
        Ok(Self {
            path: Some(pattern.parse()?),
            ..Self::default()
        })
    }

    /// Covers only these methods.
    #[must_use]
    pub fn methods<M: Into<String>>(mut self, methods: impl IntoIterator<Item = M>) -> Self {
        self.methods = methods.into_iter().map(Into::into).collect();
        self
    }

    /// Covers only this host, or with `*.` in front any host below it; repeated calls add hosts.
    pub fn host(mut self, pattern: &str) -> Result<Self, ParseRuleError> {
        self.hosts.push(pattern.parse()?);
        Ok(self)
    }

    /// Covers only requests with this header and value; repeated calls add conditions.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push(HeaderMatch {
            name: name.to_ascii_lowercase(),
            value: Some(value.into()),
        });
        self
    }

    /// Covers only descriptors with this entry; repeated calls add conditions.
    #[must_use]
    pub fn descriptor(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.descriptors.push(DescriptorMatch {
            name: name.into(),
            value: Some(value.into()),
        });
        self
    }

    /// Everything but the path, which the policy's index has already matched.
    pub(crate) fn covers_rest(&self, subject: &Subject<'_>) -> bool {
        (self.methods.is_empty() || self.methods.iter().any(|method| method == subject.method))
            && (self.hosts.is_empty()
                || subject
                    .host
                    .is_some_and(|host| self.hosts.iter().any(|pattern| pattern.covers(host))))
            && self.headers.iter().all(|header| header.covers(subject))
            && self
                .domain
                .as_deref()
                .is_none_or(|domain| subject.domain == Some(domain))
            && self.descriptors.iter().all(|entry| entry.covers(subject))
    }

    /// How many kinds of condition it sets besides the path: between equal paths the more particular wins.
    pub(crate) fn conditions(&self) -> usize {
        usize::from(!self.methods.is_empty())
            + usize::from(!self.hosts.is_empty())
            + self.headers.len()
            + usize::from(self.domain.is_some())
            + self.descriptors.len()
    }
}

/// A header that must be there, with a value if one is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderMatch {
    /// Lower case.
    pub name: String,
    /// `None` matches any value.
    pub value: Option<String>,
}

impl HeaderMatch {
    pub(crate) fn covers(&self, subject: &Subject<'_>) -> bool {
        match (subject.headers.get(&self.name), &self.value) {
            (HeaderValue::Missing, _) => false,
            (HeaderValue::One(value), Some(wanted)) => value == wanted.as_bytes(),
            (HeaderValue::One(_) | HeaderValue::Repeated, None) => true,
            (HeaderValue::Repeated, Some(_)) => false,
        }
    }
}

/// An entry that a descriptor must have, with a value if one is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescriptorMatch {
    /// The name of the entry, as sent.
    pub name: String,
    /// `None` matches any value.
    pub value: Option<String>,
}

impl DescriptorMatch {
    pub(crate) fn covers(&self, subject: &Subject<'_>) -> bool {
        let is_wanted = |value: &str| self.value.as_deref().is_none_or(|wanted| wanted == value);
        subject
            .descriptors
            .iter()
            .any(|(name, value)| *name == self.name && is_wanted(value))
    }
}

/// A host, or with `*.` in front every host below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPattern {
    /// This host.
    Exact(String),
    /// Any host that ends in a dot and this.
    Below(String),
}

impl HostPattern {
    pub(crate) fn covers(&self, host: &str) -> bool {
        match self {
            Self::Exact(own) => own == host,
            Self::Below(domain) => host
                .strip_suffix(domain.as_str())
                .is_some_and(|rest| rest.ends_with('.')),
        }
    }
}

/// As it is written in the configuration.
impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(host) => f.write_str(host),
            Self::Below(domain) => write!(f, "*.{domain}"),
        }
    }
}

impl FromStr for HostPattern {
    type Err = ParseRuleError;

    fn from_str(text: &str) -> Result<Self, ParseRuleError> {
        let lower = text.to_ascii_lowercase();
        let (wrap, host): (fn(String) -> Self, &str) = match lower.strip_prefix("*.") {
            Some(domain) => (Self::Below, domain),
            None => (Self::Exact, &lower),
        };
        let is_host = !host.is_empty()
            && host
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-._[:]".contains(&byte));
        if !is_host {
            return Err(ParseRuleError::new(
                text,
                "a host such as a.example, or *.example for all below it",
            ));
        }
        Ok(wrap(host.to_owned()))
    }
}

/// A part of a rule that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseRuleError {
    got: String,
    expected: &'static str,
}

impl ParseRuleError {
    pub(crate) fn new(got: &str, expected: &'static str) -> Self {
        Self {
            got: got.to_owned(),
            expected,
        }
    }
}

impl fmt::Display for ParseRuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {} (got {:?})", self.expected, self.got)
    }
}

impl Error for ParseRuleError {}

/// A header name as RFC 9110 spells tokens.
fn is_token(text: &str) -> bool {
    text.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}
