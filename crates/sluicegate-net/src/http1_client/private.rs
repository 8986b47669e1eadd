//! Connections to servers that belong to one client, because the server knows the client by them.
//!
//! NTLM and Negotiate authenticate a connection and not a request: whoever sends the next request
//! over it is taken for the same user. So a connection on which they were spoken is never shared.
//! It is used by later requests of the same client's connection, and closed with that.

use std::sync::{Arc, Mutex, MutexGuard};

use http::HeaderMap;
use http::header::{AUTHORIZATION, PROXY_AUTHORIZATION};

use super::{Exchange, pool};

/// Idle connections that belong to one client's connection.
#[derive(Default)]
pub struct PrivateConnections(Mutex<IdleConnections>);

#[derive(Default)]
struct IdleConnections {
    exchanges: Vec<Exchange>,
    /// The sweeper of the thread looks at them.
    is_watched: bool,
}

/// Most idle connections of one client. A client of HTTP/1 needs one for each server that it
/// authenticates to.
const IDLE_MAX: usize = 4;

impl PrivateConnections {
    /// Takes the idle connection to a server, if there is one.
    pub fn take(&self, server: Option<usize>) -> Option<Exchange> {
        let exchanges = &mut self.lock().exchanges;
        let found = |exchange: &Exchange| exchange.0.server == server;
        let mut exchange = exchanges.swap_remove(exchanges.iter().position(found)?);
        exchange.0.is_quiet().then_some(exchange)
    }

    /// Keeps a connection for the next request of the client.
    pub(super) fn keep(self: &Arc<Self>, exchange: Exchange) {
        if exchange.0.server.is_none() {
            return;
        }
        let mut idle = self.lock();
        if idle.exchanges.len() < IDLE_MAX {
            idle.exchanges.push(exchange);
        }
        let was_watched = std::mem::replace(&mut idle.is_watched, true);
        drop(idle);
        if !was_watched {
            pool::watch(self);
        }
    }

    /// Closes connections that their server has closed. Returns true when some are left to watch.
    pub(super) fn close_stale(&self) -> bool {
        let mut idle = self.lock();
        idle.exchanges.retain_mut(|exchange| exchange.0.is_quiet());
        idle.is_watched = !idle.exchanges.is_empty();
        idle.is_watched
    }

    fn lock(&self) -> MutexGuard<'_, IdleConnections> {
        self.0.lock().expect("no holder of this lock panics")
    }
}

/// Returns true when a request authenticates its connection, and not only itself.
pub(super) fn is_request_binding(headers: &HeaderMap) -> bool {
    [AUTHORIZATION, PROXY_AUTHORIZATION]
        .iter()
        .flat_map(|name| headers.get_all(name))
        .any(|value| names_binding_scheme(value.as_bytes()))
}

/// Returns true when this line of a response tells that the connection is or will be
/// authenticated. The status has no say: the last answer of a handshake is often a 200.
pub(super) fn is_response_binding(name: &[u8], value: &[u8]) -> bool {
    match name.len() {
        15 => name.eq_ignore_ascii_case(b"persistent-auth"),
        16 if name.eq_ignore_ascii_case(b"www-authenticate") => names_binding_scheme(value),
        18 if name.eq_ignore_ascii_case(b"proxy-authenticate") => names_binding_scheme(value),
        _ => false,
    }
}

/// Schemes that authenticate a connection. `Negotiate` is Kerberos or NTLM.
const BINDING_SCHEMES: [&[u8]; 4] = [b"ntlm", b"negotiate", b"kerberos", b"nego2"];

/// Returns true when one of the words is such a scheme. Several challenges may share a line, and
/// readers differ about malformed ones, so any place counts: a connection that is private without
/// need costs little, and one that is shared by mistake lends a user's name to a stranger.
fn names_binding_scheme(value: &[u8]) -> bool {
    value
        .split(|byte| !byte.is_ascii_alphanumeric())
        .any(|word| {
            BINDING_SCHEMES
                .iter()
                .any(|scheme| word.eq_ignore_ascii_case(scheme))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_that_authenticate_a_connection_are_found_wherever_they_stand() {
        for value in [
            "NTLM",
            "ntlm",
            "Negotiate",
            "nEgOtIaTe",
            "NTLM TlRMTVNTUAACAAAA==",
            "Negotiate oYG2MIGzoAMKAQA=",
            "Negotiate,NTLM",
            "Basic realm=\"a\", NTLM",
            "Digest realm=\"x, y\", nonce=\"1\", Negotiate",
            "Basic realm=\"a\"\tNTLM",
            " , NTLM",
            "Kerberos",
        ] {
            assert!(names_binding_scheme(value.as_bytes()), "{value:?}");
        }
        for value in ["", "Basic bnRsbQ==", "Bearer ntlmx", "Digest x=1", "NTLMv"] {
            assert!(!names_binding_scheme(value.as_bytes()), "{value:?}");
        }
    }

    #[test]
    fn both_sides_can_begin() {
        for name in ["authorization", "proxy-authorization"] {
            let headers = [(name, "ntlm x"), (name, "Basic y")];
            for (_, value) in headers {
                let mut map = HeaderMap::new();
                map.append(name, value.parse().unwrap());
                let is_binding = value.starts_with("ntlm");
                assert_eq!(is_request_binding(&map), is_binding, "{name}: {value}");
            }
        }
        for (name, value) in [
            ("WWW-Authenticate", "Negotiate"),
            ("proxy-Authenticate", "NTLM"),
            ("Persistent-Auth", "true"),
            ("persistent-auth", ""),
        ] {
            assert!(
                is_response_binding(name.as_bytes(), value.as_bytes()),
                "{name}"
            );
        }
        assert!(!is_response_binding(b"WWW-Authenticate", b"Basic"));
        assert!(!is_response_binding(b"X-Authenticate-1", b"NTLM"));
    }
}
