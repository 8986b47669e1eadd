//! The conditions of a limit: which requests it covers.

use super::host::HostPattern;
use crate::path::PathPattern;
use crate::query::{self, QueryValue};
use crate::rule_error::ParseRuleError;
use crate::subject::{HeaderValue, Principal, Subject};

/// The requests that a limit covers: all conditions must hold, and an empty one always does.
///
/// ```
/// use sluicegate_core::Match;
///
/// let uploads = Match::path("/users/{id}/files")?
///     .methods(["POST", "PUT"])
///     .host("*.shop.example")?
///     .header("X-Beta", "yes");
/// assert_eq!(uploads.headers[0].name, "x-beta");
/// # Ok::<(), sluicegate_core::ParseRuleError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Match {
    /// Any of these methods, compared as written; `GET` covers `HEAD` too.
    pub methods: Vec<String>,
    /// Any of these hosts.
    pub hosts: Vec<HostPattern>,
    /// This path and every path below it.
    pub path: Option<PathPattern>,
    /// All of these headers.
    pub headers: Vec<HeaderMatch>,
    /// All of these parameters of the query.
    pub query: Vec<QueryMatch>,
    /// A verified caller with one of these ids.
    pub principal: Option<ValueMatch>,
    /// All of these claims of the verified caller.
    pub claims: Vec<ClaimMatch>,
    /// Descriptors of this domain.
    pub domain: Option<String>,
    /// All of these entries of a descriptor.
    pub descriptors: Vec<DescriptorMatch>,
}

impl Match {
    /// Covers a path and every path below it; `{name}` stands for any one segment.
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

    /// Covers only requests with this query parameter and value; repeated calls add conditions.
    #[must_use]
    pub fn query(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.query.push(QueryMatch {
            name: name.into(),
            value: Some(value.into()),
        });
        self
    }

    /// Covers only verified callers with one of these ids.
    #[must_use]
    pub fn principals<P: Into<String>>(mut self, ids: impl IntoIterator<Item = P>) -> Self {
        self.principal = Some(ValueMatch::one_of(ids));
        self
    }

    /// Covers only verified callers, whoever they are.
    #[must_use]
    pub fn any_principal(mut self) -> Self {
        self.principal = Some(ValueMatch::Any);
        self
    }

    /// Covers only verified callers with this claim and one of these values; repeated calls add
    /// conditions.
    #[must_use]
    pub fn claim<V: Into<String>>(
        mut self,
        name: impl Into<String>,
        values: impl IntoIterator<Item = V>,
    ) -> Self {
        self.claims.push(ClaimMatch {
            name: name.into(),
            values: ValueMatch::one_of(values),
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

    /// Returns true when a condition is about the verified caller.
    pub fn names_caller(&self) -> bool {
        self.principal.is_some() || !self.claims.is_empty()
    }

    /// Returns true when every condition holds but the path's, which the policy's index has
    /// already matched.
    pub(crate) fn covers_rest(&self, subject: &Subject<'_>) -> bool {
        self.covers_request(subject) && self.covers_caller(subject.principal)
    }

    /// Returns true when every condition holds that is about the request and not about its caller,
    /// except the path's.
    pub(crate) fn covers_request(&self, subject: &Subject<'_>) -> bool {
        self.covers_method(subject.method)
            && (self.hosts.is_empty()
                || subject
                    .host
                    .is_some_and(|host| self.hosts.iter().any(|pattern| pattern.covers(host))))
            && self.headers.iter().all(|header| header.covers(subject))
            && self.query.iter().all(|wanted| wanted.covers(subject))
            && self
                .domain
                .as_deref()
                .is_none_or(|domain| subject.domain == Some(domain))
            && self.descriptors.iter().all(|entry| entry.covers(subject))
    }

    /// Returns true when the method is among those of the rule. A rule for `GET` covers `HEAD`:
    /// servers run the same code for both.
    pub(crate) fn covers_method(&self, sent: &str) -> bool {
        let covers = |method: &String| method == sent || sent == "HEAD" && method == "GET";
        self.methods.is_empty() || self.methods.iter().any(covers)
    }

    /// Returns true when every condition on the verified caller holds.
    fn covers_caller(&self, principal: Option<&Principal>) -> bool {
        let is_wanted = |wanted: &ValueMatch| principal.is_some_and(|known| wanted.has(&known.id));
        self.principal.as_ref().is_none_or(is_wanted)
            && self.claims.iter().all(|claim| claim.covers(principal))
    }

    /// Returns true when two matches differ in whom they ask for and in nothing else.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let Self {
            methods,
            hosts,
            path,
            headers,
            query,
            principal: _,
            claims: _,
            domain,
            descriptors,
        } = self;
        self.conditions() == other.conditions()
            && (methods, hosts, path, headers)
                == (&other.methods, &other.hosts, &other.path, &other.headers)
            && (query, domain, descriptors) == (&other.query, &other.domain, &other.descriptors)
    }

    /// The number of conditions besides the path: between limits with equal paths, the one with
    /// more conditions wins.
    pub(crate) fn conditions(&self) -> usize {
        usize::from(!self.methods.is_empty())
            + usize::from(!self.hosts.is_empty())
            + self.headers.len()
            + self.query.len()
            + usize::from(self.principal.is_some())
            + self.claims.len()
            + usize::from(self.domain.is_some())
            + self.descriptors.len()
    }
}

/// A header that must be present, with a value if one is given.
///
/// Blanks around a value do not count. A header that occurs twice matches no value: which of the
/// two counts would be a guess.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderMatch {
    /// The header's name, lower case.
    pub name: String,
    /// `None` matches any value.
    pub value: Option<String>,
}

