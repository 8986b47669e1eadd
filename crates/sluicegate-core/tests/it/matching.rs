//! The policy's index against a matcher that looks at every limit.

use proptest::prelude::*;
use sluicegate_core::{
    ClaimMatch, HeaderMatch, HeaderValue, Headers, Limit, Match, OnMissingKey, Policy, Principal,
    QueryMatch, Quota, Subject, ValueMatch,
};

use crate::cases::cases;

proptest! {
    #![proptest_config(cases(4_000))]

    #[test]
    fn the_index_finds_what_a_look_at_every_limit_finds(
        rules in proptest::collection::vec(rule(), 1..12), requests in proptest::collection::vec(request(), 1..12),
    ) {
        let policy = Policy::new(rules.iter().enumerate().map(|(place, rule)| rule.limit(place))).unwrap();
        for request in &requests {
            let found: Vec<usize> = policy.covering(&request.subject()).to_vec();
            prop_assert_eq!(found, covering(&rules, request), "{:?}", request);
        }
    }

    /// Exactly one of several limits that replace one another is charged: no request goes
    /// uncounted, none is counted twice.
    #[test]
    fn exactly_one_of_a_family_counts(
        mut rules in proptest::collection::vec(rule(), 1..12), request in request(),
    ) {
        let mut base = Rule::default();
        std::mem::swap(&mut rules[0], &mut base);
        for (place, rule) in rules.iter_mut().enumerate().skip(1) {
            rule.replaces = Some(rule.replaces.unwrap_or(0) % place);
        }
        let policy = Policy::new(rules.iter().enumerate().map(|(place, rule)| rule.limit(place))).unwrap();
        prop_assert_eq!(policy.covering(&request.subject()).len(), 1);
    }
}

