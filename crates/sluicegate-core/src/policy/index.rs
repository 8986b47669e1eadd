//! Finds the limits that may cover a request without looking at all of them.
//!
//! Paths are a trie of segments; at each node, limits are filed under the rarest thing they ask for: a host, a domain, a
//! header or an entry of a descriptor with its value, or nothing. A request looks into the few drawers it can match.

use std::collections::HashMap;

use crate::limit::{HostPattern, Limit};
use crate::list::List;
use crate::path::{self, Segment};
use crate::subject::{HeaderValue, Subject};

#[derive(Debug, Default)]
pub(super) struct Index {
    nodes: Vec<Node>,
}

#[derive(Debug, Default)]
struct Node {
    /// In lower case.
    literal: HashMap<String, usize>,
    any: Option<usize>,
    drawers: Drawers,
}

/// The limits of one node; each is in exactly the drawers of its hosts, or of one header or entry, or in `rest`.
#[derive(Debug, Default)]
struct Drawers {
    by_host: HashMap<String, Vec<usize>>,
    by_domain: HashMap<String, Vec<usize>>,
    by_header: HashMap<String, HashMap<Vec<u8>, Vec<usize>>>,
    by_descriptor: HashMap<String, HashMap<String, Vec<usize>>>,
    rest: Vec<usize>,
}

impl Index {
    pub(super) fn new(limits: &[Limit]) -> Self {
        let mut index = Self {
            nodes: vec![Node::default()],
        };
        for (place, limit) in limits.iter().enumerate() {
            let node = index.node_for(limit);
            index.nodes[node].drawers.file(place, limit);
        }
        index
    }

    /// The places of limits whose path matches, and whose other conditions may; a place may occur twice.
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

    /// Goes down the trie as far as the path reaches; as deep as the longest pattern at most.
    fn collect_below<'s>(
        &self,
        node: &Node,
        mut segments: impl Iterator<Item = &'s str> + Clone,
        subject: &Subject<'_>,
        found: &mut List<usize>,
    ) {
        node.drawers.collect(subject, found);
        if node.is_leaf() {
            return;
        }
        let Some(segment) = segments.next() else {
            return;
        };
        for below in node.below(segment) {
            self.collect_below(&self.nodes[below], segments.clone(), subject, found);
        }
    }

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
    fn is_leaf(&self) -> bool {
        self.literal.is_empty() && self.any.is_none()
    }

    fn below(&self, segment: &str) -> impl Iterator<Item = usize> {
        let literal = if segment.bytes().any(|byte| byte.is_ascii_uppercase()) {
            self.literal.get(segment.to_ascii_lowercase().as_str())
        } else {
            self.literal.get(segment)
        };
        literal.copied().into_iter().chain(self.any)
    }
}

