//! Access checks of the admin API: the host, the token, and requests of other sites.
//!
//! A browser on the operator's machine can reach loopback on behalf of any page. So without a token
//! only loopback names are served (a page behind DNS rebinding sends its own name), and no request
//! of a page of another site is answered, whether it reads or changes something.

use std::net::IpAddr;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::uri::Authority;
use http::{Method, StatusCode, Uri};

use super::page;
use super::response::{self, AdminResponse};
use crate::token_file::AdminToken;

/// Checks every request before its path is looked at.
#[derive(Debug)]
pub(super) struct AccessGuard {
    own_address: IpAddr,
    token: Option<AdminToken>,
}

/// The path for load balancers and orchestrators, which have no token. It reveals only that the
/// process runs.
pub(super) const HEALTH: &str = "/healthz";
/// The path that tells whether requests should be sent to this process.
pub(super) const READY: &str = "/readyz";
/// The header with which a browser tells the relation of the requesting page to this host.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Says whether the browser follows a link, or a script or an image asks.
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
/// Says where the response goes, such as a window, a frame or a script.
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

impl AccessGuard {
    pub(super) fn new(own_address: IpAddr, token: Option<AdminToken>) -> Self {
        Self {
            own_address: own_address.to_canonical(),
            token,
        }
    }

    /// Admits a request, or returns the reason to refuse it.
    pub(super) fn check(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<(), AccessRefusal> {
        let host = host(uri, headers).ok_or(AccessRefusal::UnclearHost)?;
        match &self.token {
            None if !self.is_ours(&host) => return Err(AccessRefusal::ForeignHost),
            Some(token)
                if !is_open(uri.path())
                    && !shown(headers).is_some_and(|shown| token.admits(shown)) =>
            {
                return Err(AccessRefusal::NoToken);
            }
            _ => {}
        }
        if is_cross_site(&host, headers, self.token.is_some())
            && !is_link(method, uri.path(), headers)
        {
            return Err(AccessRefusal::CrossSite);
        }
        Ok(())
    }

    /// Returns true for `localhost`, a loopback address, or the address that we listen on. A page
    /// that was opened under another name, whose address then became ours (DNS rebinding), sends
    /// that name; without a token this is all that tells it from an operator.
    fn is_ours(&self, host: &Authority) -> bool {
        let name = host.host();
        if name.eq_ignore_ascii_case("localhost") {
            return true;
        }
        let name = name
            .strip_prefix('[')
            .and_then(|name| name.strip_suffix(']'))
            .unwrap_or(name);
        let Ok(address) = name.parse::<IpAddr>() else {
            return false;
        };
        let address = address.to_canonical();
        address.is_loopback() || address == self.own_address
    }
}

/// Returns true for paths that need no token: health, and the files of the page that asks for the
/// token.
fn is_open(path: &str) -> bool {
    path == HEALTH || page::is_file(path)
}

/// Returns true for paths whose requests take no operator's place: health and readiness, which must
/// be answered however many operators there are, and the files of the page.
pub(super) fn is_for_strangers(path: &str) -> bool {
    path == READY || is_open(path)
}

/// The reason why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccessRefusal {
    UnclearHost,
    ForeignHost,
    NoToken,
    CrossSite,
}

