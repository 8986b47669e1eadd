//! Finds the limits that may cover a request without looking at all of them.
//!
//! The idea: the path patterns form a tree of segments, and each limit belongs to the node at which
//! its pattern ends. At a node, limits are kept under the one condition that few requests meet: a
//! host, a domain, a header or an entry of a descriptor with its value; limits with none of these
//! are in `others`. A request walks down the tree by its own path, and at each node looks up its
//! own host, headers and entries.
//!
//! The invariant: every limit whose conditions all hold is among the candidates. The reverse is not
//! promised: a candidate's remaining conditions have still to be checked, and a limit with several
//! hosts may be found twice.
//!
//! It is not simpler because a policy may have ten thousand limits, one per tenant, and a request
//! must not pay for the others, as it would if it searched a list.

use std::collections::HashMap;

use crate::limit::{HostPattern, Limit};
use crate::list::List;
use crate::path::{self, Segment};
use crate::subject::{HeaderValue, Subject};

/// The tree of path segments; node 0 is the root, which covers every path.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// Children are named by their position in this list.
    nodes: Vec<Node>,
}

/// One segment of a pattern, after those above it.
#[derive(Debug, Default)]
struct Node {
    /// The child for each segment that is text, in lower case.
    literal: HashMap<String, usize>,
    /// The child for `{name}`, which any one segment matches.
    any: Option<usize>,
    /// The limits whose pattern ends here.
    limits: NodeLimits,
}

/// The limits of one node, by index in the policy. Each is under all of its hosts, or under one
/// header or entry, or in `others`.
#[derive(Debug, Default)]
struct NodeLimits {
    /// Under an exact host.
    by_host: HashMap<String, Vec<usize>>,
    /// Under a domain, for every host below it.
    by_domain: HashMap<String, Vec<usize>>,
    /// Under a header's name and value.
    by_header: HashMap<String, HashMap<Vec<u8>, Vec<usize>>>,
    /// Under the name and value of a descriptor's entry.
    by_descriptor: HashMap<String, HashMap<String, Vec<usize>>>,
    /// Limits without such a condition: candidates of every request that reaches the node.
    others: Vec<usize>,
}

impl Index {
    /// Indexes the limits by their position in the list.
    pub(super) fn new(limits: &[Limit]) -> Self {
        let mut index = Self {
            nodes: vec![Node::default()],
        };
        for (limit_index, limit) in limits.iter().enumerate() {
            let node = index.node_for(limit);
            index.nodes[node].limits.insert(limit_index, limit);
        }
        index
    }

    /// The limits whose path matches, and whose other conditions may; one may occur twice.
    pub(super) fn candidates(&self, subject: &Subject<'_>) -> List<usize> {
        let mut found = List::Empty;
        self.collect_below(
            &self.nodes[0],
            path::segments(subject.path),
            subject,
            &mut found,
        );
        found
    }

    /// Goes down the tree as far as the path reaches, at most as deep as the longest pattern.
    /// A literal child and `{name}` can both match a segment, so the way down may fork.
    fn collect_below<'s>(
        &self,
        node: &Node,
        mut segments: impl Iterator<Item = &'s str> + Clone,
        subject: &Subject<'_>,
        found: &mut List<usize>,
    ) {
        node.limits.collect(subject, found);
        if node.is_leaf() {
            return;
        }
        let Some(segment) = segments.next() else {
            return;
        };
        for child in node.children(segment) {
            self.collect_below(&self.nodes[child], segments.clone(), subject, found);
        }
    }

    /// The node at which the limit's pattern ends; made if it is not there yet.
    fn node_for(&mut self, limit: &Limit) -> usize {
        let mut node = 0;
        for segment in limit
            .matching
            .path
            .iter()
            .flat_map(|pattern| &pattern.segments)
        {
            let new = self.nodes.len();
            let next = match segment {
                Segment::Literal(text) => *self.nodes[node]
                    .literal
                    .entry(text.to_ascii_lowercase())
                    .or_insert(new),
                Segment::Any => *self.nodes[node].any.get_or_insert(new),
            };
            if next == new {
                self.nodes.push(Node::default());
            }
            node = next;
        }
        node
    }
}

impl Node {
    /// Returns true when no pattern goes on below this node.
    fn is_leaf(&self) -> bool {
        self.literal.is_empty() && self.any.is_none()
    }

    /// The children that match a segment of a path, in either case.
    fn children(&self, segment: &str) -> impl Iterator<Item = usize> {
        let literal = if segment.bytes().any(|byte| byte.is_ascii_uppercase()) {
            self.literal.get(segment.to_ascii_lowercase().as_str())
        } else {
            self.literal.get(segment)
        };
        literal.copied().into_iter().chain(self.any)
    }
}

impl NodeLimits {
    /// Keeps a limit under its hosts, else under its first header with a value, else under its
    /// first entry with a value, else in `others`.
    fn insert(&mut self, limit_index: usize, limit: &Limit) {
        let matching = &limit.matching;
        if !matching.hosts.is_empty() {
            for host in &matching.hosts {
                let limits = match host {
                    HostPattern::Exact(host) => self.by_host.entry(host.clone()),
                    HostPattern::Below(domain) => self.by_domain.entry(domain.clone()),
                };
                limits.or_default().push(limit_index);
            }
            return;
        }
        let valued = matching
            .headers
            .iter()
            .find_map(|header| header.value.as_ref().map(|value| (&header.name, value)));
        if let Some((name, value)) = valued {
            let values = self.by_header.entry(name.clone()).or_default();
            values
                .entry(value.clone().into_bytes())
                .or_default()
                .push(limit_index);
            return;
        }
        let valued = matching
            .descriptors
            .iter()
            .find_map(|entry| Some((&entry.name, entry.value.as_ref()?)));
        match valued {
            Some((name, value)) => {
                let values = self.by_descriptor.entry(name.clone()).or_default();
                values.entry(value.clone()).or_default().push(limit_index);
            }
            None => self.others.push(limit_index),
        }
    }