/// A limit's conditions, in plain data.
#[derive(Clone, Debug, Default)]
pub struct Rule {
    /// `None` stands for any one segment.
    path: Vec<Option<&'static str>>,
    methods: Vec<&'static str>,
    /// The host; true means all hosts below it.
    hosts: Vec<(&'static str, bool)>,
    headers: Vec<(&'static str, Option<&'static str>)>,
    query: Vec<(&'static str, Option<&'static str>)>,
    /// Empty for any id.
    principal: Option<Vec<&'static str>>,
    /// Empty for any value.
    claims: Vec<(&'static str, Vec<&'static str>)>,
    /// The index of an earlier limit, modulo this one's own index.
    pub replaces: Option<usize>,
    /// The part of the key, and what becomes of requests without it; `None` counts all together.
    pub key: Option<(&'static str, OnMissingKey)>,
}

impl Rule {
    pub fn limit(&self, place: usize) -> Limit {
        let segments: Vec<&str> = self
            .path
            .iter()
            .map(|segment| segment.unwrap_or("{any}"))
            .collect();
        let mut matching = Match::path(&format!("/{}", segments.join("/")))
            .unwrap()
            .methods(self.methods.clone());
        for (host, below) in &self.hosts {
            matching = matching
                .host(&format!("{}{host}", if *below { "*." } else { "" }))
                .unwrap();
        }
        let header = |(name, value): &(&str, Option<&str>)| HeaderMatch {
            name: (*name).to_owned(),
            value: value.map(str::to_owned),
        };
        matching.headers = self.headers.iter().map(header).collect();
        let parameter = |(name, value): &(&str, Option<&str>)| QueryMatch {
            name: (*name).to_owned(),
            value: value.map(str::to_owned),
        };
        matching.query = self.query.iter().map(parameter).collect();
        let values = |values: &Vec<&str>| match values.is_empty() {
            true => ValueMatch::Any,
            false => ValueMatch::one_of(values.clone()),
        };
        matching.principal = self.principal.as_ref().map(values);
        let claim = |(name, wanted): &(&str, Vec<&str>)| ClaimMatch {
            name: (*name).to_owned(),
            values: values(wanted),
        };
        matching.claims = self.claims.iter().map(claim).collect();
        let mut limit =
            Limit::new(format!("limit-{place}"), Quota::per_second(1)).matching(matching);
        if let Some((part, rule)) = self.key {
            limit = limit.key([part.parse().unwrap()]).on_missing_key(rule);
        }
        match self.replaced(place) {
            Some(replaced) => limit.replaces(format!("limit-{replaced}")),
            None => limit,
        }
    }

    fn replaced(&self, place: usize) -> Option<usize> {
        self.replaces
            .filter(|_| place > 0)
            .map(|replaced| replaced % place)
    }

    fn covers(&self, request: &Request) -> bool {
        let path = self.path.len() <= request.path.len()
            && self
                .path
                .iter()
                .zip(&request.path)
                .all(|(own, request)| own.is_none_or(|own| own == *request));
        let method = self.methods.is_empty() || self.methods.contains(&request.method);
        let host = self.hosts.is_empty()
            || request.host.is_some_and(|request| {
                self.hosts.iter().any(|(host, below)| match below {
                    true => request.ends_with(&format!(".{host}")),
                    false => request == *host,
                })
            });
        let headers = self.headers.iter().all(|(name, value)| {
            let lines: Vec<&str> = request
                .headers
                .0
                .iter()
                .filter(|(own, _)| own == name)
                .map(|(_, value)| *value)
                .collect();
            match value {
                Some(value) => lines == [*value],
                None => !lines.is_empty(),
            }
        });
        let query = self.query.iter().all(|(name, value)| {
            let pairs = request.pairs.iter().filter(|(own, _)| own == name);
            let values: Vec<&str> = pairs.map(|(_, value)| *value).collect();
            match value {
                Some(value) => values == [*value],
                None => !values.is_empty(),
            }
        });
        path && method && host && headers && query && self.covers_caller(request)
    }

    fn covers_caller(&self, request: &Request) -> bool {
        let has = |wanted: &Vec<&str>, value: &str| wanted.is_empty() || wanted.contains(&value);
        let known = request.principal.as_ref();
        let principal = self
            .principal
            .as_ref()
            .is_none_or(|wanted| known.is_some_and(|known| has(wanted, &known.id)));
        let claims = self.claims.iter().all(|(name, wanted)| {
            let claim = known.and_then(|known| known.claims.get(*name));
            claim.is_some_and(|claim| claim.split(',').any(|value| has(wanted, value)))
        });
        principal && claims
    }

    /// A limit that is skipped takes nobody's place.
    fn is_in_force(&self, place: usize, request: &Request) -> bool {
        let is_skipped = match self.key {
            Some((part, OnMissingKey::Skip)) => !request.has(part),
            _ => false,
        };
        self.covers(request) && !(is_skipped && self.replaced(place).is_some())
    }

    /// The longest path, the most text in it, the most conditions, the first.
    fn rank(&self, place: usize) -> impl Ord + use<> {
        let text = self.path.iter().flatten().count();
        let conditions = usize::from(!self.methods.is_empty())
            + usize::from(!self.hosts.is_empty())
            + usize::from(self.principal.is_some())
            + self.headers.len()
            + self.query.len()
            + self.claims.len();
        (self.path.len(), text, conditions, std::cmp::Reverse(place))
    }
}

/// Every limit that matches, unless another that matches replaces it, directly or in a chain, or
/// unless a better one replaces the same limit.
fn covering(rules: &[Rule], request: &Request) -> Vec<usize> {
    let chain = |place: usize| {
        std::iter::successors(rules[place].replaced(place), |next| {
            rules[*next].replaced(*next)
        })
    };
    let base = |place: usize| chain(place).last().unwrap_or(place);
    let matched: Vec<usize> = (0..rules.len())
        .filter(|place| rules[*place].is_in_force(*place, request))
        .collect();
    let left: Vec<usize> = matched
        .iter()
        .copied()
        .filter(|place| {
            !matched
                .iter()
                .any(|other| chain(*other).any(|replaced| replaced == *place))
        })
        .collect();
    let best = |place: usize| {
        let rivals = left
            .iter()
            .copied()
            .filter(|other| base(*other) == base(place));
        rivals.max_by_key(|rival| rules[*rival].rank(*rival)) == Some(place)
    };
    left.iter().copied().filter(|place| best(*place)).collect()
}

#[derive(Clone, Debug)]
pub struct Request {
    path: Vec<&'static str>,
    text: String,
    method: &'static str,
    host: Option<&'static str>,
    headers: Lines,
    pairs: Vec<(&'static str, &'static str)>,
    query: String,
    pub principal: Option<Principal>,
}

impl Request {
    /// True when the request has this part of a key.
    fn has(&self, part: &str) -> bool {
        let known = self.principal.as_ref();
        match part.split_once(':') {
            Some(("header", name)) => {
                let lines = self.headers.0.iter().filter(|(own, _)| *own == name);
                lines.count() == 1
            }
            Some((_, claim)) => known.is_some_and(|known| known.claims.contains_key(claim)),
            None => known.is_some(),
        }
    }

    pub fn subject(&self) -> Subject<'_> {
        let Self {
            text,
            method,
            host,
            headers,
            query,
            principal,
            ..
        } = self;
        Subject {
            path: text,
            method,
            host: *host,
            headers,
            query: Some(query),
            principal: principal.as_ref(),
            ..Subject::ANONYMOUS
        }
    }
}

/// Lines of headers, behind a trait object.
#[derive(Clone, Debug)]
struct Lines(Vec<(&'static str, &'static str)>);

impl Headers for Lines {
    fn get(&self, name: &str) -> HeaderValue<'_> {
        Headers::get(self.0.as_slice(), name)
    }

