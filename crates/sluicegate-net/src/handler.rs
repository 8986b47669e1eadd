//! The seam between the engine and the program behind it.
//!
//! The engine reads requests and writes responses; a [`Handler`] turns one into the other. It is
//! called in the task of the connection, statically dispatched and without a box, so the future of
//! a request lives inside the future of its connection.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::task::Context;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http_body::Body;
use http_body_util::Full;
use sluicegate_config::Bounds;

use crate::activity::Activity;
use crate::client_connections::ClientPermit;
use crate::http1_client::PrivateConnections;
use crate::request_body::ClientBody;
use crate::request_parts::RequestParts;
use crate::response::HttpResponse;
use crate::upgrade::SwitchedServer;
use crate::validate::{self, BodyEnd, InvalidRequest};

/// Answers requests.
///
/// The handler of a connection is shared by all of its requests, and by all connections of an
/// endpoint unless it is made anew for each.
pub trait Handler: Send + Sync + Sized + 'static {
    /// The body of its responses.
    type Body: ResponseBody;

    /// Answers a request, whatever it is. If the client goes away, the future is dropped.
    ///
    /// A request whose `end` is an error must be answered with a response that closes the
    /// connection: the next request cannot be found.
    ///
    /// The request stays with its connection, which uses its memory again for the next one. A handler
    /// that has to keep it takes it out ([`IncomingRequest::take`]).
    fn handle(
        connection: &Arc<Connection<Self>>,
        request: &mut IncomingRequest,
    ) -> impl Future<Output = HttpResponse<Self::Body>> + Send;

    /// Asked when a client has sent something that is not HTTP: false closes its connection without
    /// an answer.
    fn answers_malformed(_connection: &Connection<Self>) -> bool {
        true
    }

    /// The bounds within which the whole body of a request has to come over HTTP/2 before the handler
    /// runs, which then finds it in [`ClientBody::Whole`]; `None` runs the handler at once. Asked
    /// when the head of a request with a body has come.
    fn whole_body(&self, _parts: &Parts) -> Option<WholeBodyBounds> {
        None
    }

    /// When a client of HTTP/2 that says nothing is asked for a sign of life; `None` never asks.
    const SIGN_OF_LIFE: Option<SignOfLife> = None;

    /// True when a stream of HTTP/2 may change its protocol (RFC 8441). Its request is a GET then
    /// for which [`upgrade_of`](crate::upgrade_of) has an answer, and the body of its response takes
    /// over the body of the request ([`Tunnel`](crate::Tunnel)).
    const TAKES_EXTENDED_CONNECT: bool = false;

    /// True when a request of HTTP/1 keeps the bytes of its head, as
    /// [`HeadBytes`](crate::HeadBytes) in the extensions of its parts. Asked once for each request,
    /// when its head has come.
    fn keeps_head_bytes(&self) -> bool {
        false
    }
}

/// Bounds of a body that is waited for as a whole.
#[derive(Clone, Copy, Debug)]
pub struct WholeBodyBounds {
    /// The most bytes. With one more, the handler runs and finds [`BodyError::TooLarge`].
    ///
    /// [`BodyError::TooLarge`]: crate::BodyError::TooLarge
    pub bytes_max: usize,
    /// The longest time. After it, the handler runs and finds [`BodyError::Stalled`].
    ///
    /// [`BodyError::Stalled`]: crate::BodyError::Stalled
    pub longest: Duration,
}

/// How a connection is found out whose client is gone or hangs.
#[derive(Clone, Copy, Debug)]
pub struct SignOfLife {
    /// The silence after which the client gets a PING.
    pub after: Duration,
    /// The time that it has to send something, or its connection is closed.
    pub longest: Duration,
}

