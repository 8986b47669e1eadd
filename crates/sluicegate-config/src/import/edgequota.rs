//! Import from EdgeQuota: one limit, its store, and the service that it asks for quotas.

use super::draft::{Draft, DraftLimit, DraftQuota, LimitLine, period_text, quoted};
use super::foreign_tree;
use crate::field::Field;
use crate::{Mistakes, Source, Syntax};

/// Sections that have no counterpart, or one of another kind.
const OTHER_SECTIONS: [(&str, &str); 3] = [
    (
        "auth",
        "callers are verified by `principals`, not by a service",
    ),
    (
        "events",
        "decisions are in the log, the metrics and the stream of the admin API",
    ),
    ("cache", "responses are not cached"),
];

/// Reads a configuration.
pub(super) fn draft(source: &Source) -> Result<Draft, Mistakes> {
    foreign_tree::read(source, Syntax::Yaml, |documents| {
        let file = documents.first()?;
        let Some(limits) = file.child("rate_limit") else {
            file.note("rate_limit is missing: expected a configuration of EdgeQuota");
            return None;
        };
        let mut draft = Draft::of_proxy(format!("The limit of {}, from EdgeQuota.", source.name));
        let external = limits
            .child("external")
            .filter(|field| field.flag_at("enabled", false));
        let (bucket, name) = match &external {
            Some(external) => (external.child("fallback"), "tenant"),
            None => (limits.child("static"), "static"),
        };
        let Some(bucket) = bucket else {
            let missing = if external.is_some() {
                "external.fallback"
            } else {
                "static"
            };
            limits.note(format!("{missing} is missing: average, burst and period"));
            return None;
        };
        write_upstream(&bucket, &mut draft);
        write_store(file, &limits, &mut draft);
        let mut limit = limit(&bucket, name, &source.name)?;
        set_key(&bucket, &mut limit, &mut draft);
        if let Some(external) = &external {
            limit.is_external = true;
            write_external(external, &mut draft);
        }
        draft.limits.push(limit);
        for (section, reason) in OTHER_SECTIONS {
            if file
                .child(section)
                .is_some_and(|field| field.flag_at("enabled", false))
            {
                draft.not_carried_over(format!("{section}: {reason}"));
            }
        }
        Some(draft)
    })
}

fn limit(bucket: &Field<'_>, name: &str, file: &str) -> Option<DraftLimit> {
    let count = bucket.whole_at("average").unwrap_or(0);
    let period = bucket
        .child("period")
        .map_or(Some(1_000), |field| field.go_duration())?;
    let quota = match count {
        0 => DraftQuota::Unlimited,
        count => DraftQuota::Bucket {
            count,
            period: period_text(period),
            burst: bucket.whole_at("burst").unwrap_or(1).max(1),
        },
    };
    Some(DraftLimit::new(
        name,
        format!("{file}:{}: {}", bucket.line(), bucket.path),
        quota,
    ))
}

/// `key_strategy`; by default the client's address.
fn set_key(bucket: &Field<'_>, limit: &mut DraftLimit, draft: &mut Draft) {
    let strategy = bucket.child("key_strategy");
    let text = |key: &str| strategy.as_ref().and_then(|field| field.text_at(key));
    let kind = text("type").unwrap_or_else(|| "clientIP".to_owned());
    let header = strategy
        .as_ref()
        .and_then(|field| field.child("header_name"));
    match (kind.to_ascii_lowercase().as_str(), &strategy, header) {
        ("clientip", ..) => limit.key = vec!["client_ip".to_owned()],
        ("global", ..) => {}
        ("header" | "composite", Some(strategy), header) => {
            let Some(header) = header else {
                strategy.note("header_name is missing: the header that holds the key");
                return;
            };
            let Some(name) = header.header_name() else {
                return;
            };
            limit.key = vec![format!("header:{name}")];
            if kind.eq_ignore_ascii_case("composite") && strategy.flag_at("path_prefix", false) {
                limit.key.push("path_segment:1".to_owned());
            }
        }
        _ => {
            if let Some(field) = strategy.as_ref().and_then(|field| field.child("type")) {
                field.note_with_value("expected clientIP, header, composite or global");
            }
        }
    }
    let Some(strategy) = strategy else {
        return;
    };
    let proxies = strategy.items("trusted_proxies");
    let list: Vec<String> = proxies
        .iter()
        .filter_map(|field| field.cidr())
        .map(|network| quoted(&network.to_string()))
        .collect();
    if !list.is_empty() {
        draft.line(
            "client_ip",
            format!("trusted_proxies: [{}]", list.join(", ")),
            &[],
        );
        limit.differs(
            LimitLine::Key,
            "EdgeQuota takes a fixed place of X-Forwarded-For (trusted_ip_depth); here trusted proxies are skipped from the right, which a client cannot forge",
        );
    }
    let hint = "as EdgeQuota counts; 64 is safer, because a subscriber usually has a whole /64";
    draft.line("client_ip", "ipv6_prefix: 128", &[hint.to_owned()]);
}

