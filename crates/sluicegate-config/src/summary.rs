//! The configuration in sentences, for people who want to know what will be enforced.
//!
//! `sluicegate check` prints them, and the log has them at the start and after a reload. They say
//! the consequence and not the key: where requests go, where counters are, what each limit admits.

pub(crate) mod ban;
mod conditions;
pub(crate) mod cost;
mod counting;
mod external;
pub(crate) mod limit;
mod principals;
mod rejection;
mod replacement;
mod store;
mod traces;

use std::fmt::Display;

pub use ban::ban_in_words;
pub use cost::of as cost_in_words;
pub use counting::counted as counted_in_words;
pub use limit::numbers as quota_in_words;
pub use limit::numbers_at as limit_quota_in_words;
pub(crate) use rejection::{is_default, rejection};
pub(crate) use store::failure;
pub(crate) use traces::share_in_words;

use sluicegate_core::Limit;

use crate::typed::{
    AccessList, Config, Decisions, MemoryBudget, Proxy, Route, Upstream, UpstreamHttp,
};

impl Config {
    /// One sentence for each consequence: where requests come in and go, where counters are, and
    /// every limit.
    ///
    /// ```
    /// let config = sluicegate_config::load(&sluicegate_config::Source::embedded(), &|_| None).unwrap();
    /// let words = config.in_words();
    /// assert!(words.contains(
    ///     &"per-client: at most 20 requests at once and 10 a second, for each client address".to_owned()
    /// ));
    /// ```
    pub fn in_words(&self) -> Vec<String> {
        let mut words = Vec::new();
        match &self.proxy {
            Some(proxy) => words.extend(proxy_in_words(proxy)),
            None => words.push("the proxy is off".to_owned()),
        }
        words.extend(decisions_in_words(&self.decisions));
        match (self.admin.listen, &self.admin.token_file) {
            (None, _) => words.push("admin is off".to_owned()),
            (Some(at), None) => words.push(format!("admin listens at {at}, without a token")),
            (Some(at), Some(_)) => {
                words.push(format!("admin listens at {at} and asks for a token"))
            }
        }
        words.push(memory_in_words(self.overload.memory));
        words.extend(store::in_words(&self.store));
        words.extend(principals::in_words(&self.principals));
        words.extend(list_in_words(&self.access.deny, "get 403"));
        words.extend(list_in_words(&self.access.allow, "are never limited"));
        words.extend(
            self.external
                .iter()
                .flat_map(|external| external::in_words(external, self)),
        );
        words.extend(self.traces.iter().flat_map(traces::in_words));
        words.extend(
            self.switched_off
                .iter()
                .filter_map(|path| off_in_words(path)),
        );
        words.extend(rejection::of_all(self));
        if self.policy.limits().is_empty() {
            words.push("there are no limits: every request passes".to_owned());
        }
        for limit in self.policy.limits() {
            words.extend(limit::in_words(limit, self));
        }
        let off = |limit: &Limit| format!("{} is off: neither enforced nor counted", limit.name);
        words.extend(self.policy.disabled().iter().map(off));
        words
    }
}

/// The memory that the process may use.
fn memory_in_words(memory: MemoryBudget) -> String {
    match memory {
        MemoryBudget::Unlimited => "the process may use any amount of memory".to_owned(),
        MemoryBudget::Bytes(_) => format!(
            "the process may use {memory} of memory: near that, connections are refused and closed"
        ),
        MemoryBudget::Percent(_) => format!(
            "the process may use {memory} of the memory that there is: near that, connections are refused and closed"
        ),
    }
}

/// A section that is turned off, unless another sentence says so already.
fn off_in_words(path: &str) -> Option<String> {
    match path {
        "proxy" | "decisions" | "admin" => None,
        "external" => Some(
            "external is off: limits that would ask the limits service have their own numbers"
                .to_owned(),
        ),
        path => Some(format!("{path} is off")),
    }
}

