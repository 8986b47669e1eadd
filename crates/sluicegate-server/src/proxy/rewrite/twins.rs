//! Headers that many servers take for others: `X_Forwarded_For` for `X-Forwarded-For`, as CGI cannot tell them apart.

use http::header::HeaderName;

use sluicegate_net::hop_by_hop::{is_hop_by_hop, is_protected};

/// Whether a header passes for one which is protected, belongs to a connection, or tells callers apart.
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

    /// T-09
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