/// One client's connection, as its requests see it.
pub struct Connection<H> {
    /// Answers the requests of this connection.
    pub handler: Arc<H>,
    /// The client, or the balancer in front of it if that does not name the client.
    pub peer: SocketAddr,
    /// The client came over TLS.
    pub is_tls: bool,
    /// The server's name in the client's TLS handshake, lower case; `None` without TLS or name.
    pub server_name: Option<Box<str>>,
    /// The client speaks HTTP/2.
    pub is_http2: bool,
    /// Size of the requests that are read on this connection.
    pub(crate) bounds: Bounds,
    pub(crate) activity: Arc<Activity>,
    /// Connections to servers that belong to this client; most clients never have one.
    pub(crate) private_connections: OnceLock<Arc<PrivateConnections>>,
    /// Counts for the client that the PROXY protocol named.
    pub(crate) _client: ClientPermit,
}

impl<H> Connection<H> {
    /// The connections to servers that only this client may use; `None` if it never had one.
    pub fn private_connections(&self) -> Option<&Arc<PrivateConnections>> {
        self.private_connections.get()
    }

    /// The same, for a first one to be kept.
    pub fn make_private_connections(&self) -> &Arc<PrivateConnections> {
        self.private_connections.get_or_init(Arc::default)
    }

    /// Refuses a head that is larger than this connection allows. Heads that are much larger were
    /// refused before they were complete. [`validate`](crate::validate()) does this too.
    pub fn check_size(&self, parts: &Parts) -> Result<(), InvalidRequest> {
        validate::check_size(parts, &self.bounds)
    }
}

/// A request whose head has come.
pub struct IncomingRequest {
    /// The head.
    pub parts: RequestParts,
    /// End of the body by its headers, or the reason why it is in doubt.
    pub end: Result<BodyEnd, InvalidRequest>,
    /// The body, which is read when it is polled.
    pub body: ClientBody,
}

impl IncomingRequest {
    /// A request of HTTP/2, whose headers nobody remembers.
    pub(crate) fn new(
        parts: Parts,
        end: Result<BodyEnd, InvalidRequest>,
        body: ClientBody,
    ) -> Self {
        Self {
            parts: parts.into(),
            end,
            body,
        }
    }

    /// A place for a request that has not come yet.
    pub(crate) fn none() -> Self {
        Self {
            parts: RequestParts::none(),
            end: Ok(BodyEnd::None),
            body: ClientBody::default(),
        }
    }

    /// The request, for a handler that needs it longer than it runs.
    pub fn take(&mut self) -> Self {
        std::mem::replace(self, Self::none())
    }

    /// Lets go of all that the request holds, but for headers that may come again.
    pub(crate) fn end(&mut self) {
        self.body = ClientBody::default();
        self.parts.end();
    }
}

/// The body of a response.
pub trait ResponseBody:
    Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static
{
    /// The server that takes the connection over after this response, if it has agreed to. Asked
    /// once, over HTTP/1 only.
    fn take_switched(&mut self) -> Option<Box<SwitchedServer>> {
        None
    }

    /// The whole body, if it is here to its end. Over HTTP/2 a short one is then sent together with
    /// the head, and never polled.
    fn complete(&self) -> Option<CompleteBody<'_>> {
        None
    }

    /// Told when a [complete](Self::complete) body was sent together with the head.
    fn sent_complete(&mut self) {}

    /// True when a connection of HTTP/2 takes no more requests after this response. Over HTTP/1,
    /// [`HttpResponse::closes`] says it.
    fn ends_connection(&self) -> bool {
        false
    }

    /// Called over HTTP/2 whenever the stream was woken, also while nothing more of the response can
    /// be sent: takes on what the client sends, where the response belongs to both directions.
    fn poll_upload(&mut self, _cx: &mut Context<'_>) {}

    /// Told over HTTP/2 before each poll: the next part should have at most so many bytes, because
    /// it waits in memory until the client takes it. A body that was read already may ignore it.
    fn limit_next_part(&mut self, _bytes_max: usize) {}
}

impl ResponseBody for Full<Bytes> {}

/// The body of a response that is here to its end.
#[derive(Clone, Copy, Debug)]
pub struct CompleteBody<'a> {
    /// All of its bytes.
    pub data: &'a [u8],
    /// Names in lower case, and values.
    pub trailers: &'a [(&'static str, &'static str)],
}