/// The listeners of the proxy and its routes.
fn proxy_in_words(proxy: &Proxy) -> Vec<String> {
    let tls = if proxy.tls.is_some() { " with TLS" } else { "" };
    let mut words = vec![format!("the proxy listens at {}{tls}", and(&proxy.listen))];
    if !proxy.proxy_protocol_from.is_empty() {
        words.push(format!(
            "{} must speak the PROXY protocol",
            and(&proxy.proxy_protocol_from)
        ));
    }
    if proxy.max_connections_per_client.is_none() {
        words.push("one client address may hold all connections of the proxy".to_owned());
    }
    let rest = if proxy.routes.len() == 1 {
        "all requests"
    } else {
        "all other requests"
    };
    words.extend(proxy.routes.iter().map(|route| route_in_words(route, rest)));
    words
}

/// The listeners of the decision service, with what callers must show.
fn decisions_in_words(decisions: &Decisions) -> Vec<String> {
    let tls = if decisions.tls.is_some() {
        " with TLS"
    } else {
        ""
    };
    let asks_for_certificates = decisions
        .tls
        .as_ref()
        .is_some_and(|tls| tls.client_ca_file.is_some());
    let token = match (decisions.token_file.is_some(), asks_for_certificates) {
        (true, true) => ", with a certificate and a token",
        (true, false) => ", with a token",
        (false, true) => ", with a certificate",
        (false, false) => ", without a token",
    };
    let protocols = [
        ("HTTP", decisions.http),
        ("gRPC", decisions.grpc),
        ("the Redis protocol", decisions.resp),
    ];
    let endpoints = protocols
        .into_iter()
        .filter_map(|(protocol, address)| Some((protocol, address?)));
    let mut words: Vec<String> = endpoints
        .map(|(protocol, at)| {
            format!("decisions over {protocol} are asked for at {at}{tls}{token}")
        })
        .collect();
    if words.is_empty() {
        words.push("the decision service is off".to_owned());
    }
    words
}

/// A route; `rest` names the requests of the last one.
fn route_in_words(route: &Route, rest: &str) -> String {
    let what = match (&route.host, &route.path) {
        (None, None) => rest.to_owned(),
        (Some(host), None) => format!("requests for {host}"),
        (None, Some(path)) => format!("requests below {path}"),
        (Some(host), Some(path)) => format!("requests for {host} below {path}"),
    };
    format!(
        "{what} go to {}",
        and(&route
            .upstreams
            .iter()
            .map(upstream_in_words)
            .collect::<Vec<_>>())
    )
}

/// A server as a URL, with the scheme of its HTTP version.
pub(crate) fn upstream_in_words(upstream: &Upstream) -> String {
    match upstream {
        Upstream::Echo => "the built-in echo".to_owned(),
        Upstream::Server {
            tls,
            host,
            port,
            http,
            ..
        } => {
            let scheme = match (http, tls) {
                (UpstreamHttp::Http2, false) => "h2c",
                (UpstreamHttp::Http2, true) => "h2",
                (_, false) => "http",
                (_, true) => "https",
            };
            let host = if host.contains(':') {
                format!("[{host}]")
            } else {
                host.clone()
            };
            format!("{scheme}://{host}:{port}")
        }
    }
}

/// The callers of an access list and what happens to them.
fn list_in_words(list: &AccessList, what: &str) -> Vec<String> {
    let mut words = Vec::new();
    if !list.cidrs.is_empty() {
        words.push(format!("clients of {} {what}", and(&list.cidrs)));
    }
    if !list.keys.is_empty() {
        words.push(format!("the principals {} {what}", and(&list.keys)));
    }
    words
}

/// `a, b and c`
pub(crate) fn and(things: &[impl Display]) -> String {
    joined(things, "and")
}

/// `a, b or c`
pub(crate) fn joined(things: &[impl Display], last_with: &str) -> String {
    let words: Vec<String> = things.iter().map(ToString::to_string).collect();
    match words.as_slice() {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} {last_with} {last}", first.join(", ")),
    }
}
