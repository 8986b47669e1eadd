//! Opens the client's connections, in clear text or with a handshake of TLS 1.3.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::ring::{cipher_suite, default_provider, kx_group};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::loads::TlsUse;
use super::wire::{BenchStream, HttpConnection};

/// Where a client's connections go, and how. Each connection has a connector of its own, with its own tickets.
#[derive(Clone)]
pub struct Connector {
    target: SocketAddr,
    tls: Option<TlsClient>,
}

#[derive(Clone)]
struct TlsClient {
    config: ClientConfig,
    tls_use: TlsUse,
    connector: TlsConnector,
}

/// Tickets that a connection keeps: servers send two for each handshake.
const TICKETS: usize = 4;

impl Connector {
    pub const fn plain(target: SocketAddr) -> Self {
        Self { target, tls: None }
    }

    /// Trusts the authority. It offers one cipher suite and one group, so that all contestants compute the same.
    pub fn with_tls(target: SocketAddr, authority: &Path, tls_use: TlsUse) -> Result<Self, String> {
        let failed = |error: &dyn std::fmt::Display| format!("the client's TLS: {error}");
        let mut provider = default_provider();
        provider.cipher_suites = vec![cipher_suite::TLS13_AES_128_GCM_SHA256];
        provider.kx_groups = vec![kx_group::X25519];
        let mut roots = RootCertStore::empty();
        let certificate =
            CertificateDer::from_pem_file(authority).map_err(|error| failed(&error))?;
        roots.add(certificate).map_err(|error| failed(&error))?;
        let config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| failed(&error))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            target,
            tls: Some(TlsClient::new(config, tls_use)),
        })
    }

    /// The same for another connection, without tickets.
    pub fn apart(&self) -> Self {
        let tls = self.tls.as_ref();
        Self {
            target: self.target,
            tls: tls.map(|tls| TlsClient::new(tls.config.clone(), tls.tls_use)),
        }
    }

    pub async fn connect(&self, buffer_bytes: usize) -> io::Result<HttpConnection> {
        let stream = TcpStream::connect(self.target).await?;
        let Some(tls) = &self.tls else {
            return HttpConnection::new(BenchStream::Plain(stream), buffer_bytes);
        };
        stream.set_nodelay(true)?;
        let name = ServerName::IpAddress(self.target.ip().into());
        let stream = tls.connector.connect(name, stream).await?;
        HttpConnection::new(BenchStream::Tls(Box::new(stream)), buffer_bytes)
    }

    /// True when every request has a connection of its own.
    pub fn is_for_one_request(&self) -> bool {
        let tls_use = self.tls.as_ref().map(|tls| tls.tls_use);
        tls_use.is_some_and(|tls_use| tls_use != TlsUse::KeptConnections)
    }

    /// True when a connection after the first has shaken hands as it should.
    pub fn is_as_wanted(&self, wire: &HttpConnection) -> bool {
        let wants_resumed =
            self.tls.as_ref().map(|tls| tls.tls_use) == Some(TlsUse::ResumedHandshakes);
        wire.is_resumed() == wants_resumed
    }
}

impl TlsClient {
    fn new(mut config: ClientConfig, tls_use: TlsUse) -> Self {
        config.resumption = match tls_use {
            TlsUse::KeptConnections | TlsUse::FullHandshakes => Resumption::disabled(),
            TlsUse::ResumedHandshakes => Resumption::in_memory_sessions(TICKETS),
        };
        Self {
            connector: TlsConnector::from(Arc::new(config.clone())),
            config,
            tls_use,
        }
    }
}
