//! Finds the limits that may cover a request without looking at all of them.
//!
//! The idea: the path patterns form a tree of segments, and each limit belongs to the node at which
//! its pattern ends. At a node, limits are kept under the one condition that few requests meet: a
//! host, a domain, or a header, an entry of a descriptor, a query parameter, a principal or a claim
//! with its value; limits with none of these are in `others`. A request walks down the tree by its
//! own path, and at each node looks up its own host, headers, entries and so on.
//!
//! The invariant: every limit whose conditions all hold is among the candidates. The reverse is not
//! promised: a candidate's remaining conditions have still to be checked, and a limit with several
//! hosts or values may be found twice.
//!
//! It is not simpler because a policy may have ten thousand limits, one per tenant, and a request
//! must not pay for the others, as it would if it searched a list.

use super::limit_indices::LimitIndices;
use super::named_map::NamedMap;
use crate::limit::{HostPattern, Limit, Match, ValueMatch, claim_values};
use crate::path::{self, Segment, Segments};
use crate::query::{self, QueryValue};
use crate::subject::{HeaderValue, Principal, Subject};

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
    literal: NamedMap<String, usize>,
    /// The same children where they are few: comparing is quicker than hashing.
    few: Box<[(Box<[u8]>, usize)]>,
    /// The child for `{name}`, which any one segment matches.
    any: Option<usize>,
    /// True when no pattern goes on below this node; set when all are known.
    is_leaf: bool,
    /// The limits whose pattern ends here.
    limits: NodeLimits,
    /// The limits that are charged for every request that comes to this node and no further; `None`
    /// where that depends on the request.
    charged: Option<Box<[usize]>>,
}

/// Limits under the name and value of one condition.
type ByValue = NamedMap<String, NamedMap<Vec<u8>, Vec<usize>>>;

/// The limits of one node, by index in the policy. Each is under all of its hosts or principals, or
/// under one header, entry, parameter or claim, or in `others`.
#[derive(Debug, Default)]
struct NodeLimits {
    /// Under an exact host.
    by_host: NamedMap<String, Vec<usize>>,
    /// Under a domain, for every host below it.
    by_domain: NamedMap<String, Vec<usize>>,
    /// Under a header's name and value.
    by_header: ByValue,
    /// Under the name and value of a descriptor's entry.
    by_descriptor: ByValue,
    /// Under the name and value of a query parameter.
    by_query: ByValue,
    /// Under the id of a principal.
    by_principal: NamedMap<String, Vec<usize>>,
    /// Under the name and value of a claim.
    by_claim: ByValue,
    /// Limits without such a condition: candidates of every request that reaches the node.
    others: Vec<usize>,
    /// True when some limit is under a condition, and not in `others`.
    has_conditions: bool,
    /// Of the limits that are under a principal or a claim and replace others, the first of each set
    /// that differ in that condition only: whoever the caller is, none of the set outranks it.
    first_of_callers: Vec<usize>,
}

impl Index {
    /// Indexes the limits by their position in the list.
    pub(super) fn new(limits: &[Limit]) -> Self {
        let mut index = Self {
            nodes: vec![Node::default()],
        };
        for (limit_index, limit) in limits.iter().enumerate() {
            let node = index.node_for(limit);
            index.nodes[node].limits.insert(limit_index, limit, limits);
        }
        index
    }

    /// Works out for each node which limits are charged for the requests that end there, where
    /// nothing but their path matters. `charged` says so of a list of limits that match, in order;
    /// it has nothing to say where one of them has to look at the request.
    pub(super) fn prepare(&mut self, charged: impl Fn(&[usize]) -> Option<Box<[usize]>>) {
        self.nodes.iter_mut().for_each(Node::list_children);
        let mut unvisited = vec![(0, Vec::new())];
        while let Some((number, mut matched)) = unvisited.pop() {
            let node = &mut self.nodes[number];
            matched.extend(&node.limits.others);
            matched.sort_unstable();
            // Long lists are not kept for each node: there may be as many nodes as limits.
            if node.limits.has_conditions || matched.len() > Self::CHARGED_MAX {
                continue;
            }
            node.charged = charged(&matched);
            let children = node.literal.values().copied().chain(node.any);
            unvisited.extend(children.map(|child| (child, matched.clone())));
        }
    }

    /// The longest list of limits that is kept at a node.
    const CHARGED_MAX: usize = 8;

    /// The limits that are charged for every request with this path; `None` where more of it has to
    /// be looked at.
    #[inline(always)]
    pub(super) fn charged(&self, path: &str) -> Option<&[usize]> {
        let mut node = &self.nodes[0];
        let mut rest = path.as_bytes();
        while !node.is_leaf {
            rest = path::without_slashes(rest);
            let Some((child, length)) = node.few_child(rest) else {
                return self.last_node(node, rest)?.charged.as_deref();
            };
            (node, rest) = (&self.nodes[child], &rest[length..]);
        }
        node.charged.as_deref()
    }

