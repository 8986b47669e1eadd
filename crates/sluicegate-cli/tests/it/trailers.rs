//! Trailers, both ways and between versions.

use std::convert::Infallible;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::running::{LONGEST, Sluicegate};
use super::upstream::{Speaks, Upstream};

/// Of no known length: a body whose length is announced has no place for trailers in HTTP/1.1.
type Body =
    StreamBody<tokio_stream::Iter<std::array::IntoIter<Result<Frame<Bytes>, Infallible>, 2>>>;

fn with_trailer(content: &'static str, name: &'static str, value: &'static str) -> Body {
    let trailers = HeaderMap::from_iter([(
        HeaderName::from_static(name),
        HeaderValue::from_static(value),
    )]);
    StreamBody::new(tokio_stream::iter([
        Ok(Frame::data(content.into())),
        Ok(Frame::trailers(trailers)),
    ]))
}

/// Answers `abcde`, and `x-sum: 5` behind it.
fn upstream(speaks: Speaks) -> Upstream {
    Upstream::speaking(speaks, |_| {
        let mut response = Response::new(with_trailer("abcde", "x-sum", "5"));
        response
            .headers_mut()
            .insert("trailer", HeaderValue::from_static("x-sum"));
        response
    })
}

fn seen_by(upstream: &Upstream) -> (Bytes, Option<HeaderValue>) {
    let seen = upstream.seen();
    assert_eq!(seen.len(), 1);
    (
        seen[0].body.clone(),
        seen[0]
            .trailers
            .as_ref()
            .and_then(|trailers| trailers.get("x-mark").cloned()),
    )
}

#[test]
fn trailers_of_chunked_bodies_pass_both_ways_to_either_version() {
    for speaks in [Speaks::Http1, Speaks::Http2] {
        let upstream = upstream(speaks);
        let sluicegate = Sluicegate::in_front_of(&upstream.url());
        let answer = sluicegate.exchange(
            b"POST /t HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\nTE: trailers\r\nTrailer: X-Mark\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Mark: 3\r\n\r\n",
        );
        assert_eq!(
            seen_by(&upstream),
            ("abc".into(), Some(HeaderValue::from_static("3"))),
            "{speaks:?}"
        );
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(
            head.to_ascii_lowercase().contains("\r\ntrailer: x-sum"),
            "{speaks:?}: {answer}"
        );
        assert_eq!(body, "5\r\nabcde\r\n0\r\nx-sum: 5\r\n\r\n", "{speaks:?}");
    }
}

#[test]
fn trailers_of_streams_pass_both_ways_to_either_version() {
    for speaks in [Speaks::Http1, Speaks::Http2] {
        let upstream = upstream(speaks);
        let sluicegate = Sluicegate::in_front_of(&upstream.url());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let ask = async {
            let stream = tokio::net::TcpStream::connect(sluicegate.proxy)
                .await
                .unwrap();
            let (mut sender, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                    .await
                    .unwrap();
            tokio::spawn(connection);
            let request = Request::post(format!("http://{}/t", sluicegate.proxy))
                .header("te", "trailers")
                .header("trailer", "x-mark")
                .body(with_trailer("abc", "x-mark", "3"))
                .unwrap();
            let response = sender.send_request(request).await.unwrap();
            let body = response.into_body().collect().await.unwrap();
            (body.trailers().cloned(), body.to_bytes())
        };
        let (trailers, body) =
            runtime.block_on(async { tokio::time::timeout(LONGEST, ask).await.unwrap() });
        assert_eq!(
            seen_by(&upstream),
            ("abc".into(), Some(HeaderValue::from_static("3"))),
            "{speaks:?}"
        );
        assert_eq!(
            (trailers.unwrap()["x-sum"].as_bytes(), body.as_ref()),
            (&b"5"[..], &b"abcde"[..]),
            "{speaks:?}"
        );
    }
}