    /// Adds the limits that a request may match.
    fn collect(&self, subject: &Subject<'_>, found: &mut List<usize>) {
        found.extend(&self.others);
        if let Some(host) = subject.host {
            found.extend(self.by_host.get(host).into_iter().flatten());
            if !self.by_domain.is_empty() {
                // Every domain above the host: `b.c` and `c` for `a.b.c`.
                let domains = host.match_indices('.').map(|(dot, _)| &host[dot + 1..]);
                found.extend(
                    domains
                        .filter_map(|domain| self.by_domain.get(domain))
                        .flatten(),
                );
            }
        }
        // By the policy's names, not by the request's: there are few of them, and a caller may send
        // many headers.
        for (name, values) in &self.by_header {
            if let HeaderValue::One(value) = subject.headers.get(name) {
                found.extend(values.get(value).into_iter().flatten());
            }
        }
        if !self.by_descriptor.is_empty() {
            let entries = subject.descriptors.iter();
            found.extend(
                entries
                    .filter_map(|(name, value)| self.by_descriptor.get(*name)?.get(*value))
                    .flatten(),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::Match;
    use crate::quota::Quota;

    const MANY: usize = 10_000;

    /// The most candidates that any of these requests finds among many limits, one of which is for
    /// it.
    fn most_candidates(
        matching: impl Fn(usize) -> Match,
        candidates_of: impl Fn(&Index, usize) -> List<usize>,
    ) -> usize {
        let limit = |limit_index| {
            Limit::new(format!("limit-{limit_index}"), Quota::per_second(1))
                .matching(matching(limit_index))
        };
        let index = Index::new(&(0..MANY).map(limit).collect::<Vec<_>>());
        let found = (0..MANY).step_by(97).map(|limit_index| {
            let candidates = candidates_of(&index, limit_index);
            assert!(
                candidates.contains(&limit_index),
                "the limit for request {limit_index} was not found"
            );
            candidates.len()
        });
        found.max().expect("some requests were made")
    }

    #[test]
    fn among_many_paths_one_is_looked_at() {
        let candidates_of = |index: &Index, limit_index| {
            let path = format!("/api/{limit_index}/items/7");
            index.candidates(&Subject {
                path: &path,
                ..Subject::ANONYMOUS
            })
        };
        assert_eq!(
            most_candidates(
                |limit_index| Match::path(&format!("/api/{limit_index}/items")).unwrap(),
                candidates_of
            ),
            1
        );
    }

    #[test]
    fn among_many_templates_one_is_looked_at() {
        let candidates_of = |index: &Index, limit_index| {
            let path = format!("/users/ann/{limit_index}");
            index.candidates(&Subject {
                path: &path,
                ..Subject::ANONYMOUS
            })
        };
        assert_eq!(
            most_candidates(
                |limit_index| Match::path(&format!("/users/{{id}}/{limit_index}")).unwrap(),
                candidates_of
            ),
            1
        );
    }

    #[test]
    fn among_many_hosts_one_is_looked_at() {
        let candidates_of = |index: &Index, limit_index| {
            let host = format!("tenant-{limit_index}.example");
            index.candidates(&Subject {
                host: Some(&host),
                ..Subject::ANONYMOUS
            })
        };
        let whole = |limit_index| {
            Match::default()
                .host(&format!("tenant-{limit_index}.example"))
                .unwrap()
        };
        assert_eq!(most_candidates(whole, candidates_of), 1);
    }

    #[test]
    fn among_many_domains_one_is_looked_at() {
        let candidates_of = |index: &Index, limit_index| {
            let host = format!("www.tenant-{limit_index}.example");
            index.candidates(&Subject {
                host: Some(&host),
                ..Subject::ANONYMOUS
            })
        };
        let below = |limit_index| {
            Match::default()
                .host(&format!("*.tenant-{limit_index}.example"))
                .unwrap()
        };
        assert_eq!(most_candidates(below, candidates_of), 1);
    }

    #[test]
    fn among_many_header_values_one_is_looked_at() {
        let candidates_of = |index: &Index, limit_index: usize| {
            let headers = [("x-tenant-id", limit_index.to_string())];
            index.candidates(&Subject {
                headers: &headers,
                ..Subject::ANONYMOUS
            })
        };
        let tenant =
            |limit_index: usize| Match::default().header("X-Tenant-Id", limit_index.to_string());
        assert_eq!(most_candidates(tenant, candidates_of), 1);
    }

    #[test]
    fn among_many_entries_of_descriptors_one_is_looked_at() {
        let candidates_of = |index: &Index, limit_index: usize| {
            let value = limit_index.to_string();
            let descriptors = [("plan", "any"), ("tenant", value.as_str())];
            index.candidates(&Subject {
                descriptors: &descriptors,
                ..Subject::ANONYMOUS
            })
        };
        let tenant =
            |limit_index: usize| Match::default().descriptor("tenant", limit_index.to_string());
        assert_eq!(most_candidates(tenant, candidates_of), 1);
    }
}
