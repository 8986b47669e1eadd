//! Import from EdgeGuard: the limit of each address, of routes, and of each principal.
//!
//! Both programs count by GCRA, so the numbers mean the same.

use super::cover::Cover;
use super::draft::{Draft, DraftLimit, DraftQuota, LimitLine, quoted};
use super::foreign_tree;
use crate::field::Field;
use crate::{Mistakes, Source, Syntax};

/// Reads a configuration in TOML.
pub(super) fn draft(source: &Source) -> Result<Draft, Mistakes> {
    foreign_tree::read(source, Syntax::Toml, |documents| {
        let file = documents.first()?;
        let Some(limits) = file.child("ratelimit") else {
            file.note("[ratelimit] is missing: expected a configuration of EdgeGuard");
            return None;
        };
        let mut draft = Draft::of_proxy(format!("The limits of {}, from EdgeGuard.", source.name));
        write_server(file, &mut draft);
        if !limits.flag_at("enabled", true) {
            draft.differs("[ratelimit] is not enabled, so there is no limit".to_owned());
            return Some(draft);
        }
        write_store(&limits, &mut draft);
        let origin =
            |field: &Field<'_>| format!("{}:{}: {}", source.name, field.line(), field.path);
        let mut base = DraftLimit::new("per-ip", origin(&limits), quota(&limits, "60/min", 20)?);
        base.key = vec!["client_ip".to_owned()];
        draft.limits.push(base);
        for route in limits.items("routes") {
            add_route(&route, origin(&route), &mut draft);
        }
        if let Some(per_key) = limits
            .child("per_key")
            .filter(|field| field.flag_at("enabled", false))
        {
            let quota = quota(&per_key, "1000/hour", 100)?;
            let mut limit = DraftLimit::new("per-key", origin(&per_key), quota);
            limit.key = vec!["principal".to_owned()];
            limit.differs(
                LimitLine::Key,
                "EdgeGuard knows callers by [auth]; here `principals` verifies them, and until it is set the limit is skipped",
            );
            draft.limits.push(limit);
        }
        Some(draft)
    })
}

/// `[[ratelimit.routes]]`: takes the place of the limit of each address below a path.
fn add_route(route: &Field<'_>, origin: String, draft: &mut Draft) {
    let Some(path) = route.text_at("path") else {
        route.note("path is missing: the paths that the route covers");
        return;
    };
    let Some(cover) = Cover::of_path(&path) else {
        draft.not_carried_over(format!("{origin}: a limit cannot match {path:?}"));
        return;
    };
    let Some(quota) = quota(route, "60/min", 20) else {
        return;
    };
    let name = draft.free_name(&format!("route-{}", cover.words()));
    let mut limit = DraftLimit::new(name, origin, quota);
    limit.key = vec!["client_ip".to_owned()];
    limit.replaces = Some("per-ip".to_owned());
    limit.cover = cover;
    if !path.ends_with('/') {
        limit.differs(
            LimitLine::Match,
            "EdgeGuard compares letters in paths; here whole segments match",
        );
    }
    draft.limits.push(limit);
}

/// `rate = "60/min"` and `burst`; `None` when the rate is wrong, which is noted.
fn quota(field: &Field<'_>, rate: &str, burst: u64) -> Option<DraftQuota> {
    let text = field.text_at("rate").unwrap_or_else(|| rate.to_owned());
    let read = text.split_once('/').and_then(|(count, unit)| {
        let period = match unit.trim() {
            "s" | "sec" | "second" => "s",
            "m" | "min" | "minute" => "m",
            "h" | "hour" => "h",
            _ => return None,
        };
        let count = count
            .trim()
            .parse::<u32>()
            .ok()
            .filter(|count| *count > 0)?;
        Some((u64::from(count), period))
    });
    let Some((count, period)) = read else {
        let place = field.child("rate").unwrap_or_else(|| field.clone());
        place.note_with_value("expected N/sec, N/min or N/hour");
        return None;
    };
    Some(DraftQuota::Bucket {
        count,
        period: period.to_owned(),
        burst: field.whole_at("burst").unwrap_or(burst).max(1),
    })
}

/// Where requests go, and whose word counts for the client's address.
fn write_server(file: &Field<'_>, draft: &mut Draft) {
    let hint = "as EdgeGuard counts; 64 is safer, because a subscriber usually has a whole /64";
    draft.line("client_ip", "ipv6_prefix: 128", &[hint.to_owned()]);
    if file
        .at(&["auth", "mode"])
        .and_then(|field| field.plain_text())
        .is_some_and(|mode| mode != "none")
    {
        draft.not_carried_over("[auth]: callers are verified by `principals`".to_owned());
    }
    let Some(server) = file.child("server") else {
        return;
    };
    let local = server
        .whole_at("app_port")
        .map(|port| format!("http://127.0.0.1:{port}"));
    if let Some(url) = server.text_at("upstream").or(local) {
        draft.line(
            "proxy",
            format!("upstream: {}", quoted(url.trim_end_matches('/'))),
            &[],
        );
    }
    if server.flag_at("trust_forwarded_for", false) {
        draft.differs("trust_forwarded_for believes X-Forwarded-For of everybody; here only proxies in `client_ip.trusted_proxies` are believed, so name yours".to_owned());
    }
}

/// `store`, `redis_url`, `redis_prefix` and `fail_open`.
fn write_store(limits: &Field<'_>, draft: &mut Draft) {
    if limits.text_at("store").as_deref() != Some("redis") {
        draft.line("store", "kind: local", &[]);
        return;
    }
    draft.line("store", "kind: redis", &[]);
    draft.line("store", "key_layout: edgeguard", &[]);
    let prefix = limits
        .text_at("redis_prefix")
        .unwrap_or_else(|| "edgeguard".to_owned());
    draft.line("store", format!("key_prefix: {}", quoted(&prefix)), &[]);
    draft.line(
        "store",
        format!("fail_open: {}", limits.flag_at("fail_open", false)),
        &[],
    );
    let url = limits
        .text_at("redis_url")
        .unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());
    let url = match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => {
            draft.not_carried_over("redis_url: user and password: name them in `store.redis.username` and `password_file`".to_owned());
            format!("{scheme}://{host}")
        }
        _ => url,
    };
    draft.line("store", format!("redis: {{ url: {} }}", quoted(&url)), &[]);
}