fn write_upstream(bucket: &Field<'_>, draft: &mut Draft) {
    let Some(url) = bucket.text_at("backend_url") else {
        return;
    };
    let authority = url
        .split_once("://")
        .map(|(_, rest)| rest.trim_end_matches('/'));
    match authority {
        Some(authority) if !authority.contains(['/', '@', '?']) => {
            draft.line(
                "proxy",
                format!("upstream: {}", quoted(url.trim_end_matches('/'))),
                &[],
            );
        }
        _ => draft.not_carried_over(format!(
            "{}.backend_url: an upstream has no path",
            bucket.path
        )),
    }
}

/// `redis` and `failure_policy`.
fn write_store(file: &Field<'_>, limits: &Field<'_>, draft: &mut Draft) {
    draft.line("store", "kind: redis", &[]);
    draft.line("store", "key_layout: edgequota", &[]);
    let policy = limits
        .text_at("failure_policy")
        .unwrap_or_else(|| "passThrough".to_owned());
    let code = limits.whole_at("failure_code").unwrap_or(429);
    // Only this policy rejects requests, so only it has a status.
    let on_failure = match policy.eq_ignore_ascii_case("failClosed") {
        true => format!("{{ policy: failClosed, status: {code} }}"),
        false => quoted(&policy),
    };
    draft.line("store", format!("on_failure: {on_failure}"), &[]);
    let redis = file.child("redis");
    let text = |key: &str| redis.as_ref().and_then(|field| field.text_at(key));
    let mut endpoints = redis
        .as_ref()
        .map(|field| field.texts("endpoints"))
        .unwrap_or_default();
    if endpoints.is_empty() {
        endpoints.push("localhost:6379".to_owned());
    }
    let list: Vec<String> = endpoints.iter().map(|endpoint| quoted(endpoint)).collect();
    let mode = match text("mode").as_deref() {
        None | Some("single") => "standalone".to_owned(),
        Some(mode) => mode.to_owned(),
    };
    let mut parts = vec![
        format!("mode: {}", quoted(&mode)),
        format!("endpoints: [{}]", list.join(", ")),
    ];
    if let Some(number) = redis
        .as_ref()
        .and_then(|field| field.whole_at("db"))
        .filter(|number| *number > 0)
    {
        parts.push(format!("database: {number}"));
    }
    if let Some(master) = text("master_name").filter(|_| mode == "sentinel") {
        parts.push(format!("sentinel: {{ master: {} }}", quoted(&master)));
    }
    let tls = redis.as_ref().and_then(|field| field.child("tls"));
    if tls.is_some_and(|field| field.flag_at("enabled", false)) {
        parts.push("tls: { enabled: true }".to_owned());
    }
    for key in ["username", "password"] {
        if text(key).is_some_and(|value| !value.is_empty()) {
            draft.not_carried_over(format!(
                "redis.{key}: name it in `store.redis`, with the password in a file (`password_file`)"
            ));
        }
    }
    draft.line("store", format!("redis: {{ {} }}", parts.join(", ")), &[]);
}

/// `rate_limit.external`: the same requests and responses here.
fn write_external(external: &Field<'_>, draft: &mut Draft) {
    let url = external
        .at(&["http", "url"])
        .and_then(|field| field.plain_text());
    let address = external
        .at(&["grpc", "address"])
        .and_then(|field| field.plain_text());
    match (
        url.filter(|url| !url.is_empty()),
        address.filter(|address| !address.is_empty()),
    ) {
        (Some(url), _) => draft.line(
            "external",
            format!("http: {{ url: {} }}", quoted(&url)),
            &[],
        ),
        (None, Some(address)) => {
            draft.line(
                "external",
                format!("grpc: {{ address: {} }}", quoted(&address)),
                &[],
            );
        }
        (None, None) => external.note("needs http.url or grpc.address"),
    }
    for key in ["timeout", "cache_ttl"] {
        if let Some(millis) = external.child(key).and_then(|field| field.go_duration()) {
            draft.line("external", format!("{key}: {millis}ms"), &[]);
        }
    }
    if let Some(count) = external.whole_at("max_concurrent_requests") {
        draft.line("external", format!("max_concurrent_requests: {count}"), &[]);
    }
    if external
        .text_at("failure_policy")
        .is_some_and(|policy| policy.eq_ignore_ascii_case("failclosed"))
    {
        draft.not_carried_over(format!(
            "{}.failure_policy: without the service the numbers of the limit apply",
            external.path
        ));
    }
}
