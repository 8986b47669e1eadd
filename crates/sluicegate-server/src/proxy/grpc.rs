//! Refusals and errors of the proxy as gRPC responses: clients of gRPC do not read the status of
//! HTTP.

use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName};
use sluicegate_net::HttpResponse;

pub(super) const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// Returns true when these are the headers of a gRPC call.
pub(super) fn is_call(headers: &HeaderMap) -> bool {
    let Some(content_type) = headers.get(CONTENT_TYPE) else {
        return false;
    };
    let (prefix, content_type) = (b"application/grpc", content_type.as_bytes());
    let is_call = content_type
        .get(..prefix.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    // Not `application/grpc-web`, which browsers read with its body.
    is_call
        && matches!(
            content_type.get(prefix.len()),
            None | Some(b'+' | b';' | b' ')
        )
}

/// Makes a response one of gRPC: HTTP 200 without a body, with `grpc-status` in the header instead
/// of the trailers. A response that has a `grpc-status` already stays as it is.
pub(super) fn to_grpc(mut answer: HttpResponse<Bytes>) -> HttpResponse<Bytes> {
    if answer.lines.has_own_line(&STATUS) {
        return answer;
    }
    let status = std::mem::replace(&mut answer.status, StatusCode::OK);
    answer.body = Bytes::new();
    answer
        .lines
        .replace_own_line(&CONTENT_TYPE, "application/grpc");
    answer.lines.append(&STATUS, |text| {
        text.extend_from_slice(code(status).to_string().as_bytes())
    });
    let message = status.canonical_reason().unwrap_or_default();
    answer
        .lines
        .append(&MESSAGE, |text| text.extend_from_slice(message.as_bytes()));
    answer
}

/// The code that a client would make of a status itself, by the rules of gRPC.
fn code(status: StatusCode) -> u16 {
    const UNKNOWN: u16 = 2;
    const PERMISSION_DENIED: u16 = 7;
    const UNIMPLEMENTED: u16 = 12;
    const INTERNAL: u16 = 13;
    const UNAVAILABLE: u16 = 14;
    const UNAUTHENTICATED: u16 = 16;
    match status {
        StatusCode::BAD_REQUEST => INTERNAL,
        StatusCode::UNAUTHORIZED => UNAUTHENTICATED,
        StatusCode::FORBIDDEN => PERMISSION_DENIED,
        StatusCode::NOT_FOUND => UNIMPLEMENTED,
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => UNAVAILABLE,
        _ => UNKNOWN,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use sluicegate_net::ResponseLines;

    use super::*;

    #[test]
    fn calls_are_told_by_their_content_type() {
        let is = |content_type: &'static str| {
            is_call(&HeaderMap::from_iter([(
                CONTENT_TYPE,
                HeaderValue::from_static(content_type),
            )]))
        };
        for call in [
            "application/grpc",
            "Application/GRPC+proto",
            "application/grpc;charset=utf-8",
        ] {
            assert!(is(call), "{call}");
        }
        for other in [
            "application/grpc-web",
            "application/grpcx",
            "application/json",
            "application/grp",
            "",
        ] {
            assert!(!is(other), "{other}");
        }
        assert!(!is_call(&HeaderMap::new()));
    }

    #[test]
    fn what_speaks_grpc_already_stays() {
        let mut lines = ResponseLines::default();
        lines.append(&STATUS, |text| text.push(b'8'));
        let response =
            to_grpc(HttpResponse::new(StatusCode::OK, lines, Bytes::new())).into_response();
        assert_eq!(
            (response.headers().len(), &response.headers()[STATUS]),
            (1, &HeaderValue::from_static("8"))
        );
    }

    #[test]
    fn other_answers_say_what_they_mean_in_the_header() {
        let response =
            to_grpc(HttpResponse::plain_text(StatusCode::FORBIDDEN, "no")).into_response();
        assert!(response.status() == 200 && response.body().is_empty());
        assert_eq!(
            (&response.headers()[STATUS], &response.headers()[MESSAGE]),
            (&7.into(), &HeaderValue::from_static("Forbidden"))
        );
        assert_eq!(
            response
                .headers()
                .get_all(CONTENT_TYPE)
                .iter()
                .collect::<Vec<_>>(),
            ["application/grpc"]
        );
    }
}
