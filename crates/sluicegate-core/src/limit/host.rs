//! Patterns of hosts.

use std::fmt;
use std::str::FromStr;

use crate::rule_error::ParseRuleError;

/// A host, or with `*.` in front every host below it.
///
/// ```
/// use sluicegate_core::HostPattern;
///
/// assert_eq!("A.example".parse(), Ok(HostPattern::Exact("a.example".into())));
/// assert_eq!("*.example".parse(), Ok(HostPattern::Below("example".into())));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPattern {
    /// This host, lower case.
    Exact(String),
    /// Any host that ends in a dot and this domain, lower case; not the domain itself.
    Below(String),
}

impl HostPattern {
    /// Returns true when a host, lower case and without port, fits the pattern.
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
