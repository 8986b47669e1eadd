//! WebSockets over HTTP/2 (RFC 8441): the request goes to a server of HTTP/1 as an upgrade, and the
//! stream goes on as a tunnel to it.
//!
//! The client has no key of its own, because its stream cannot be mistaken for anything else. The
//! server demands one (RFC 6455, section 4.1), so the proxy writes one and checks the answer to it: a
//! server that does not understand the protocol cannot know it.

use std::hash::{BuildHasher, RandomState};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use http::header::{HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY};
use sha1::{Digest, Sha1};
use sluicegate_gate::telemetry::metrics::UpstreamFailure;
use sluicegate_net::{ClientBody, HttpResponse, RequestParts, Tunnel, upgrade_of};

use super::body::BodySource;
use super::forward_failure::ForwardFailure;
use super::forwarded_response::ForwardedResponse;

/// A WebSocket over HTTP/2 that waits for its server.
pub(super) struct WebSocketStream {
    /// What the client sends to the server once that has agreed.
    upload: ClientBody,
    /// The answer to our key.
    accept: String,
}

impl WebSocketStream {
    /// Makes the request one that a server of HTTP/1 understands, and takes its body out of it;
    /// `None` if it asks for no WebSocket.
    pub(super) fn begin(parts: &mut RequestParts, body: &mut ClientBody) -> Option<Self> {
        upgrade_of(parts)?;
        let key = new_key();
        let accept = accept_of(&key);
        let value = HeaderValue::try_from(key).ok()?;
        parts.edit().headers.insert(SEC_WEBSOCKET_KEY, value);
        Some(Self {
            upload: std::mem::take(body),
            accept,
        })
    }

    /// Opens the tunnel if the server has agreed. Its refusal is passed on as it is, but not what a
    /// client would take for an agreement.
    pub(super) fn open(
        self,
        forwarded: ForwardedResponse,
    ) -> Result<ForwardedResponse, ForwardFailure> {
        let HttpResponse {
            status,
            mut lines,
            body,
            closes,
        } = forwarded.answer;
        let body = match body {
            BodySource::Switched(Some(server)) => {
                let accept = lines.value(&SEC_WEBSOCKET_ACCEPT);
                if accept.map(<[u8]>::trim_ascii) != Some(self.accept.as_bytes()) {
                    return Err(broken("the server does not speak WebSocket"));
                }
                lines.remove(&SEC_WEBSOCKET_ACCEPT);
                BodySource::Tunnel(Box::new(Tunnel::new(*server, self.upload)))
            }
            _ if status.is_success() => {
                return Err(broken("the server did not change the protocol"));
            }
            body => body,
        };
        let status = match body {
            BodySource::Tunnel(_) => StatusCode::OK,
            _ => status,
        };
        let answer = HttpResponse {
            status,
            lines,
            body,
            closes,
        };
        Ok(ForwardedResponse {
            answer,
            ..forwarded
        })
    }
}

fn broken(words: &str) -> ForwardFailure {
    ForwardFailure::Broken {
        reason: UpstreamFailure::Protocol,
        words: words.to_owned(),
    }
}

/// A key that no server has seen before: sixteen bytes that nobody can foretell.
fn new_key() -> String {
    let half = |number: u8| RandomState::new().hash_one(number).to_be_bytes();
    STANDARD.encode([half(0), half(1)].concat())
}

/// The answer of a server that understands a key (RFC 6455, section 4.2.2).
fn accept_of(key: &str) -> String {
    const PROTOCOL: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    let mut hash = Sha1::new();
    hash.update(key.as_bytes());
    hash.update(PROTOCOL);
    STANDARD.encode(hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_a_key_is_that_of_the_rfc() {
        assert_eq!(
            accept_of("dGhlIHNhbXBsZSBub25jZQ=="),
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        );
    }

    #[test]
    fn keys_have_sixteen_bytes_and_differ() {
        let keys = [new_key(), new_key()];
        assert_ne!(keys[0], keys[1]);
        assert_eq!(STANDARD.decode(&keys[0]).unwrap().len(), 16);
    }
}
