//! Headers that many servers take for others: CGI cannot tell `X_Forwarded_For` from
//! `X-Forwarded-For`, so a client could get past the rules for one by sending the other.

use std::sync::Arc;

use http::header::HeaderName;
use sluicegate_core::is_header_twin;
use sluicegate_net::TrailerFilter;
use sluicegate_net::hop_by_hop::{is_hop_by_hop, is_protected};

/// Returns true when CGI takes a header for one that is protected, hop-by-hop or a key header. A
/// key header itself is no twin.
pub(super) fn is_twin(sent: &str, key_headers: &[HeaderName]) -> bool {
    if key_headers.iter().any(|key| key == sent) {
        return false;
    }
    let mut keys = key_headers.iter();
    if keys.any(|key| is_header_twin(key.as_str(), sent)) {
        return true;
    }
    let is_sign = |byte: u8| byte != b'-' && !byte.is_ascii_alphanumeric();
    if !sent.bytes().any(is_sign) {
        return false;
    }
    let dashed = sent.replace(|sign: char| !sign.is_ascii_alphanumeric(), "-");
    is_protected(&dashed, &[])
        || is_hop_by_hop(&dashed)
        || matches!(
            dashed.as_str(),
            "proxy" | "x-original-url" | "x-rewrite-url"
        )
}

/// The trailers that clients may send. What a limit or a credential is read from may not come behind
/// the body: it was looked for in the head, and some servers merge trailers into it.
pub fn trailer_filter(key_headers: Arc<[HeaderName]>) -> TrailerFilter {
    Arc::new(move |name| {
        let name = name.as_str();
        !is_protected(name, &key_headers) && !is_hop_by_hop(name) && !is_twin(name, &key_headers)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twins_differ_in_signs_and_nothing_else() {
        let keys = ["x-tenant-id", "team_id"].map(HeaderName::from_static);
        for twin in [
            "x_tenant_id",
            "x-tenant_id",
            "team-id",
            "x_forwarded_for",
            "x-forwarded_proto",
            "x_real_ip",
            "content_length",
            "transfer_encoding",
            "sec_websocket_key",
            "x_request_id",
            "x.tenant.id",
            "x-tenant+id",
            "x.forwarded-for",
            "x_original_url",
            "x!rewrite-url",
        ] {
            assert!(is_twin(twin, &keys), "{twin}");
        }
        for other in [
            "x-tenant-id",
            "team_id",
            "x_tenant",
            "x_custom",
            "x-forwarded-for",
            "content-length",
            "te",
        ] {
            assert!(!is_twin(other, &keys), "{other}");
        }
    }
}
