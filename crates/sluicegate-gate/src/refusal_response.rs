//! Writes a refusal as an HTTP response, the same at every front door that speaks HTTP.

use bytes::Bytes;
use http::StatusCode;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use sluicegate::http::ResponseFields;
use sluicegate_config::BodyStyle;

use crate::admission::Refusal;
use crate::auth::KeysUnavailable;
use crate::request_id::RequestId;
use crate::snapshot::Snapshot;

/// Whether the client that reads the response may be a gRPC client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrpcClients {
    /// A gRPC client gets its refusal as `grpc-status` in a response of status 200.
    Possible,
    /// A gateway reads the status: 200 would be a yes.
    Excluded,
}

/// Writes the lines of a refusal, and gives its status and body. The body is the limit's own, or has
/// the form that the client's headers ask for, or the one that the configuration fixes.
pub fn write_refusal(
    refusal: &Refusal,
    snapshot: &Snapshot,
    request_headers: &HeaderMap,
    request_id: &RequestId,
    grpc_clients: GrpcClients,
    fields: &mut impl ResponseFields,
) -> (StatusCode, Bytes) {
    let Some(rejection) = refusal.rejection() else {
        return write_without_limits(refusal, fields);
    };
    let fixed = match snapshot.body {
        BodyStyle::Auto if grpc_clients == GrpcClients::Possible => {
            let id = request_id.as_str();
            return rejection.write(request_headers, &snapshot.headers, id, fields);
        }
        BodyStyle::Auto => None,
        BodyStyle::Text => Some("text/plain"),
        BodyStyle::Json => Some("application/problem+json"),
    };
    let mut negotiated = HeaderMap::new();
    if let (Some(content_type), GrpcClients::Possible) =
        (request_headers.get(CONTENT_TYPE), grpc_clients)
    {
        negotiated.insert(CONTENT_TYPE, content_type.clone());
    }
    match fixed {
        Some(media_type) => {
            negotiated.insert(ACCEPT, HeaderValue::from_static(media_type));
        }
        None => {
            for line in request_headers.get_all(ACCEPT) {
                negotiated.append(ACCEPT, line.clone());
            }
        }
    }
    rejection.write(&negotiated, &snapshot.headers, request_id.as_str(), fields)
}

/// Writes a refusal that has nothing to do with limits: a ban, a wrong credential, missing keys.
fn write_without_limits(
    refusal: &Refusal,
    fields: &mut impl ResponseFields,
) -> (StatusCode, Bytes) {
    match refusal {
        Refusal::KeysUnavailable(missing) => write_keys_unavailable(missing, fields),
        Refusal::Unauthorized(unauthorized) => {
            append_text(fields);
            let challenge = unauthorized.challenge();
            fields.append(&WWW_AUTHENTICATE, |text| {
                text.extend_from_slice(challenge.as_bytes());
            });
            (refusal.status(), unauthorized.to_string().into())
        }
        _ => {
            append_text(fields);
            (refusal.status(), Bytes::from_static(b"Forbidden"))
        }
    }
}

/// Tells a caller with a token when to come back.
fn write_keys_unavailable(
    missing: &KeysUnavailable,
    fields: &mut impl ResponseFields,
) -> (StatusCode, Bytes) {
    append_text(fields);
    let mut digits = itoa::Buffer::new();
    let seconds = digits.format(missing.retry_after_secs());
    fields.append(&RETRY_AFTER, |text| {
        text.extend_from_slice(seconds.as_bytes());
    });
    (StatusCode::SERVICE_UNAVAILABLE, missing.to_string().into())
}

fn append_text(fields: &mut impl ResponseFields) {
    fields.append(&CONTENT_TYPE, |text| {
        text.extend_from_slice(b"text/plain; charset=utf-8");
    });
}