    /// The last node that the rest of a path leads to from a node; `None` where it leads to several.
    #[inline(never)]
    fn last_node<'n>(&'n self, mut node: &'n Node, mut rest: &[u8]) -> Option<&'n Node> {
        while !node.is_leaf {
            rest = path::without_slashes(rest);
            if rest.is_empty() {
                break;
            }
            let (segment, after) = path::split_segment(rest);
            let child = match (node.literal_child(segment), node.any) {
                (None, None) => break,
                (Some(only), None) | (None, Some(only)) => only,
                (Some(_), Some(_)) => return None,
            };
            (node, rest) = (&self.nodes[child], after);
        }
        Some(node)
    }

    /// The limits whose path matches, and whose other conditions may; one may occur twice.
    pub(super) fn candidates(&self, subject: &Subject<'_>) -> LimitIndices {
        self.collect_all(subject, false)
    }

    /// The same candidates, and one for each set of limits that would be if the caller were another:
    /// see `first_of_callers`.
    pub(super) fn candidates_for_anybody(&self, subject: &Subject<'_>) -> LimitIndices {
        self.collect_all(subject, true)
    }

    fn collect_all(&self, subject: &Subject<'_>, is_anybody: bool) -> LimitIndices {
        let mut found = LimitIndices::default();
        let segments = path::segments(subject.path);
        self.collect_below(&self.nodes[0], segments, subject, is_anybody, &mut found);
        found
    }

    /// Goes down the tree as far as the path reaches, at most as deep as the longest pattern.
    /// A literal child and `{name}` can both match a segment, so the way down may fork.
    #[inline]
    fn collect_below<'n>(
        &'n self,
        mut node: &'n Node,
        mut segments: Segments<'_>,
        subject: &Subject<'_>,
        is_anybody: bool,
        found: &mut LimitIndices,
    ) {
        loop {
            node.limits.collect(subject, found);
            if is_anybody {
                found.extend(&node.limits.first_of_callers);
            }
            if node.is_leaf {
                return;
            }
            let Some(segment) = segments.next() else {
                return;
            };
            let child = match (node.literal_child(segment.as_bytes()), node.any) {
                (None, None) => return,
                (Some(only), None) | (None, Some(only)) => only,
                (Some(literal), Some(any)) => {
                    self.collect_fork(literal, segments.clone(), subject, is_anybody, found);
                    any
                }
            };
            node = &self.nodes[child];
        }
    }

    /// One of two ways down.
    #[inline(never)]
    fn collect_fork(
        &self,
        node: usize,
        segments: Segments<'_>,
        subject: &Subject<'_>,
        is_anybody: bool,
        found: &mut LimitIndices,
    ) {
        self.collect_below(&self.nodes[node], segments, subject, is_anybody, found);
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
    /// The largest number of children that are compared one by one.
    const FEW: usize = 4;

    /// Notes what is known of the children once all of them are.
    fn list_children(&mut self) {
        self.is_leaf = self.literal.is_empty() && self.any.is_none();
        // With a child for any segment, the path may go on in two ways.
        if self.literal.len() <= Self::FEW && self.any.is_none() {
            let few = self.literal.iter();
            let few = few.map(|(text, child)| (text.as_bytes().into(), *child));
            self.few = few.collect();
        }
    }

    /// The child whose text the path goes on with, letter by letter, and the length of the text: few
    /// instructions for the usual case of few patterns that are sent as they were written. `None`
    /// says nothing: [`Node::literal_child`] finds them all.
    #[inline(always)]
    fn few_child(&self, path: &[u8]) -> Option<(usize, usize)> {
        self.few.iter().find_map(|(text, child)| {
            let is_text = path.len() >= text.len()
                && path.iter().zip(text).all(|(one, other)| one == other)
                && matches!(path.get(text.len()), None | Some(b'/'));
            is_text.then_some((*child, text.len()))
        })
    }

    /// The child whose text is a segment of a path, in either case.
    #[inline(never)]
    fn literal_child(&self, segment: &[u8]) -> Option<usize> {
        let segment = str::from_utf8(segment).ok()?;
        let literal = if segment.bytes().any(|byte| byte.is_ascii_uppercase()) {
            self.literal.get(segment.to_ascii_lowercase().as_str())
        } else {
            self.literal.get(segment)
        };
        literal.copied()
    }
}