impl HeaderMatch {
    /// Returns true when the request has this header, and with this value if one is given.
    pub(crate) fn covers(&self, subject: &Subject<'_>) -> bool {
        match (subject.headers.get(&self.name), &self.value) {
            (HeaderValue::Missing, _) => false,
            (HeaderValue::One(value), Some(wanted)) => value.trim_ascii() == wanted.as_bytes(),
            (HeaderValue::One(_) | HeaderValue::Repeated, None) => true,
            (HeaderValue::Repeated, Some(_)) => false,
        }
    }
}

/// A query parameter that must be present, with a value if one is given.
///
/// A parameter that occurs twice matches no value, like a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryMatch {
    /// The parameter's name, decoded.
    pub name: String,
    /// The value, decoded; `None` matches any value.
    pub value: Option<String>,
}

impl QueryMatch {
    /// Returns true when the query has this parameter, and with this value if one is given.
    pub(crate) fn covers(&self, subject: &Subject<'_>) -> bool {
        match (query::parameter(subject.query, &self.name), &self.value) {
            (QueryValue::Missing, _) => false,
            (QueryValue::One(text), Some(wanted)) => text.is(wanted),
            (QueryValue::One(_) | QueryValue::Repeated, None) => true,
            (QueryValue::Repeated, Some(_)) => false,
        }
    }
}

/// The values that a condition on the verified caller accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueMatch {
    /// Every value.
    Any,
    /// Any of these values.
    OneOf(Vec<String>),
}

impl ValueMatch {
    /// Accepts any of these values.
    pub fn one_of<V: Into<String>>(values: impl IntoIterator<Item = V>) -> Self {
        Self::OneOf(values.into_iter().map(Into::into).collect())
    }

    /// Returns true when this value is accepted.
    fn has(&self, value: &str) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(wanted) => wanted.iter().any(|wanted| wanted == value),
        }
    }
}

/// A claim that the verified caller must have.
///
/// A claim that is a list, separated by commas, has the values in the list as well as the whole
/// text: `dev,staff` matches `staff`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimMatch {
    /// The claim's name.
    pub name: String,
    /// The values that it may have.
    pub values: ValueMatch,
}

impl ClaimMatch {
    /// Returns true when the caller is verified and has the claim with such a value.
    pub(crate) fn covers(&self, principal: Option<&Principal>) -> bool {
        let claim = principal.and_then(|principal| principal.claims.get(&self.name));
        claim.is_some_and(|claim| claim_values(claim).any(|value| self.values.has(value)))
    }
}

/// The values of a claim: its text, and if that is a list, each text in it.
pub(crate) fn claim_values(claim: &str) -> impl Iterator<Item = &str> {
    let items = claim.contains(',').then(|| claim.split(',').map(str::trim));
    std::iter::once(claim).chain(items.into_iter().flatten())
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
    /// Returns true when the descriptor has this entry, and with this value if one is given.
    pub(crate) fn covers(&self, subject: &Subject<'_>) -> bool {
        let is_wanted = |value: &str| self.value.as_deref().is_none_or(|wanted| wanted == value);
        subject
            .descriptors
            .iter()
            .any(|(name, value)| *name == self.name && is_wanted(value))
    }
}
