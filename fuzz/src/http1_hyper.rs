//! Our reading of HTTP/1 requests against hyper's: a request that we pass on is the same request
//! for another server.

use std::cell::RefCell;
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use sluicegate_net::validate;

use crate::http1_request::{BOUNDS, ReadRequest, ReadRequests};

/// The input is what a client sends on one connection.
pub fn run(data: &[u8]) {
    // hyper reads into a buffer of this size at first.
    if data.len() > 8 * 1024 {
        return;
    }
    let ours = ReadRequests::read(data, data.len());
    let valid: Vec<&ReadRequest> = ours
        .requests
        .iter()
        .take_while(|request| is_passed_on(request))
        .collect();
    if valid.is_empty() {
        return;
    }
    let theirs = read_with_hyper(data);
    assert!(theirs.len() >= valid.len(), "hyper refuses {valid:?}");
    for (ours, (parts, body)) in valid.iter().zip(&theirs) {
        let own = &ours.head.parts;
        assert_eq!(own.method, parts.method);
        assert_eq!(own.uri, parts.uri);
        assert_eq!(own.version, parts.version);
        assert_eq!(own.headers, parts.headers);
        assert_eq!(&ours.body, body);
    }
}

fn is_passed_on(request: &ReadRequest) -> bool {
    let end = &request.head.end;
    let is_valid = |end| validate(&request.head.parts, end, &BOUNDS, false).is_ok();
    request.is_complete && end.is_ok_and(is_valid)
}

/// Requests as a server gets them, with their bodies.
type SeenRequests = Rc<RefCell<Vec<(Parts, Vec<u8>)>>>;

fn read_with_hyper(data: &[u8]) -> Vec<(Parts, Vec<u8>)> {
    let seen = SeenRequests::default();
    let service = service_fn(|request: Request<Incoming>| {
        let seen = Rc::clone(&seen);
        async move {
            let (parts, body) = request.into_parts();
            if let Ok(body) = body.collect().await {
                seen.borrow_mut().push((parts, body.to_bytes().to_vec()));
            }
            Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
        }
    });
    let stream = SentBytes(data);
    let mut builder = http1::Builder::new();
    builder
        .half_close(true)
        .header_read_timeout(None)
        .max_headers(BOUNDS.headers + 1);
    let mut served = std::pin::pin!(builder.serve_connection(stream, service));
    let mut context = Context::from_waker(Waker::noop());
    // Nothing is ever waited for, so a few polls are enough.
    for _ in 0..1_000 {
        if served.as_mut().poll(&mut context).is_ready() {
            break;
        }
    }
    seen.take()
}

/// A stream of which everything has come.
struct SentBytes<'a>(&'a [u8]);

impl Read for SentBytes<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let (now, later) = self.0.split_at(buf.remaining().min(self.0.len()));
        buf.put_slice(now);
        self.0 = later;
        Poll::Ready(Ok(()))
    }
}

impl Write for SentBytes<'_> {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
