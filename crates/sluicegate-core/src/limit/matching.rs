//! The conditions of a limit: which requests it covers.

use super::host::HostPattern;
use crate::path::PathPattern;
use crate::rule_error::ParseRuleError;
use crate::subject::{HeaderValue, Subject};

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

    /// Covers only descriptors with this entry; repeated calls add conditions.
    #[must_use]
    pub fn descriptor(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.descriptors.push(DescriptorMatch {
            name: name.into(),
            value: Some(value.into()),
        });
        self
    }

    /// Returns true when every condition holds but the path's, which the policy's index has
    /// already matched.
    pub(crate) fn covers_rest(&self, subject: &Subject<'_>) -> bool {
        self.covers_method(subject.method)
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

    /// Returns true when the method is among those of the rule. A rule for `GET` covers `HEAD`:
    /// servers run the same code for both.
    pub(crate) fn covers_method(&self, sent: &str) -> bool {
        let covers = |method: &String| method == sent || sent == "HEAD" && method == "GET";
        self.methods.is_empty() || self.methods.iter().any(covers)
    }

    /// The number of conditions besides the path: between limits with equal paths, the one with
    /// more conditions wins.
    pub(crate) fn conditions(&self) -> usize {
        usize::from(!self.methods.is_empty())
            + usize::from(!self.hosts.is_empty())
            + self.headers.len()
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
