//! Upstreams: URLs of servers, and routes to them.
//!
//! The proxy takes the first route that matches, so they are sorted here from particular to
//! general.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use sluicegate_core::{HostPattern, PathPattern};

use super::names::host_and_port;
use crate::field::{Field, Section};
use crate::typed::{Route, Upstream, UpstreamHttp};

/// All routes, the most particular first, and last the one for everything else, which `upstream`
/// names and which is the built-in echo without it.
pub(super) fn routes(proxy: &mut Section<'_>) -> Vec<Route> {
    let ca_file = proxy.optional("upstream_ca_file", Field::file);
    let everything = Route {
        host: None,
        path: None,
        upstreams: proxy.get("upstream").map_or_else(
            || vec![Upstream::Echo],
            |field| upstreams(&field, ca_file.as_deref()),
        ),
    };
    let mut routes = Vec::new();
    for field in proxy
        .optional("routes", |field| field.list())
        .unwrap_or_default()
    {
        let read = field.section(|section| route(section, ca_file.as_deref()));
        let Some(Some(route)) = read else {
            continue;
        };
        // A route without host and path has been noted already.
        let is_some = route.host.is_some() || route.path.is_some();
        let is_same =
            |other: &Route| is_some && (&other.host, &other.path) == (&route.host, &route.path);
        if let Some(first) = routes.iter().position(is_same) {
            field.note(format!(
                "has the same host and path as proxy.routes[{first}]"
            ));
        }
        routes.push(route);
    }
    // A stable sort: between equal ranks the order of the file decides.
    routes.sort_by_key(|route| Reverse(rank(route)));
    routes.push(everything);
    let is_tls = |upstream: &Upstream| matches!(upstream, Upstream::Server { tls: true, .. });
    if ca_file.is_some() && !routes.iter().flat_map(|route| &route.upstreams).any(is_tls) {
        proxy.refuse(
            "upstream_ca_file",
            "needs an upstream with https:// or h2://",
        );
    }
    routes
}

/// `{ enabled, host, path, upstream }`, at least one of host and path; `None` when it is off.
fn route(section: &mut Section<'_>, ca_file: Option<&Path>) -> Option<Route> {
    let is_on = section.enabled();
    let host = section.optional("host", |field| field.parsed(str::parse::<HostPattern>));
    let path = section.optional("path", |field| field.parsed(str::parse::<PathPattern>));
    if section.present(&["host", "path"]).is_empty() && is_on {
        section
            .field()
            .note("needs a host or a path; proxy.upstream is for everything else");
    }
    let to = section.need(
        "upstream",
        "a URL such as http://127.0.0.1:3000, or a list of them",
    );
    let route = Route {
        host: host.map(|host| match host {
            HostPattern::Exact(host) => host,
            HostPattern::Below(domain) => format!("*.{domain}"),
        }),
        path,
        upstreams: to
            .map(|field| upstreams(&field, ca_file))
            .unwrap_or_default(),
    };
    is_on.then_some(route)
}

/// The rank of a route: the longest path wins, then text before templates, then an exact host, then
/// the longest domain.
fn rank(route: &Route) -> (usize, usize, bool, usize) {
    let path = route
        .path
        .as_ref()
        .map(PathPattern::to_string)
        .unwrap_or_default();
    let segments = path.split('/').filter(|segment| !segment.is_empty());
    let literals = segments.clone().filter(|segment| *segment != "{}");
    let host = route.host.as_deref().unwrap_or_default();
    (
        segments.clone().count(),
        literals.count(),
        !host.is_empty() && !host.starts_with("*."),
        host.len(),
    )
}

/// One server or several, each once.
fn upstreams(field: &Field<'_>, ca_file: Option<&Path>) -> Vec<Upstream> {
    let fields = field.one_or_more();
    if fields.is_empty() {
        field.note("must name at least one server; without the key, the built-in echo answers");
    }
    let mut upstreams = Vec::new();
    for field in &fields {
        let Some(upstream) = field.text().and_then(|text| {
            let read = upstream(text, ca_file.map(Path::to_owned));
            read.map_err(|why| field.note(why)).ok()
        }) else {
            continue;
        };
        if upstreams.contains(&upstream) {
            field.note("is listed twice");
        }
        upstreams.push(upstream);
    }
    upstreams
}

/// Reads `echo` or a URL. No error contains the text: it may contain a password.
fn upstream(text: &str, ca_file: Option<PathBuf>) -> Result<Upstream, &'static str> {
    if text == "echo" {
        return Ok(Upstream::Echo);
    }
    const SCHEMES: &str = "must begin with http://, https://, h2c:// or h2://";
    let (scheme, rest) = text.split_once("://").ok_or(SCHEMES)?;
    let (tls, http) = match scheme.to_ascii_lowercase().as_str() {
        "http" => (false, UpstreamHttp::Auto),
        "https" => (true, UpstreamHttp::Auto),
        "h2c" => (false, UpstreamHttp::Http2),
        "h2" => (true, UpstreamHttp::Http2),
        _ => return Err(SCHEMES),
    };
    // The slash of an empty path is allowed, as in URLs that are copied from a browser.
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    if authority.contains(['/', '?', '#']) {
        return Err("must end after the host and port: the path of the request is forwarded");
    }
    let (host, port) = host_and_port(authority)?;
    let port = port.unwrap_or(if tls { 443 } else { 80 });
    Ok(Upstream::Server {
        tls,
        host,
        port,
        http,
        ca_file: ca_file.filter(|_| tls),
    })
}
