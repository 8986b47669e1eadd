//! Import from Traefik: `rateLimit` middlewares, and the routers that use them.
//!
//! Each router has its own instance of a middleware, and each request goes to one router: the one
//! with the highest priority, by default the longest rule. So each router becomes a scope. Files
//! of the file provider and objects of Kubernetes are brought to the same two lists first.

mod objects;
mod rule;

use super::cover::Cover;
use super::draft::{Draft, DraftLimit, DraftQuota, LimitLine, period_text, quoted};
use super::foreign_tree;
use super::scope::{SCOPES_MAX, Scope, ScopedLimit, lay_out};
use crate::field::Field;
use crate::{Mistakes, Source, Syntax};
use objects::{Objects, Router};

/// Reads a file in YAML or TOML, by its name.
pub(super) fn draft(source: &Source) -> Result<Draft, Mistakes> {
    let syntax = Syntax::of_file(&source.name).unwrap_or_default();
    foreign_tree::read(source, syntax, |documents| {
        let mut importer = Importer {
            draft: Draft::of_proxy(format!("The limits of {}, from Traefik.", source.name)),
            name: &source.name,
            ipv6_prefix: None,
            trusted_proxies: Vec::new(),
        };
        let objects = Objects::read(documents);
        let scopes = importer.scopes(&objects)?;
        importer.write_addresses();
        lay_out(scopes, &mut importer.draft);
        Some(importer.draft)
    })
}

/// The reading of a file.
struct Importer<'a> {
    draft: Draft,
    name: &'a str,
    /// `ipv6Subnet` of an IP strategy.
    ipv6_prefix: Option<u64>,
    trusted_proxies: Vec<String>,
}

