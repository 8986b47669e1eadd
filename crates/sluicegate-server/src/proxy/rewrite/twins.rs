//! Headers that many servers take for others: CGI cannot tell `X_Forwarded_For` from
//! `X-Forwarded-For`, so a client could get past the rules for one by sending the other.

use http::header::HeaderName;

use sluicegate_net::hop_by_hop::{is_hop_by_hop, is_protected};

/// Returns true when a header differs only in underscores from one that is protected, hop-by-hop or
/// a key header. A key header itself is no twin.
pub(super) fn is_twin(sent: &str, key_headers: &[HeaderName]) -> bool {
    if key_headers.iter().any(|key| key == sent) {
        return false;
    }
    if key_headers
        .iter()
        .any(|key| with_dashes(key.as_str()).eq(with_dashes(sent)))
    {
        return true;
    }
    if !sent.bytes().any(|byte| byte == b'_') {
        return false;
    }
    let dashed = sent.replace('_', "-");
    is_protected(&dashed, &[]) || is_hop_by_hop(&dashed)
}

fn with_dashes(name: &str) -> impl Iterator<Item = u8> {
    name.bytes()
        .map(|byte| if byte == b'_' { b'-' } else { byte })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twins_differ_in_underscores_and_nothing_else() {
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
