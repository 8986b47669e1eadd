//! Connections to a service: TCP, with TLS when the configuration says `https`.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::client::legacy::{Builder, Client};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::ServerName;
use sluicegate_config::{ServiceAddress, UpstreamHttp};
use sluicegate_net::tls;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tower::Service;

/// Connects to the one configured service, whatever the URL of a request says. Clones are cheap.
#[derive(Clone)]
pub(crate) struct ServiceConnector(Arc<ServiceEndpoint>);

/// The address of the service, with what is needed to connect to it.
struct ServiceEndpoint {
    /// A name, resolved anew for each connection, or an address.
    host: String,
    port: u16,
    /// The TLS client and the name that the certificate must have.
    tls: Option<(TlsConnector, ServerName<'static>)>,
    /// For name resolution, TCP and TLS together.
    timeout: Duration,
    /// Connections that were made so far.
    dials: AtomicU64,
}

/// A connection, with or without TLS, behind one type for the HTTP client.
pub(crate) trait ServiceStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ServiceStream for T {}

impl Connection for Box<dyn ServiceStream> {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl ServiceConnector {
    /// Reads certificates; no connection is made yet.
    pub(crate) fn new(
        address: &ServiceAddress,
        http: UpstreamHttp,
        timeout: Duration,
    ) -> Result<Self, String> {
        let tls = if address.tls {
            Some(tls::connector(
                &address.host,
                http,
                address.ca_file.as_deref(),
            )?)
        } else {
            None
        };
        Ok(Self(Arc::new(ServiceEndpoint {
            host: address.host.clone(),
            port: address.port,
            tls,
            timeout,
            dials: AtomicU64::new(0),
        })))
    }

    /// The number of connections that were made so far; the last one has it as its name.
    pub(crate) fn dials(&self) -> u64 {
        self.0.dials.load(Ordering::Relaxed)
    }

    /// An HTTP client that reuses its connections. `set_up` adds what the protocol needs.
    pub(crate) fn client<B>(self, set_up: impl FnOnce(&mut Builder)) -> Client<Self, B>
    where
        B: http_body::Body + Send,
        B::Data: Send,
    {
        /// Shorter than the idle timeout of most servers, so that a reused connection is rarely
        /// closed.
        const IDLE: Duration = Duration::from_secs(30);
        let mut builder = Client::builder(TokioExecutor::new());
        builder
            .pool_idle_timeout(IDLE)
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new());
        set_up(&mut builder);
        builder.build(self)
    }

    /// Makes one connection.
    async fn dial(self) -> io::Result<TokioIo<Box<dyn ServiceStream>>> {
        let ServiceEndpoint {
            host,
            port,
            tls,
            timeout,
            dials,
        } = &*self.0;
        let connecting = async {
            let stream = TcpStream::connect((host.as_str(), *port)).await?;
            stream.set_nodelay(true)?;
            let stream: Box<dyn ServiceStream> = match tls {
                None => Box::new(stream),
                Some((connector, name)) => Box::new(connector.connect(name.clone(), stream).await?),
            };
            dials.fetch_add(1, Ordering::Relaxed);
            Ok(TokioIo::new(stream))
        };
        tokio::time::timeout(*timeout, connecting)
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl Service<Uri> for ServiceConnector {
    type Response = TokioIo<Box<dyn ServiceStream>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        Box::pin(self.clone().dial())
    }
}

/// The origin of all calls: `http://host:port` or `https://host:port`, an IPv6 address in brackets.
pub(crate) fn origin(address: &ServiceAddress) -> String {
    let scheme = if address.tls { "https" } else { "http" };
    match address.host.contains(':') {
        true => format!("{scheme}://[{}]:{}", address.host, address.port),
        false => format!("{scheme}://{}:{}", address.host, address.port),
    }
}