impl Drawers {
    fn file(&mut self, place: usize, limit: &Limit) {
        let matching = &limit.matching;
        if !matching.hosts.is_empty() {
            for host in &matching.hosts {
                let drawer = match host {
                    HostPattern::Exact(host) => self.by_host.entry(host.clone()),
                    HostPattern::Below(domain) => self.by_domain.entry(domain.clone()),
                };
                drawer.or_default().push(place);
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
                .push(place);
            return;
        }
        let valued = matching
            .descriptors
            .iter()
            .find_map(|entry| Some((&entry.name, entry.value.as_ref()?)));
        match valued {
            Some((name, value)) => {
                let values = self.by_descriptor.entry(name.clone()).or_default();
                values.entry(value.clone()).or_default().push(place);
            }
            None => self.rest.push(place),
        }
    }

    fn collect(&self, subject: &Subject<'_>, found: &mut List<usize>) {
        found.extend(&self.rest);
        if let Some(host) = subject.host {
            found.extend(self.by_host.get(host).into_iter().flatten());
            if !self.by_domain.is_empty() {
                let domains = host.match_indices('.').map(|(dot, _)| &host[dot + 1..]);
                found.extend(
                    domains
                        .filter_map(|domain| self.by_domain.get(domain))
                        .flatten(),
                );
            }
        }
        for (name, values) in &self.by_header {
            if let HeaderValue::One(value) = subject.headers.get(name) {
                found.extend(values.get(value).into_iter().flatten());
            }
        }
        if !self.by_descriptor.is_empty() {
            let drawers = subject.descriptors.iter();
            found.extend(
                drawers
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

    /// The most candidates that any of these requests finds among many limits, one of which is for it.
    fn most_candidates(
        matching: impl Fn(usize) -> Match,
        ask: impl Fn(&Index, usize) -> List<usize>,
    ) -> usize {
        let limit = |place| {
            Limit::new(format!("limit-{place}"), Quota::per_second(1)).matching(matching(place))
        };
        let index = Index::new(&(0..MANY).map(limit).collect::<Vec<_>>());
        let found = (0..MANY).step_by(97).map(|place| {
            let candidates = ask(&index, place);
            assert!(
                candidates.contains(&place),
                "the limit for request {place} was not found"
            );
            candidates.len()
        });
        found.max().expect("some requests were made")
    }

    #[test]
    fn among_many_paths_one_is_looked_at() {
        let ask = |index: &Index, place| {
            let path = format!("/api/{place}/items/7");
            index.candidates(&Subject {
                path: &path,
                ..Subject::ANONYMOUS
            })
        };
        assert_eq!(
            most_candidates(
                |place| Match::path(&format!("/api/{place}/items")).unwrap(),
                ask
            ),
            1
        );
    }

    #[test]
    fn among_many_templates_one_is_looked_at() {
        let ask = |index: &Index, place| {
            let path = format!("/users/ann/{place}");
            index.candidates(&Subject {
                path: &path,
                ..Subject::ANONYMOUS
            })
        };
        assert_eq!(
            most_candidates(
                |place| Match::path(&format!("/users/{{id}}/{place}")).unwrap(),
                ask
            ),
            1
        );
    }

    #[test]
    fn among_many_hosts_one_is_looked_at() {
        let ask = |index: &Index, place| {
            let host = format!("tenant-{place}.example");
            index.candidates(&Subject {
                host: Some(&host),
                ..Subject::ANONYMOUS
            })
        };
        let whole = |place| {
            Match::default()
                .host(&format!("tenant-{place}.example"))
                .unwrap()
        };
        assert_eq!(most_candidates(whole, ask), 1);
    }

    #[test]
    fn among_many_domains_one_is_looked_at() {
        let ask = |index: &Index, place| {
            let host = format!("www.tenant-{place}.example");
            index.candidates(&Subject {
                host: Some(&host),
                ..Subject::ANONYMOUS
            })
        };
        let below = |place| {
            Match::default()
                .host(&format!("*.tenant-{place}.example"))
                .unwrap()
        };
        assert_eq!(most_candidates(below, ask), 1);
    }

    #[test]
    fn among_many_header_values_one_is_looked_at() {
        let ask = |index: &Index, place: usize| {
            let headers = [("x-tenant-id", place.to_string())];
            index.candidates(&Subject {
                headers: &headers,
                ..Subject::ANONYMOUS
            })
        };
        let tenant = |place: usize| Match::default().header("X-Tenant-Id", place.to_string());
        assert_eq!(most_candidates(tenant, ask), 1);
    }

    #[test]
    fn among_many_entries_of_descriptors_one_is_looked_at() {
        let ask = |index: &Index, place: usize| {
            let value = place.to_string();
            let descriptors = [("plan", "any"), ("tenant", value.as_str())];
            index.candidates(&Subject {
                descriptors: &descriptors,
                ..Subject::ANONYMOUS
            })
        };
        let tenant = |place: usize| Match::default().descriptor("tenant", place.to_string());
        assert_eq!(most_candidates(tenant, ask), 1);
    }
}
