//! JSON over HTTP, and the questions of gateways.

use super::{Then, send_pieces, survives};

fn head(path: &str, length: &str) -> Vec<u8> {
    let lines = "Host: a\r\nConnection: close\r\nContent-Type: application/json\r\nX-Original-Method: GET\r\nX-Original-URI: /\r\nX-Original-Host: a";
    format!("POST {path} HTTP/1.1\r\n{lines}\r\n{length}\r\n\r\n").into_bytes()
}

/// A body of so many chunks.
fn chunked(chunk: &str, count: usize) -> impl Iterator<Item = Vec<u8>> + Send + use<> {
    let chunk = format!("{:x}\r\n{chunk}\r\n", chunk.len()).into_bytes();
    (0..count)
        .map(move |_| chunk.clone())
        .chain([b"0\r\n\r\n".to_vec()])
}

#[test]
fn a_hundred_thousand_levels_of_json_are_refused() {
    survives(|sluicegate| {
        let address = sluicegate.decisions.unwrap();
        for (open, levels) in [
            ("[", 100_000),
            ("{\"subject\":", 100_000),
            ("{\"checks\":[", 100_000),
            ("[", 60_000),
        ] {
            let deep = open.repeat(levels);
            for path in [
                "/v1/check",
                "/v1/check/batch",
                "/v1/peek",
                "/v1/refund",
                "/v1/reset",
            ] {
                let whole = head(path, &format!("Content-Length: {}", deep.len()));
                let response =
                    send_pieces(address, Then::Waits, [whole, deep.clone().into_bytes()]);
                let expected = if deep.len() > 65_536 { 413 } else { 400 };
                // A caller that sends on may find the connection closed before it has read why.
                assert!(
                    response.status() == expected || (expected == 413 && response.is_empty()),
                    "{path} {response}"
                );
                let response = send_pieces(
                    address,
                    Then::Waits,
                    [head(path, "Transfer-Encoding: chunked")]
                        .into_iter()
                        .chain(chunked(&deep, 1)),
                );
                assert!(
                    response.status() == expected || (expected == 413 && response.is_empty()),
                    "{path} {response}"
                );
            }
        }
    });
}

#[test]
fn a_hundred_megabytes_of_json_are_not_listened_to() {
    survives(|sluicegate| {
        let address = sluicegate.decisions.unwrap();
        let megabyte = "x".repeat(1 << 20);
        for path in ["/v1/check", "/v1/check/batch", "/v1/reset"] {
            let announced = head(path, "Content-Length: 104857600");
            let pieces = [announced]
                .into_iter()
                .chain((0..100).map(|_| megabyte.clone().into_bytes()));
            let response = send_pieces(address, Then::Waits, pieces);
            assert!(matches!(response.status(), 413 | 0), "{path} {response}");
            let streamed = [head(path, "Transfer-Encoding: chunked")]
                .into_iter()
                .chain(chunked(&megabyte, 100));
            let response = send_pieces(address, Then::Waits, streamed);
            assert!(matches!(response.status(), 413 | 0), "{path} {response}");
        }
    });
}

/// The body that the gateway's client sends has no influence on the answer.
#[test]
fn a_gateway_is_answered_whatever_the_length_of_its_body() {
    survives(|sluicegate| {
        let address = sluicegate.decisions.unwrap();
        let path = "/v1/authorize/nginx";
        let announced = send_pieces(
            address,
            Then::Waits,
            [head(path, "Content-Length: 104857600")],
        );
        assert_eq!(announced.status(), 200, "{announced}");
        let streamed = [head(path, "Transfer-Encoding: chunked")]
            .into_iter()
            .chain(chunked(&"x".repeat(1 << 20), 100));
        let response = send_pieces(address, Then::Waits, streamed);
        assert!(matches!(response.status(), 200 | 0), "{response}");
    });
}

#[test]
fn a_question_that_is_cut_short_is_no_question() {
    survives(|sluicegate| {
        let body = r#"{"limit": "per-client", "key": ["203.0.113.7"], "cost": 5}"#;
        let whole = [
            head("/v1/check", &format!("Content-Length: {}", body.len())),
            body.into(),
        ]
        .concat();
        for length in (1..whole.len()).step_by(3) {
            let response = send_pieces(
                sluicegate.decisions.unwrap(),
                Then::HangsUp,
                [whole[..length].to_vec()],
            );
            assert!(
                !matches!(response.status(), 200..=299),
                "{length} bytes: {response}"
            );
        }
        let response = send_pieces(sluicegate.decisions.unwrap(), Then::Waits, [whole]);
        assert!(
            response.status() == 200 && response.contains("\"allowed\":true"),
            "nothing was taken before: {response}"
        );
    });
}
