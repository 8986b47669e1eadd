//! The policy's index against a matcher that looks at every limit.

use proptest::prelude::*;
use sluicegate_core::{HeaderMatch, HeaderValue, Headers, Limit, Match, Policy, Quota, Subject};

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
struct Rule {
    /// `None` stands for any one segment.
    path: Vec<Option<&'static str>>,
    methods: Vec<&'static str>,
    /// The host; true means all hosts below it.
    hosts: Vec<(&'static str, bool)>,
    headers: Vec<(&'static str, Option<&'static str>)>,
    /// The index of an earlier limit, modulo this one's own index.
    replaces: Option<usize>,
}

impl Rule {
    fn limit(&self, place: usize) -> Limit {
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
        let limit = Limit::new(format!("limit-{place}"), Quota::per_second(1)).matching(matching);
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
        path && method && host && headers
    }

    /// The longest path, the most text in it, the most conditions, the first.
    fn rank(&self, place: usize) -> impl Ord + use<> {
        let text = self.path.iter().flatten().count();
        let conditions =
            usize::from(!self.methods.is_empty()) + usize::from(!self.hosts.is_empty());
        (
            self.path.len(),
            text,
            conditions + self.headers.len(),
            std::cmp::Reverse(place),
        )
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
        .filter(|place| rules[*place].covers(request))
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
struct Request {
    path: Vec<&'static str>,
    text: String,
    method: &'static str,
    host: Option<&'static str>,
    headers: Lines,
}

impl Request {
    fn subject(&self) -> Subject<'_> {
        let Self {
            text,
            method,
            host,
            headers,
            ..
        } = self;
        Subject {
            path: text,
            method,
            host: *host,
            headers,
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

fn method() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&["GET", "POST"][..])
}

fn rule() -> impl Strategy<Value = Rule> {
    (
        proptest::collection::vec(proptest::option::weighted(0.7, segment()), 0..4),
        proptest::collection::vec(method(), 0..2),
        proptest::collection::vec((host(), any::<bool>()), 0..3),
        proptest::collection::vec((header(), any::<bool>()), 0..3),
        proptest::option::weighted(0.6, 0_usize..12),
    )
        .prop_map(|(path, methods, hosts, headers, replaces)| Rule {
            path,
            methods,
            hosts: if hosts.len() == 2 { Vec::new() } else { hosts },
            headers: headers
                .into_iter()
                .map(|((name, value), any)| (name, (!any).then_some(value)))
                .collect(),
            replaces,
        })
}

fn request() -> impl Strategy<Value = Request> {
    (
        proptest::collection::vec(segment(), 0..5),
        method(),
        proptest::option::weighted(0.8, host()),
        proptest::collection::vec(header(), 0..3),
    )
        .prop_map(|(path, method, host, headers)| Request {
            text: format!("/{}", path.join("/")),
            path,
            method,
            host,
            headers: Lines(headers),
        })
}