impl NodeLimits {
    /// Keeps a limit under its hosts, else under the first header, entry or parameter with a value,
    /// else under its principals, else under the first claim with values, else in `others`.
    fn insert(&mut self, limit_index: usize, limit: &Limit, limits: &[Limit]) {
        let matching = &limit.matching;
        let had_conditions = std::mem::replace(&mut self.has_conditions, true);
        if !matching.hosts.is_empty() {
            for host in &matching.hosts {
                let limits = match host {
                    HostPattern::Exact(host) => self.by_host.entry(host.clone()),
                    HostPattern::Below(domain) => self.by_domain.entry(domain.clone()),
                };
                limits.or_default().push(limit_index);
            }
        } else if let Some((name, value)) = valued_header(matching) {
            insert_value(&mut self.by_header, name, value, limit_index);
        } else if let Some((name, value)) = valued_entry(matching) {
            insert_value(&mut self.by_descriptor, name, value, limit_index);
        } else if let Some((name, value)) = valued_parameter(matching) {
            insert_value(&mut self.by_query, name, value, limit_index);
        } else if let Some(ValueMatch::OneOf(ids)) = &matching.principal {
            for id in ids {
                let under_id = self.by_principal.entry(id.clone());
                under_id.or_default().push(limit_index);
            }
            self.note_first_of_callers(limit_index, limits);
        } else if let Some((name, values)) = valued_claim(matching) {
            for value in values {
                insert_value(&mut self.by_claim, name, value, limit_index);
            }
            self.note_first_of_callers(limit_index, limits);
        } else {
            self.others.push(limit_index);
            self.has_conditions = had_conditions;
        }
    }

    fn note_first_of_callers(&mut self, limit_index: usize, limits: &[Limit]) {
        let limit = &limits[limit_index];
        let is_alike = |first: &usize| {
            let first = &limits[*first];
            first.replaces == limit.replaces && first.matching.is_like(&limit.matching)
        };
        if limit.replaces.is_some() && !self.first_of_callers.iter().any(is_alike) {
            self.first_of_callers.push(limit_index);
        }
    }

    /// Adds the limits that a request may match.
    #[inline]
    fn collect(&self, subject: &Subject<'_>, found: &mut LimitIndices) {
        found.extend(&self.others);
        if self.has_conditions {
            self.collect_by_condition(subject, found);
        }
    }

    /// Adds the limits that are kept under a host, a header and so on.
    #[inline(never)]
    fn collect_by_condition(&self, subject: &Subject<'_>, found: &mut LimitIndices) {
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
            let limits =
                |name: &str, value: &str| self.by_descriptor.get(name)?.get(value.as_bytes());
            found.extend(
                entries
                    .filter_map(|(name, value)| limits(name, value))
                    .flatten(),
            );
        }
        for (name, values) in &self.by_query {
            if let QueryValue::One(text) = query::parameter(subject.query, name) {
                found.extend(values.get(&*text.decoded()).into_iter().flatten());
            }
        }
        if let Some(principal) = subject.principal {
            self.collect_of_caller(principal, found);
        }
    }

    /// Adds the limits that are kept under a verified caller or its claims.
    fn collect_of_caller(&self, principal: &Principal, found: &mut LimitIndices) {
        found.extend(self.by_principal.get(&principal.id).into_iter().flatten());
        for (name, values) in &self.by_claim {
            let Some(claim) = principal.claims.get(name) else {
                continue;
            };
            let limits = claim_values(claim).filter_map(|value| values.get(value.as_bytes()));
            found.extend(limits.flatten());
        }
    }
}

fn insert_value(by_value: &mut ByValue, name: &str, value: &str, limit_index: usize) {
    let values = by_value.entry(name.to_owned()).or_default();
    let limits = values.entry(value.as_bytes().to_vec());
    limits.or_default().push(limit_index);
}

fn valued_header(matching: &Match) -> Option<(&str, &str)> {
    let mut headers = matching.headers.iter();
    headers.find_map(|header| Some((header.name.as_str(), header.value.as_deref()?)))
}

fn valued_entry(matching: &Match) -> Option<(&str, &str)> {
    let mut entries = matching.descriptors.iter();
    entries.find_map(|entry| Some((entry.name.as_str(), entry.value.as_deref()?)))
}

fn valued_parameter(matching: &Match) -> Option<(&str, &str)> {
    let mut parameters = matching.query.iter();
    parameters.find_map(|wanted| Some((wanted.name.as_str(), wanted.value.as_deref()?)))
}

fn valued_claim(matching: &Match) -> Option<(&str, &[String])> {
    matching
        .claims
        .iter()
        .find_map(|claim| match &claim.values {
            ValueMatch::Any => None,
            ValueMatch::OneOf(values) => Some((claim.name.as_str(), values.as_slice())),
        })
}

#[cfg(test)]
mod tests;
