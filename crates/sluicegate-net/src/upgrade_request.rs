//! Requests to continue a connection in another protocol (RFC 9110, section 7.8).

use http::header::{self, HeaderValue};
use http::request::Parts;
use http::{Method, Version};

use crate::hop_by_hop::lists;

/// A change of protocol that a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpgradeRequest {
    /// The protocol as sent, such as `websocket`.
    pub protocol: HeaderValue,
}

/// Lies in the extensions of a request of HTTP/2 whose stream is to go on in another protocol
/// (RFC 8441). The request itself is the GET that a client of HTTP/1 would send.
#[derive(Clone, Debug)]
pub struct ExtendedConnect {
    /// The protocol as sent, such as `websocket`.
    pub(crate) protocol: HeaderValue,
}

impl ExtendedConnect {
    /// Returns true for the one protocol that is served. What another would mean on a connection of
    /// HTTP/1 is not known: RFC 8441 defines it for WebSocket alone.
    pub(crate) fn is_websocket(&self) -> bool {
        self.protocol.as_bytes().eq_ignore_ascii_case(b"websocket")
    }
}

/// The change of protocol that a request asks for: `Connection: upgrade` and one protocol in
/// `Upgrade`, in HTTP/1.1; or a stream of HTTP/2 for a WebSocket.
///
/// A protocol that carries further requests is ignored: they would pass unseen and uncounted. Such
/// a request goes on without its `Upgrade`, as RFC 9110 allows any server to do.
pub fn upgrade_of(parts: &Parts) -> Option<UpgradeRequest> {
    if let Some(connect) = parts.extensions.get::<ExtendedConnect>() {
        return connect.is_websocket().then(|| UpgradeRequest {
            protocol: HeaderValue::from_static("websocket"),
        });
    }
    if parts.version != Version::HTTP_11 || parts.method == Method::CONNECT {
        return None;
    }
    let mut lines = parts.headers.get_all(header::UPGRADE).iter();
    let (protocol, None) = (lines.next()?, lines.next()) else {
        return None;
    };
    if !lists(&parts.headers, &header::CONNECTION, "upgrade") {
        return None;
    }
    let text = protocol.to_str().ok()?;
    (is_protocol(text) && !carries_requests(text)).then(|| UpgradeRequest {
        protocol: protocol.clone(),
    })
}

/// Returns true for a token, or two with a slash between: name and version.
fn is_protocol(text: &str) -> bool {
    let is_token = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
    };
    match text.split_once('/') {
        Some((name, version)) => is_token(name) && is_token(version),
        None => is_token(text),
    }
}

/// Returns true for HTTP in any version, and for TLS, in which it would be hidden.
fn carries_requests(protocol: &str) -> bool {
    let name = protocol.split('/').next().unwrap_or(protocol);
    ["h2", "h2c", "h3", "http", "tls"]
        .iter()
        .any(|other| name.eq_ignore_ascii_case(other))
        || name.get(..3).is_some_and(|start| {
            ["h2-", "h3-"]
                .iter()
                .any(|draft| start.eq_ignore_ascii_case(draft))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn protocol(version: Version, connection: &str, upgrade: &str) -> Option<String> {
        let request = http::Request::get("/")
            .version(version)
            .header("connection", connection)
            .header("upgrade", upgrade);
        let (parts, ()) = request.body(()).unwrap().into_parts();
        upgrade_of(&parts).map(|upgrade| upgrade.protocol.to_str().unwrap().to_owned())
    }

    #[test]
    fn an_upgrade_is_one_protocol_that_the_connection_names() {
        let http11 = Version::HTTP_11;
        for connection in ["upgrade", "Upgrade", "keep-alive, Upgrade", "x,upgrade\t,y"] {
            assert_eq!(
                protocol(http11, connection, "WebSocket").as_deref(),
                Some("WebSocket"),
                "{connection}"
            );
        }
        assert_eq!(
            protocol(http11, "upgrade", "irc/6.9").as_deref(),
            Some("irc/6.9")
        );
        assert_eq!(protocol(http11, "close", "websocket"), None);
        assert_eq!(protocol(Version::HTTP_10, "upgrade", "websocket"), None);
        assert_eq!(protocol(Version::HTTP_2, "upgrade", "websocket"), None);
        for upgrade in ["", "websocket, irc", "web socket", "a/", "/a", "a/b/c"] {
            assert_eq!(protocol(http11, "upgrade", upgrade), None, "{upgrade}");
        }
    }

    #[test]
    fn protocols_that_carry_requests_are_no_upgrade() {
        for upgrade in [
            "h2c", "H2C", "h2", "h2-14", "HTTP/2.0", "http/1.1", "TLS/1.3", "tls",
        ] {
            assert_eq!(
                protocol(Version::HTTP_11, "upgrade", upgrade),
                None,
                "{upgrade}"
            );
        }
    }
}
