//! A server behind the proxy that records every request it gets.
//!
//! In HTTP/1.1 it reads as strictly as the standard allows and says what a careful server would not
//! accept ([`RecordedRequest::fault`]), so that a test sees a request that two readers could
//! understand differently. In HTTP/2 the framing is checked by the library that reads it.

mod http1;
mod http2;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use bytes::Bytes;

/// A running upstream server. It serves until the process ends, also when this value is dropped.
///
/// ```
/// use sluicegate_testkit::{HttpRequest, UpstreamRecorder, UpstreamResponse};
///
/// let upstream = UpstreamRecorder::answering(|request| {
///     UpstreamResponse::ok(format!("{} was here", request.method))
/// });
/// let response = HttpRequest::post("/a", "hello").send(upstream.address);
/// assert_eq!(response.body(), "POST was here");
/// assert_eq!(upstream.requests()[0].body, b"hello");
/// ```
#[derive(Debug)]
pub struct UpstreamRecorder {
    /// Where it listens, on loopback.
    pub address: SocketAddr,
    protocol: UpstreamProtocol,
    requests: RequestLog,
}

/// The version of HTTP that an upstream speaks; it understands no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamProtocol {
    /// HTTP/1.1, and HTTP/1.0 for gateways that send it.
    Http1,
    /// HTTP/2 without TLS, by prior knowledge.
    Http2,
}

impl UpstreamProtocol {
    /// Both, for tests that hold for either.
    pub const ALL: [Self; 2] = [Self::Http1, Self::Http2];
}

/// A request as it arrived.
#[derive(Clone, Debug, Default)]
pub struct RecordedRequest {
    /// The request line and headers as they came, without the empty line; in HTTP/2, the same
    /// written out.
    pub head: String,
    /// The method, as written.
    pub method: String,
    /// The request target; in HTTP/2, `:path`.
    pub target: String,
    /// `HTTP/1.0`, `HTTP/1.1` or `HTTP/2`.
    pub version: String,
    /// `:authority` in HTTP/2; `None` in HTTP/1, where `Host` is a header.
    pub authority: Option<String>,
    /// Names in the case in which they came, and values without the space around them.
    pub headers: Vec<(String, String)>,
    /// The body without the sizes of chunks; empty while it has not come completely.
    pub body: Vec<u8>,
    /// Headers that came behind the body.
    pub trailers: Vec<(String, String)>,
    /// True when the body came to its end.
    pub is_complete: bool,
    /// The reason why a careful server would not accept this request, if there is one. It was not
    /// answered then.
    pub fault: Option<String>,
}

impl RecordedRequest {
    /// The first value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.header_values(name).first().copied()
    }

    /// All values of a header, line by line.
    pub fn header_values(&self, name: &str) -> Vec<&str> {
        values(&self.headers, name)
    }

    /// The first value of a trailer.
    pub fn trailer(&self, name: &str) -> Option<&str> {
        values(&self.trailers, name).first().copied()
    }

    /// The target without its query.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }
}

fn values<'a>(lines: &'a [(String, String)], name: &str) -> Vec<&'a str> {
    let named = lines
        .iter()
        .filter(|(own, _)| own.eq_ignore_ascii_case(name));
    named.map(|(_, value)| value.as_str()).collect()
}

/// The response to one request.
///
/// ```
/// # use sluicegate_testkit::UpstreamResponse;
/// let response = UpstreamResponse::ok(r#"{"average": 1}"#)
///     .header("content-type", "application/json")
///     .trailer("x-sum", "5");
/// assert_eq!(response.status, 200);
/// ```
#[derive(Clone, Debug)]
pub struct UpstreamResponse {
    /// Three digits.
    pub status: u16,
    /// In the order in which they are sent; the length is added.
    pub headers: Vec<(String, String)>,
    /// Left out of responses to HEAD.
    pub body: Bytes,
    /// Headers behind the body, which then goes out in chunks.
    pub trailers: Vec<(String, String)>,
}

impl UpstreamResponse {
    /// 200 with this body.
    pub fn ok(body: impl Into<Bytes>) -> Self {
        Self {
            status: 200,
            headers: Vec::new(),
            body: body.into(),
            trailers: Vec::new(),
        }
    }

    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds a trailer.
    pub fn trailer(mut self, name: &str, value: &str) -> Self {
        self.trailers.push((name.to_owned(), value.to_owned()));
        self
    }
}

impl UpstreamRecorder {
    /// A server for HTTP/1.1 that answers everything with 200 and `ok`.
    pub fn start() -> Self {
        Self::start_with(UpstreamProtocol::Http1)
    }

    /// The same in this version of HTTP.
    pub fn start_with(protocol: UpstreamProtocol) -> Self {
        Self::answering_with(protocol, |_| UpstreamResponse::ok("ok"))
    }

    /// A server for HTTP/1.1 with responses of the test's choice. `answer` may block: each
    /// connection has a thread.
    pub fn answering(
        answer: impl Fn(&RecordedRequest) -> UpstreamResponse + Send + Sync + 'static,
    ) -> Self {
        Self::answering_with(UpstreamProtocol::Http1, answer)
    }

    /// The same in this version of HTTP. In HTTP/2 all connections share a thread.
    pub fn answering_with(
        protocol: UpstreamProtocol,
        answer: impl Fn(&RecordedRequest) -> UpstreamResponse + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let address = listener.local_addr().expect("a listener has an address");
        let requests = RequestLog::default();
        let service = Service {
            requests: requests.clone(),
            answer: Arc::new(answer),
        };
        thread::spawn(move || match protocol {
            UpstreamProtocol::Http1 => http1::serve(&listener, &service),
            UpstreamProtocol::Http2 => http2::serve(listener, service),
        });
        Self {
            address,
            protocol,
            requests,
        }
    }

    /// The URL by which a configuration names it: `http://…` or `h2c://…`.
    pub fn url(&self) -> String {
        let scheme = match self.protocol {
            UpstreamProtocol::Http1 => "http",
            UpstreamProtocol::Http2 => "h2c",
        };
        format!("{scheme}://{}", self.address)
    }

    /// Every request so far, also those whose body has not come yet.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.requests.with(|requests| requests.clone())
    }

    /// The only request so far.
    ///
    /// # Panics
    /// If there was none or more than one.
    #[track_caller]
    pub fn only_request(&self) -> RecordedRequest {
        let mut requests = self.requests();
        assert_eq!(requests.len(), 1, "{requests:#?}");
        requests.remove(0)
    }

    /// The number of requests so far.
    pub fn count(&self) -> usize {
        self.requests.with(|requests| requests.len())
    }
}

/// State that the connections of an upstream share.
#[derive(Clone)]
struct Service {
    requests: RequestLog,
    answer: Arc<dyn Fn(&RecordedRequest) -> UpstreamResponse + Send + Sync>,
}

/// The requests in the order in which their heads arrived.
#[derive(Clone, Debug, Default)]
struct RequestLog(Arc<Mutex<Vec<RecordedRequest>>>);

impl RequestLog {
    fn with<T>(&self, read: impl FnOnce(&mut Vec<RecordedRequest>) -> T) -> T {
        let Self(requests) = self;
        // A test that panicked beside us left complete entries: each is written in one step.
        read(&mut requests.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds a request and returns its place, which stays the same.
    fn add(&self, request: RecordedRequest) -> usize {
        self.with(|requests| {
            requests.push(request);
            requests.len() - 1
        })
    }

    fn replace(&self, place: usize, request: RecordedRequest) {
        self.with(|requests| requests[place] = request);
    }
}