    fn each_line<'a>(&'a self, name: &str, see: &mut dyn FnMut(&'a [u8])) {
        Headers::each_line(self.0.as_slice(), name, see);
    }
}

fn segment() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&["a", "b", "ab"][..])
}

fn host() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&["example", "a.example", "b.a.example", "xa.example"][..])
}

fn header() -> impl Strategy<Value = (&'static str, &'static str)> {
    (
        prop::sample::select(&["x-a", "x-b"][..]),
        prop::sample::select(&["1", "2"][..]),
    )
}

fn parameter() -> impl Strategy<Value = (&'static str, &'static str)> {
    (
        prop::sample::select(&["q", "r"][..]),
        prop::sample::select(&["1", "a b", "a+b", ""][..]),
    )
}

/// A pair of a query, with every letter that is not plain escaped, and perhaps some that are.
fn pair_text((name, value): (&str, &str), escapes_all: bool) -> String {
    let escaped = value.bytes().map(|byte| match byte {
        b' ' if !escapes_all => "+".to_owned(),
        plain if plain.is_ascii_alphanumeric() && !escapes_all => char::from(plain).into(),
        other => format!("%{other:02x}"),
    });
    format!("{name}={}", escaped.collect::<String>())
}

fn id() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&["ann", "bob"][..])
}

fn claim() -> impl Strategy<Value = (&'static str, &'static str)> {
    (
        prop::sample::select(&["plan", "team"][..]),
        prop::sample::select(&["gold", "blue"][..]),
    )
}

/// A verified caller, whose claims are one value or a list of two.
fn principal() -> impl Strategy<Value = Principal> {
    let claims = proptest::collection::vec(claim(), 0..3);
    (id(), claims).prop_map(|(id, claims)| {
        let mut principal = Principal::new(id);
        for (name, value) in claims {
            let known = principal.claims.entry(name.to_owned()).or_default();
            let comma = if known.is_empty() { "" } else { "," };
            *known += &format!("{comma}{value}");
        }
        principal
    })
}

fn method() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&["GET", "POST"][..])
}

/// Parts that only some requests have, and what becomes of the others.
fn key() -> impl Strategy<Value = (&'static str, OnMissingKey)> {
    (
        prop::sample::select(&["header:x-a", "principal", "claim:plan"][..]),
        prop::sample::select(&[OnMissingKey::Skip, OnMissingKey::Shared][..]),
    )
}

pub fn rule() -> impl Strategy<Value = Rule> {
    (
        proptest::collection::vec(proptest::option::weighted(0.7, segment()), 0..4),
        proptest::collection::vec(method(), 0..2),
        proptest::collection::vec((host(), any::<bool>()), 0..3),
        proptest::collection::vec((header(), any::<bool>()), 0..3),
        proptest::option::weighted(0.6, 0_usize..12),
        proptest::collection::vec((parameter(), any::<bool>()), 0..2),
        proptest::option::weighted(0.3, proptest::collection::vec(id(), 0..3)),
        proptest::collection::vec((claim(), any::<bool>()), 0..2),
        proptest::option::weighted(0.4, key()),
    )
        .prop_map(
            |(path, methods, hosts, headers, replaces, query, principal, claims, key)| Rule {
                query: query
                    .into_iter()
                    .map(|((name, value), any)| (name, (!any).then_some(value)))
                    .collect(),
                principal,
                key,
                claims: claims
                    .into_iter()
                    .map(|((name, value), any)| (name, if any { Vec::new() } else { vec![value] }))
                    .collect(),
                path,
                methods,
                hosts: if hosts.len() == 2 { Vec::new() } else { hosts },
                headers: headers
                    .into_iter()
                    .map(|((name, value), any)| (name, (!any).then_some(value)))
                    .collect(),
                replaces,
            },
        )
}

pub fn request() -> impl Strategy<Value = Request> {
    (
        proptest::collection::vec(segment(), 0..5),
        method(),
        proptest::option::weighted(0.8, host()),
        proptest::collection::vec(header(), 0..3),
        proptest::collection::vec((parameter(), any::<bool>()), 0..3),
        proptest::option::of(principal()),
    )
        .prop_map(|(path, method, host, headers, query, principal)| Request {
            pairs: query.iter().map(|(pair, _)| *pair).collect(),
            query: query
                .iter()
                .map(|(pair, escapes_all)| pair_text(*pair, *escapes_all))
                .collect::<Vec<_>>()
                .join("&"),
            principal,
            text: format!("/{}", path.join("/")),
            path,
            method,
            host,
            headers: Lines(headers),
        })
}
