//! The requests that a limit covers, in our words: hosts, path, methods, headers and query.

use sluicegate_core::{HostPattern, PathPattern};

use super::draft::quoted;

/// The requests that a limit covers; an empty condition always holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cover {
    /// Any of these, lower case; `*.example` for all below it.
    pub(super) hosts: Vec<String>,
    /// This path and all below it, without a slash at its end; `None` is every path.
    pub(super) path: Option<String>,
    /// Any of these.
    pub(super) methods: Vec<String>,
    /// All of these headers, with their values; names in lower case.
    pub(super) headers: Vec<(String, String)>,
    /// All of these parameters of the query, with their values.
    pub(super) query: Vec<(String, String)>,
    /// The domain of descriptors.
    pub(super) domain: Option<String>,
    /// All of these entries of a descriptor.
    pub(super) descriptor: Vec<(String, String)>,
}

impl Cover {
    /// A path and all below it. `None` when our patterns cannot express it.
    pub(super) fn of_path(path: &str) -> Option<Self> {
        let path = path.trim_end_matches('/');
        if path.is_empty() {
            return Some(Self::default());
        }
        let has_braces = path.contains(['{', '}']);
        (!has_braces && path.parse::<PathPattern>().is_ok()).then(|| Self {
            path: Some(path.to_owned()),
            ..Self::default()
        })
    }

    /// One host, or `*.example`. `None` when our patterns cannot express it.
    pub(super) fn of_host(host: &str) -> Option<Self> {
        let host = host.to_ascii_lowercase();
        host.parse::<HostPattern>().is_ok().then(|| Self {
            hosts: vec![host],
            ..Self::default()
        })
    }

    /// Returns true when every request that `other` covers is covered by this one.
    pub(super) fn contains(&self, other: &Self) -> bool {
        let has_hosts = self.hosts.is_empty()
            || !other.hosts.is_empty()
                && other
                    .hosts
                    .iter()
                    .all(|host| self.hosts.iter().any(|own| host_contains(own, host)));
        let has_methods = self.methods.is_empty()
            || !other.methods.is_empty()
                && other
                    .methods
                    .iter()
                    .all(|method| self.methods.contains(method));
        let has_path = match (&self.path, &other.path) {
            (None, _) => true,
            (Some(own), Some(other)) => path_contains(own, other),
            (Some(_), None) => false,
        };
        has_hosts
            && has_methods
            && has_path
            && self
                .headers
                .iter()
                .all(|header| other.headers.contains(header))
            && self.query.iter().all(|wanted| other.query.contains(wanted))
    }

    /// The requests that both cover; `None` when there are none.
    pub(super) fn and(&self, other: &Self) -> Option<Self> {
        let path = match (&self.path, &other.path) {
            (None, path) | (path, None) => path.clone(),
            (Some(one), Some(two)) if path_contains(one, two) => Some(two.clone()),
            (Some(one), Some(two)) if path_contains(two, one) => Some(one.clone()),
            _ => return None,
        };
        Some(Self {
            hosts: both(&self.hosts, &other.hosts, host_contains)?,
            methods: both(&self.methods, &other.methods, |one, two| one == two)?,
            path,
            headers: both_values(&self.headers, &other.headers)?,
            query: both_values(&self.query, &other.query)?,
            domain: self.domain.clone().or_else(|| other.domain.clone()),
            descriptor: self.descriptor.clone(),
        })
    }

    /// How narrow it is, to choose between two: the length of the path, then the conditions.
    pub(super) fn narrowness(&self) -> usize {
        let conditions = usize::from(!self.hosts.is_empty())
            + usize::from(!self.methods.is_empty())
            + self.headers.len()
            + self.query.len();
        self.path.as_ref().map_or(0, String::len) * 8 + conditions
    }

    /// A few words for a name: `login`, `a.example-login`.
    pub(super) fn words(&self) -> String {
        let host = self.hosts.first().map(|host| host.trim_start_matches("*."));
        let path = self.path.as_deref().map(|path| path.trim_matches('/'));
        let method = self.methods.first().map(String::as_str);
        let header = self.headers.first().map(|(name, _)| name.as_str());
        let parameter = self.query.first().map(|(name, _)| name.as_str());
        [host, path, method, header, parameter]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join("-")
    }