impl Importer<'_> {
    fn scopes(&mut self, objects: &Objects<'_>) -> Option<Vec<Scope>> {
        let mut scopes = Vec::new();
        for router in &objects.routers {
            let limits = self.limits_of(router, objects);
            let read = match rule::read(&router.rule) {
                Ok(read) => read,
                Err(message) => {
                    router.field.note(format!("rule: {message}"));
                    continue;
                }
            };
            if read.is_wider && limits.is_empty() {
                self.draft.differs(format!(
                    "requests of the router {} have no limit in Traefik; here a limit cannot match its rule, so those around it apply",
                    router.name
                ));
                continue;
            }
            let length = i64::try_from(router.rule.len()).unwrap_or(i64::MAX);
            // A scope that is too wide must not take requests from the others.
            let preference = match read.is_wider {
                true => -1,
                false => router.priority.unwrap_or(length),
            };
            for cover in &read.covers {
                let mut limits = limits.clone();
                for scoped in &mut limits {
                    for difference in &read.differences {
                        scoped.limit.differs(LimitLine::Match, difference);
                    }
                }
                scopes.push(Scope {
                    preference: (preference, cover.narrowness()),
                    cover: cover.clone(),
                    label: format!("router {}", router.name),
                    limits,
                });
            }
        }
        if scopes.len() > SCOPES_MAX {
            objects
                .first
                .note(format!("has more than {SCOPES_MAX} routers"));
            return None;
        }
        self.add_unused(objects, &mut scopes);
        self.note_in_flight(objects);
        Some(scopes)
    }

    /// Middlewares that no router of the file names cover everything, and say so.
    fn add_unused(&mut self, objects: &Objects<'_>, scopes: &mut Vec<Scope>) {
        let is_named = |name: &String| {
            objects.routers.iter().any(|router| {
                let used = objects.middlewares_of(&router.middlewares);
                used.iter().any(|(own, _)| own == name)
            })
        };
        let mut limits = Vec::new();
        for (name, field) in &objects.middlewares {
            if is_named(name) {
                continue;
            }
            let Some(mut scoped) = self.limit(name, field, "") else {
                continue;
            };
            scoped.limit.differs(
                LimitLine::Match,
                "no router in this file names the middleware, so that it covers all requests here",
            );
            limits.push(scoped);
        }
        if limits.is_empty() {
            return;
        }
        match scopes
            .iter_mut()
            .find(|scope| scope.cover == Cover::default())
        {
            Some(scope) => scope.limits.extend(limits),
            None => scopes.push(Scope {
                cover: Cover::default(),
                label: "middlewares without a router".to_owned(),
                preference: (-1, 0),
                limits,
            }),
        }
    }

    /// The limits of a router: its `rateLimit` middlewares, also those in chains.
    fn limits_of(&mut self, router: &Router<'_>, objects: &Objects<'_>) -> Vec<ScopedLimit> {
        let mut limits = Vec::new();
        for (name, field) in objects.middlewares_of(&router.middlewares) {
            limits.extend(self.limit(&name, &field, &router.name));
        }
        for name in objects.unknown_of(&router.middlewares) {
            self.draft.not_carried_over(format!(
                "router {}: the middleware {name} is not in this file",
                router.name
            ));
        }
        limits
    }

    /// A `rateLimit` as a limit of ours; `None` for other middlewares.
    fn limit(&mut self, name: &str, middleware: &Field<'_>, router: &str) -> Option<ScopedLimit> {
        let field = middleware.child("rateLimit")?;
        let average = field.whole_at("average").unwrap_or(0);
        let period = field
            .child("period")
            .map_or(Some(1_000), |field| field.go_duration())?;
        let burst = field.whole_at("burst").unwrap_or(1).max(1);
        let quota = match average {
            0 => DraftQuota::Unlimited,
            count => DraftQuota::Bucket {
                count,
                period: period_text(period),
                burst,
            },
        };
        let place = format!("{}:{}: middleware {name}", self.name, middleware.line());
        let origin = match router {
            "" => place,
            router => format!("{place} of router {router}"),
        };
        let mut limit = DraftLimit::new(name, origin, quota);
        self.set_key(&mut limit, &field);
        if average > 0 {
            let early = half_interval(average, period);
            limit.differs(
                LimitLine::Burst,
                format!("Traefik delays a request that comes at most {early} too early; here it is rejected with 429"),
            );
        }
        if field.child("redis").is_some() {
            self.draft.not_carried_over(format!(
                "{}: redis: set `store.kind: redis` and `store.redis` to share counters",
                field.path
            ));
        }
        Some(ScopedLimit {
            family: format!("{name} of {router}"),
            is_shared: true,
            limit,
            except: Vec::new(),
        })
    }

    /// `sourceCriterion` as a key; by default the address of the peer.
    fn set_key(&mut self, limit: &mut DraftLimit, field: &Field<'_>) {
        let criterion = field.child("sourceCriterion");
        let criterion = criterion.as_ref();
        if let Some(header) = criterion.and_then(|field| field.child("requestHeaderName"))
            && let Some(name) = header.header_name()
        {
            limit.key = vec![format!("header:{name}")];
            limit.on_missing_key = Some("shared");
            return;
        }
        if criterion.is_some_and(|field| field.flag_at("requestHost", false)) {
            limit.key = vec!["host".to_owned()];
            return;
        }
        limit.key = vec!["client_ip".to_owned()];
        let Some(strategy) = criterion.and_then(|field| field.child("ipStrategy")) else {
            return;
        };
        let depth = strategy.whole_at("depth").unwrap_or(0);
        let excluded = strategy.items("excludedIPs");
        for network in excluded.iter().filter_map(|field| field.cidr()) {
            let network = network.to_string();
            if !self.trusted_proxies.contains(&network) {
                self.trusted_proxies.push(network);
            }
        }
        if depth > 0 {
            limit.differs(
                LimitLine::Key,
                format!("Traefik takes address number {depth} from the right of X-Forwarded-For; here the addresses of `client_ip.trusted_proxies` are skipped from the right, and without any the peer is counted"),
            );
        }
        if let Some(subnet) = strategy.whole_at("ipv6Subnet") {
            self.ipv6_prefix = Some(subnet.min(128));
        }
    }

    /// `inFlightReq` middlewares have no counterpart.
    fn note_in_flight(&mut self, objects: &Objects<'_>) {
        for (name, field) in &objects.middlewares {
            if let Some(in_flight) = field.child("inFlightReq") {
                self.draft.not_carried_over(format!(
                    "{}:{}: middleware {name}: inFlightReq: requests in flight are not counted per caller",
                    self.name,
                    in_flight.line()
                ));
            }
        }
    }

    fn write_addresses(&mut self) {
        if !self.trusted_proxies.is_empty() {
            let list: Vec<String> = self
                .trusted_proxies
                .iter()
                .map(|proxy| quoted(proxy))
                .collect();
            self.draft.differing_line(
                "client_ip",
                format!("trusted_proxies: [{}]", list.join(", ")),
                "excludedIPs are skipped for one middleware in Traefik, here for all limits; the peer must be one of them",
            );
        }
        let hint = "as Traefik counts; 64 is safer, because a subscriber usually has a whole /64";
        let (prefix, hint) = match self.ipv6_prefix {
            Some(prefix) => (prefix, Vec::new()),
            None => (128, vec![hint.to_owned()]),
        };
        self.draft
            .line("client_ip", format!("ipv6_prefix: {prefix}"), &hint);
    }
}

/// Half the time between two units, at most half a second: how long Traefik lets a request wait.
fn half_interval(average: u64, period_millis: u64) -> String {
    let micros = period_millis.saturating_mul(500) / average.max(1);
    match micros.min(500_000) {
        micros if micros >= 1_000 => format!("{} ms", micros / 1_000),
        micros => format!("{micros} µs"),
    }
}
