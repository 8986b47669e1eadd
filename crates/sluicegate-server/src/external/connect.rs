//! Connections to the service: TCP, with TLS where it is asked for.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
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

/// Dials one service, whatever the URL of a request says.
#[derive(Clone)]
pub(super) struct Connector(Arc<Place>);

struct Place {
    host: String,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    timeout: Duration,
}

/// A connection, with or without TLS.
pub(super) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

impl Connection for Box<dyn Io> {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Connector {
    /// Reads certificates; nothing is dialled.
    pub(super) fn new(
        at: &ServiceAddress,
        http: UpstreamHttp,
        timeout: Duration,
    ) -> Result<Self, String> {
        let tls = if at.tls {
            Some(tls::connector(&at.host, http, at.ca_file.as_deref())?)
        } else {
            None
        };
        Ok(Self(Arc::new(Place {
            host: at.host.clone(),
            port: at.port,
            tls,
            timeout,
        })))
    }

    /// A client over such connections, which are used again and again.
    pub(super) fn client<B>(self, set_up: impl FnOnce(&mut Builder)) -> Client<Self, B>
    where
        B: http_body::Body + Send,
        B::Data: Send,
    {
        const IDLE: Duration = Duration::from_secs(30);
        let mut builder = Client::builder(TokioExecutor::new());
        builder
            .pool_idle_timeout(IDLE)
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new());
        set_up(&mut builder);
        builder.build(self)
    }

    async fn dial(self) -> io::Result<TokioIo<Box<dyn Io>>> {
        let Place {
            host,
            port,
            tls,
            timeout,
        } = &*self.0;
        let connecting = async {
            let stream = TcpStream::connect((host.as_str(), *port)).await?;
            stream.set_nodelay(true)?;
            let stream: Box<dyn Io> = match tls {
                None => Box::new(stream),
                Some((connector, name)) => Box::new(connector.connect(name.clone(), stream).await?),
            };
            Ok(TokioIo::new(stream))
        };
        tokio::time::timeout(*timeout, connecting)
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Box<dyn Io>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        Box::pin(self.clone().dial())
    }
}

/// `http://host:port` or `https://host:port`.
pub(super) fn origin(at: &ServiceAddress) -> String {
    let scheme = if at.tls { "https" } else { "http" };
    match at.host.contains(':') {
        true => format!("{scheme}://[{}]:{}", at.host, at.port),
        false => format!("{scheme}://{}:{}", at.host, at.port),
    }
}