    /// The section `match` in our format; `None` when it covers everything.
    pub(super) fn in_yaml(&self) -> Option<String> {
        let list = |values: &[String]| {
            let values: Vec<String> = values.iter().map(|value| quoted(value)).collect();
            format!("[{}]", values.join(", "))
        };
        let map = |entries: &[(String, String)]| {
            let entries: Vec<String> = entries
                .iter()
                .map(|(name, value)| format!("{}: {}", quoted(name), quoted(value)))
                .collect();
            format!("{{ {} }}", entries.join(", "))
        };
        let mut parts = Vec::new();
        if let Some(domain) = &self.domain {
            parts.push(format!("domain: {}", quoted(domain)));
        }
        if !self.descriptor.is_empty() {
            parts.push(format!("descriptor: {}", map(&self.descriptor)));
        }
        if !self.hosts.is_empty() {
            parts.push(format!("hosts: {}", list(&self.hosts)));
        }
        if let Some(path) = &self.path {
            parts.push(format!("path: {}", quoted(path)));
        }
        if !self.methods.is_empty() {
            parts.push(format!("methods: {}", list(&self.methods)));
        }
        if !self.headers.is_empty() {
            parts.push(format!("headers: {}", map(&self.headers)));
        }
        if !self.query.is_empty() {
            parts.push(format!("query: {}", map(&self.query)));
        }
        (!parts.is_empty()).then(|| format!("{{ {} }}", parts.join(", ")))
    }
}

/// The values that both lists allow, where an empty list allows all; `None` when there are none.
fn both(
    one: &[String],
    two: &[String],
    contains: impl Fn(&str, &str) -> bool,
) -> Option<Vec<String>> {
    if one.is_empty() || two.is_empty() {
        return Some([one, two].concat());
    }
    let within = |inner: &[String], outer: &[String]| -> Vec<String> {
        let is_within = |value: &&String| outer.iter().any(|other| contains(other, value));
        inner.iter().filter(is_within).cloned().collect()
    };
    let mut shared = within(one, two);
    for value in within(two, one) {
        if !shared.contains(&value) {
            shared.push(value);
        }
    }
    (!shared.is_empty()).then_some(shared)
}

/// The names and values that both lists ask for, where `*` is any value; `None` when one name would
/// need two values.
fn both_values(
    one: &[(String, String)],
    two: &[(String, String)],
) -> Option<Vec<(String, String)>> {
    let mut wanted = one.to_vec();
    for (name, value) in two {
        match wanted.iter_mut().find(|(own, _)| own == name) {
            Some((_, own)) if own == "*" => own.clone_from(value),
            Some((_, own)) if own == value || value == "*" => {}
            Some(_) => return None,
            None => wanted.push((name.clone(), value.clone())),
        }
    }
    Some(wanted)
}

/// Returns true when a pattern of hosts covers all that another one covers.
fn host_contains(own: &str, other: &str) -> bool {
    let is_below = |domain: &str| {
        other
            .strip_suffix(domain)
            .is_some_and(|rest| rest.ends_with('.'))
    };
    own == other || own.strip_prefix("*.").is_some_and(is_below)
}

/// Returns true when a path lies at or below another, on segment boundaries.
fn path_contains(own: &str, other: &str) -> bool {
    let own = own.to_ascii_lowercase();
    other
        .to_ascii_lowercase()
        .strip_prefix(&own)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cover(host: &str, path: &str) -> Cover {
        let hosts = (!host.is_empty()).then(|| host.to_owned());
        Cover {
            hosts: hosts.into_iter().collect(),
            ..Cover::of_path(path).unwrap()
        }
    }

    #[test]
    fn narrower_covers_lie_within_wider_ones() {
        for (wide, narrow) in [
            (cover("", "/"), cover("a.example", "/x")),
            (cover("", "/api"), cover("", "/API/login")),
            (cover("*.example", ""), cover("a.example", "")),
            (cover("*.example", ""), cover("*.a.example", "")),
        ] {
            assert!(
                wide.contains(&narrow) && !narrow.contains(&wide),
                "{wide:?}"
            );
            assert_eq!(wide.and(&narrow).as_ref(), Some(&narrow));
        }
        assert!(!cover("", "/api").contains(&cover("", "/apix")));
        assert!(!cover("*.example", "").contains(&cover("example", "")));
        assert_eq!(cover("a.example", "").and(&cover("b.example", "")), None);
        assert_eq!(
            cover("a.example", "").and(&cover("", "/x")),
            Some(cover("a.example", "/x"))
        );
    }

    #[test]
    fn paths_and_hosts_that_cannot_be_expressed_are_refused() {
        assert_eq!(Cover::of_path("/a{b}"), None);
        assert_eq!(Cover::of_path("x"), None);
        assert_eq!(Cover::of_host("~^www"), None);
        assert_eq!(Cover::of_host("www.example.*"), None);
    }
}
