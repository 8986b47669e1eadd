//! A client for well-formed requests, in HTTP/1.1 and in HTTP/2 by prior knowledge.
//!
//! Each request has a connection of its own. Tests that need a connection for several requests, or
//! bytes that no client would send, use [`raw_socket`] and [`h2_frames`](crate::h2_frames).

pub(crate) mod http2;

use std::net::{IpAddr, SocketAddr};

pub use crate::http_response::HttpResponse;
use crate::raw_socket;

/// A request, sent with [`send`](Self::send) or [`send_http2`](Self::send_http2).
///
/// ```
/// use sluicegate_testkit::{HttpRequest, UpstreamRecorder};
///
/// let upstream = UpstreamRecorder::start();
/// let response = HttpRequest::get("/a?b")
///     .headers(&["X-Tenant-Id: acme", "Accept: text/plain"])
///     .send(upstream.address);
/// assert_eq!((response.status(), response.body()), (200, "ok"));
/// assert_eq!(upstream.requests()[0].header("x-tenant-id"), Some("acme"));
/// ```
#[derive(Clone, Debug)]
pub struct HttpRequest {
    method: String,
    target: String,
    host: String,
    /// Written as they are, `Name: value`.
    lines: Vec<String>,
    body: Option<Vec<u8>>,
    trailers: Vec<String>,
    source: Option<IpAddr>,
    is_kept_open: bool,
}

impl HttpRequest {
    /// A request without a body for the host `a.example`.
    pub fn new(method: &str, target: &str) -> Self {
        Self {
            method: method.to_owned(),
            target: target.to_owned(),
            host: "a.example".to_owned(),
            lines: Vec::new(),
            body: None,
            trailers: Vec::new(),
            source: None,
            is_kept_open: false,
        }
    }

    /// A GET of this target.
    pub fn get(target: &str) -> Self {
        Self::new("GET", target)
    }

    /// A POST with this body.
    pub fn post(target: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::new("POST", target).body(body)
    }

    /// Names another host: `Host` in HTTP/1.1, `:authority` in HTTP/2.
    pub fn host(mut self, host: impl ToString) -> Self {
        self.host = host.to_string();
        self
    }

    /// Adds header lines, each as `Name: value`.
    pub fn headers(mut self, lines: &[impl AsRef<str>]) -> Self {
        self.lines
            .extend(lines.iter().map(|line| line.as_ref().to_owned()));
        self
    }

    /// Sends this body. HTTP/1.1 announces its length, or sends it in chunks if trailers follow.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// Sends this line, `Name: value`, behind the body.
    pub fn trailer(mut self, line: &str) -> Self {
        self.trailers.push(line.to_owned());
        self
    }

    /// Connects from another local address, such as 127.0.0.2.
    pub fn from(mut self, source: impl Into<IpAddr>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Lets the connection stay open in HTTP/1.1, for tests that write [`to_http1`](Self::to_http1)
    /// on a connection of theirs.
    pub fn keep_open(mut self) -> Self {
        self.is_kept_open = true;
        self
    }

    /// Sends it in HTTP/1.1 and reads until the server closes, which it is asked to do.
    ///
    /// The response is empty, with status 0, if nobody listens or the server closes without one.
    pub fn send(&self, address: SocketAddr) -> HttpResponse {
        let connected = match self.source {
            Some(source) => raw_socket::connect_from(source, address),
            None => raw_socket::try_connect(address),
        };
        let Ok(stream) = connected else {
            return HttpResponse::default();
        };
        raw_socket::exchange_on(stream, &self.to_http1())
    }

    /// Sends it in HTTP/2 without TLS, by prior knowledge.
    ///
    /// The response is empty, with status 0, if nobody listens or the stream ends without one.
    pub fn send_http2(&self, address: SocketAddr) -> HttpResponse {
        http2::send(self, address)
    }

    /// The bytes of this request in HTTP/1.1.
    pub fn to_http1(&self) -> Vec<u8> {
        let mut head = format!(
            "{} {} HTTP/1.1\r\nHost: {}\r\n",
            self.method, self.target, self.host
        );
        let asks_to_close = |line: &String| {
            let line = line.to_ascii_lowercase();
            line.starts_with("connection:") && line.contains("close")
        };
        if !self.is_kept_open && !self.lines.iter().any(asks_to_close) {
            head += "Connection: close\r\n";
        }
        for line in &self.lines {
            head.extend([line, "\r\n"]);
        }
        let body = self.body.as_deref().unwrap_or_default();
        if !self.trailers.is_empty() {
            head += "Transfer-Encoding: chunked\r\n";
        } else if self.body.is_some() {
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        head += "\r\n";
        if self.trailers.is_empty() {
            return [head.as_bytes(), body].concat();
        }
        let size = format!("{:x}\r\n", body.len());
        let end = format!("\r\n0\r\n{}\r\n\r\n", self.trailers.join("\r\n"));
        [head.as_bytes(), size.as_bytes(), body, end.as_bytes()].concat()
    }
}

/// One request in HTTP/1.1 for `a.example` with these header lines, on a connection of its own.
pub fn request(address: SocketAddr, method: &str, target: &str, lines: &[&str]) -> HttpResponse {
    HttpRequest::new(method, target)
        .headers(lines)
        .send(address)
}