impl AccessRefusal {
    pub(super) fn response(self) -> AdminResponse {
        let (status, why) = match self {
            Self::UnclearHost => (StatusCode::BAD_REQUEST, "one Host, please"),
            Self::ForeignHost => {
                let why =
                    "this host is not served here: use a loopback address, or set admin.token_file";
                (StatusCode::MISDIRECTED_REQUEST, why)
            }
            Self::NoToken => (
                StatusCode::UNAUTHORIZED,
                "Authorization: Bearer with the token is required",
            ),
            Self::CrossSite => (
                StatusCode::FORBIDDEN,
                "requests from other sites do nothing here",
            ),
        };
        let mut response = response::error(status, why);
        if self == Self::NoToken {
            let challenge = HeaderValue::from_static("Bearer realm=\"sluicegate\"");
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

/// The host of the request; `None` when there is not exactly one, or it contradicts the target.
fn host(uri: &Uri, headers: &HeaderMap) -> Option<Authority> {
    let said: Authority = only(headers, &header::HOST)?.to_str().ok()?.parse().ok()?;
    let is_plain = !said.as_str().contains('@') && !said.host().is_empty();
    let is_same = uri.authority().is_none_or(|target| *target == said);
    (is_plain && is_same).then_some(said)
}

fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    let mut lines = headers.get_all(name).iter();
    lines.next().filter(|_| lines.next().is_none())
}

/// The bearer token of a request.
fn shown(headers: &HeaderMap) -> Option<&[u8]> {
    let value = only(headers, &header::AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(b"Bearer ".len())?;
    scheme
        .eq_ignore_ascii_case(b"Bearer ")
        .then(|| token.trim_ascii())
}

/// Returns true when a browser sends this for a page of another site. Programs send neither of the
/// two headers. With a token an `https` origin is accepted too: the request may have come through a
/// proxy that terminates TLS.
fn is_cross_site(host: &Authority, headers: &HeaderMap, has_token: bool) -> bool {
    let is_own_page = |site: &HeaderValue| matches!(site.as_bytes(), b"same-origin" | b"none");
    let is_own_origin = |origin: &HeaderValue| {
        let origin = origin.to_str().ok().and_then(|origin| {
            let over_tls = || origin.strip_prefix("https://").filter(|_| has_token);
            origin.strip_prefix("http://").or_else(over_tls)
        });
        origin
            .and_then(|origin| origin.parse::<Authority>().ok())
            .is_some_and(|origin| origin == *host)
    };
    !headers.get_all(SEC_FETCH_SITE).iter().all(is_own_page)
        || !headers.get_all(header::ORIGIN).iter().all(is_own_origin)
}

/// Returns true when a browser opens the page in a window of its own because somebody followed a
/// link, such as in a runbook. The page has no data, and the site with the link does not see it.
fn is_link(method: &Method, path: &str, headers: &HeaderMap) -> bool {
    let says = |name: &HeaderName, expected: &str| {
        only(headers, name).is_some_and(|value| value.as_bytes() == expected.as_bytes())
    };
    *method == Method::GET
        && path == page::PATH
        && says(&SEC_FETCH_MODE, "navigate")
        && says(&SEC_FETCH_DEST, "document")
        && !headers.contains_key(header::ORIGIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn token() -> (tempfile::TempDir, AdminToken) {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("token"), TOKEN).unwrap();
        let token = AdminToken::from_file(directory.path().join("token")).unwrap();
        (directory, token)
    }

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        lines
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
            .collect()
    }

    fn status(
        guard: &AccessGuard,
        method: Method,
        uri: &str,
        lines: &[(&'static str, &str)],
    ) -> u16 {
        let result = guard.check(&method, &uri.parse().unwrap(), &headers(lines));
        result.map_or_else(|refusal| refusal.response().status().as_u16(), |()| 200)
    }

    #[test]
    fn without_a_token_only_own_names_are_served() {
        let guard = AccessGuard::new("127.0.0.1".parse().unwrap(), None);
        let own = [
            "localhost",
            "LocalHost:9090",
            "127.0.0.1",
            "127.0.0.1:1",
            "127.1.2.3:9090",
            "[::1]:9090",
        ];
        for host in own {
            assert_eq!(
                status(&guard, Method::GET, "/metrics", &[("host", host)]),
                200,
                "{host}"
            );
        }
        let foreign = [
            "attacker.example",
            "attacker.example:9090",
            "localhost.attacker.example",
            "127.0.0.1.attacker.example",
            "127.0.0.1:9090@attacker.example",
            "192.168.1.7:9090",
            "[2001:db8::1]:9090",
            "2130706433",
            "0177.0.0.1",
            "0.0.0.0:9090",
        ];
        for host in foreign {
            let status = status(&guard, Method::GET, "/healthz", &[("host", host)]);
            assert!(matches!(status, 421 | 400), "{host}: {status}");
        }
    }

    #[test]
    fn the_address_we_listen_on_is_ours() {
        let guard = AccessGuard::new("::ffff:127.0.0.9".parse().unwrap(), None);
        assert_eq!(
            status(&guard, Method::GET, "/", &[("host", "127.0.0.9:9090")]),
            200
        );
        let guard = AccessGuard::new("192.0.2.1".parse().unwrap(), None);
        assert_eq!(
            status(&guard, Method::GET, "/", &[("host", "192.0.2.1:9090")]),
            200
        );
        assert_eq!(
            status(&guard, Method::GET, "/", &[("host", "192.0.2.2:9090")]),
            421
        );
    }

    #[test]
    fn a_host_that_is_not_clear_is_a_bad_request() {
        let guard = AccessGuard::new("127.0.0.1".parse().unwrap(), None);
        let cases: [&[(&str, &str)]; 4] = [
            &[],
            &[("host", "localhost"), ("host", "localhost")],
            &[("host", "")],
            &[("host", "a b")],
        ];
        for lines in cases {
            assert_eq!(
                status(&guard, Method::GET, "/healthz", lines),
                400,
                "{lines:?}"
            );
        }
        assert_eq!(
            status(
                &guard,
                Method::GET,
                "http://other/healthz",
                &[("host", "localhost")]
            ),
            400
        );
        assert_eq!(
            status(
                &guard,
                Method::GET,
                "http://localhost/healthz",
                &[("host", "localhost")]
            ),
            200
        );
    }

    #[test]
    fn with_a_token_every_path_but_one_needs_it_and_any_host_will_do() {
        let (_directory, token) = token();
        let guard = AccessGuard::new("0.0.0.0".parse().unwrap(), Some(token));
        let host = ("host", "sluicegate.example:9090");
        let good = format!("Bearer {TOKEN}");
        assert_eq!(status(&guard, Method::GET, "/healthz", &[host]), 200);
        for path in [
            "/readyz",
            "/metrics",
            "/v1/version",
            "/v1/reload",
            "/v1/stats",
            "/app.jsx",
            "/healthz/",
            "/healthzz",
            "//healthz",
            "/x",
        ] {
            assert_eq!(status(&guard, Method::GET, path, &[host]), 401, "{path}");
            assert_eq!(
                status(&guard, Method::GET, path, &[host, ("authorization", &good)]),
                200,
                "{path}"
            );
        }
    }

    #[test]
    fn a_wrong_token_or_two_of_them_are_refused() {
        let (_directory, token) = token();
        let guard = AccessGuard::new("0.0.0.0".parse().unwrap(), Some(token));
        let host = ("host", "sluicegate.example:9090");
        let good = format!("Bearer {TOKEN}");
        let wrong = [
            "",
            "Bearer",
            "Bearer ",
            "Bearer 0123456789abcdeF",
            "Basic 0123456789abcdef",
            TOKEN,
        ];
        for value in wrong {
            assert_eq!(
                status(
                    &guard,
                    Method::GET,
                    "/metrics",
                    &[host, ("authorization", value)]
                ),
                401,
                "{value}"
            );
        }
        let twice = [
            host,
            ("authorization", good.as_str()),
            ("authorization", "Bearer x"),
        ];
        assert_eq!(status(&guard, Method::GET, "/metrics", &twice), 401);
        assert_eq!(
            status(
                &guard,
                Method::GET,
                "/metrics",
                &[host, ("authorization", "bearer 0123456789abcdef")]
            ),
            200
        );
    }

    #[test]
    fn behind_a_proxy_that_speaks_tls_the_own_page_is_known_by_its_token() {
        let (_directory, token) = token();
        let guard = AccessGuard::new("192.0.2.1".parse().unwrap(), Some(token));
        let authorization = format!("Bearer {TOKEN}");
        let post = |origin: &'static str| {
            let lines = [
                ("host", "edge.example"),
                ("authorization", authorization.as_str()),
                ("origin", origin),
            ];
            status(&guard, Method::POST, "/v1/bans", &lines)
        };
        assert_eq!(
            (post("https://edge.example"), post("http://edge.example")),
            (200, 200)
        );
        assert_eq!(
            (
                post("https://attacker.example"),
                post("null"),
                post("https://edge.example.attacker")
            ),
            (403, 403, 403)
        );
    }

    #[test]
    fn other_sites_read_and_change_nothing() {
        let guard = AccessGuard::new("127.0.0.1".parse().unwrap(), None);
        let host = ("host", "localhost:9090");
        let post = |line| status(&guard, Method::POST, "/v1/reload", &[host, line]);
        let foreign = [
            ("origin", "http://attacker.example"),
            ("origin", "http://localhost:8080"),
            ("origin", "https://localhost:9090"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ];
        for line in foreign {
            assert_eq!(post(line), 403, "{line:?}");
            for method in [Method::GET, Method::HEAD] {
                for path in [
                    "/metrics",
                    "/healthz",
                    "/readyz",
                    "/v1/stats",
                    "/",
                    "/app.js",
                ] {
                    let status = status(&guard, method.clone(), path, &[host, line]);
                    assert_eq!(status, 403, "{line:?} {path}");
                }
            }
        }
        for line in [
            ("origin", "http://localhost:9090"),
            ("sec-fetch-site", "same-origin"),
            ("sec-fetch-site", "none"),
        ] {
            assert_eq!(post(line), 200, "{line:?}");
            let read = status(&guard, Method::GET, "/metrics", &[host, line]);
            assert_eq!(read, 200, "{line:?}");
        }
        let both = [
            host,
            ("sec-fetch-site", "same-origin"),
            ("origin", "http://attacker.example"),
        ];
        assert_eq!(status(&guard, Method::POST, "/v1/reload", &both), 403);
    }

    #[test]
    fn a_link_on_another_site_leads_to_the_page_and_nowhere_else() {
        let guard = AccessGuard::new("127.0.0.1".parse().unwrap(), None);
        let ask = |method: Method, path: &str, more: &[(&'static str, &'static str)]| {
            let mut lines = vec![("host", "localhost:9090"), ("sec-fetch-site", "cross-site")];
            lines.extend(more);
            status(&guard, method, path, &lines)
        };
        let link = [
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document"),
        ];
        assert_eq!(ask(Method::GET, "/", &link), 200);
        for path in ["/metrics", "/v1/config", "/app.js", "/healthz"] {
            assert_eq!(ask(Method::GET, path, &link), 403, "{path}");
        }
        assert_eq!(ask(Method::POST, "/", &link), 403);
        let frame = [("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")];
        let script = [("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "script")];
        for lines in [frame, script] {
            assert_eq!(ask(Method::GET, "/", &lines), 403, "{lines:?}");
        }
        assert_eq!(ask(Method::GET, "/", &link[..1]), 403);
    }
}
