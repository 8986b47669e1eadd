//! Our reading of HTTP/1 requests against hyper's: a request that we pass on is the same request
//! for another server.

use std::cell::RefCell;
use std::convert::Infallible;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Waker};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use sluicegate_net::validate;

use crate::http1_request::{BOUNDS, ReadRequest, ReadRequests};
use crate::written_client::WrittenClient;

/// The input is what a client sends on one connection.
pub fn run(data: &[u8]) {
    // hyper reads into a buffer of this size at first.
    if data.len() > 8 * 1024 {
        return;
    }
    let length = data.len();
    let ours = ReadRequests::read(data, length);
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
    for (ours, theirs) in valid.iter().zip(&theirs) {
        let (own, other) = (&ours.head.parts, &theirs.parts);
        assert_eq!(own.method, other.method);
        assert_eq!(own.uri, other.uri);
        assert_eq!(own.version, other.version);
        assert_eq!(own.headers, other.headers);
        assert_eq!(ours.body, theirs.body);
    }
}

fn is_passed_on(request: &ReadRequest) -> bool {
    let Ok(end) = request.head.end else {
        return false;
    };
    let valid = validate(&request.head.parts, end, &BOUNDS, false);
    request.is_complete && valid.is_ok()
}

/// A request as hyper's server gets it.
struct SeenRequest {
    parts: Parts,
    body: Vec<u8>,
}

fn read_with_hyper(data: &[u8]) -> Vec<SeenRequest> {
    let seen: Rc<RefCell<Vec<SeenRequest>>> = Rc::default();
    let service = service_fn(|request: Request<Incoming>| {
        let seen = Rc::clone(&seen);
        async move {
            let (parts, body) = request.into_parts();
            if let Ok(body) = body.collect().await {
                let body = body.to_bytes().to_vec();
                seen.borrow_mut().push(SeenRequest { parts, body });
            }
            let empty = Empty::<Bytes>::new();
            Ok::<_, Infallible>(Response::new(empty))
        }
    });
    let (client, _) = WrittenClient::new(data);
    let stream = TokioIo::new(client);
    let mut builder = http1::Builder::new();
    builder
        .half_close(true)
        .header_read_timeout(None)
        // As many trailers as we take, and more.
        .max_headers(100);
    let served = builder.serve_connection(stream, service);
    let mut served = pin!(served);
    let mut context = Context::from_waker(Waker::noop());
    // Nothing is ever waited for, so a few polls are enough.
    for _ in 0..1_000 {
        if served.as_mut().poll(&mut context).is_ready() {
            break;
        }
    }
    seen.take()
}
