//! TLS to the servers: certificates are read once, when the store is made, and used for every dial.
//!
//! Mistakes in the files are found then, and named by their configuration field.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, crypto};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::super::endpoint::Endpoint;
use super::super::options::TlsOptions;
use super::super::options_error::OptionsError;
use super::connection::NodeConnection;
use super::error::DialCause;

/// The certificates, and the name to expect in those of the servers.
#[derive(Clone)]
pub(super) struct TlsSetup {
    connector: TlsConnector,
    /// `None` takes the host of each endpoint.
    server_name: Option<ServerName<'static>>,
}

impl TlsSetup {
    /// Reads the files that the options name.
    pub(super) fn prepare(options: &TlsOptions) -> Result<Self, OptionsError> {
        const SERVER_NAME: &str = "store.redis.tls.server_name";
        let server_name = options
            .server_name
            .clone()
            .map(ServerName::try_from)
            .transpose();
        let server_name = server_name.map_err(|error| OptionsError::new(SERVER_NAME, error))?;
        let config = client_config(options)?;
        Ok(Self {
            connector: TlsConnector::from(Arc::new(config)),
            server_name,
        })
    }

    /// Performs the handshake and verifies that the server is the one we mean.
    pub(super) async fn handshake(
        &self,
        endpoint: &Endpoint,
        stream: TcpStream,
    ) -> Result<NodeConnection, DialCause> {
        let name = match &self.server_name {
            Some(name) => name.clone(),
            None => ServerName::try_from(endpoint.host().to_owned())
                .map_err(|_| DialCause::ServerName)?,
        };
        let stream = self.connector.connect(name, stream).await?;
        Ok(NodeConnection::Tls(Box::new(stream)))
    }
}

fn client_config(options: &TlsOptions) -> Result<ClientConfig, OptionsError> {
    // Chosen here, so that the program around us need not choose a provider for the whole process.
    let provider = Arc::new(crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| OptionsError::new("store.redis.tls", error))?
        .with_root_certificates(roots(options.ca_file.as_deref())?);
    let Some(own) = &options.client_cert else {
        return Ok(builder.with_no_client_auth());
    };
    let chain = certificates("store.redis.tls.cert_file", &own.cert_file)?;
    let key = private_key("store.redis.tls.key_file", &own.key_file)?;
    builder
        .with_client_auth_cert(chain, key)
        .map_err(|error| OptionsError::new("store.redis.tls.key_file", error))
}

/// The authorities to trust: those of the file, or those of the system.
fn roots(ca_file: Option<&Path>) -> Result<RootCertStore, OptionsError> {
    const CA_FILE: &str = "store.redis.tls.ca_file";
    let mut roots = RootCertStore::empty();
    let Some(path) = ca_file else {
        // Single certificates of the system that cannot be parsed are left out; none at all is an
        // error, because no server could be verified.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return match roots.is_empty() {
            true => Err(OptionsError::new(
                CA_FILE,
                "must be given, because this system has no trusted authorities",
            )),
            false => Ok(roots),
        };
    };
    for certificate in certificates(CA_FILE, path)? {
        roots
            .add(certificate)
            .map_err(|error| OptionsError::new(CA_FILE, format!("{}: {error}", path.display())))?;
    }
    Ok(roots)
}

/// The certificates in a PEM file, at least one.
fn certificates(field: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, OptionsError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(certificates) if certificates.is_empty() => {
            Err(unusable(field, path, &pem::Error::NoItemsFound))
        }
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(unusable(field, path, &error)),
    }
}

fn private_key(field: &str, path: &Path) -> Result<PrivateKeyDer<'static>, OptionsError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| unusable(field, path, &error))
}

/// An error about a file. It never shows a line of it, because the file may be a private key.
fn unusable(field: &str, path: &Path, error: &pem::Error) -> OptionsError {
    let path = path.display();
    match error {
        pem::Error::Io(error) => OptionsError::new(field, format!("cannot read {path}: {error}")),
        pem::Error::NoItemsFound => OptionsError::new(
            field,
            format!("{path} holds no certificate or key of this kind in PEM"),
        ),
        _ => OptionsError::new(field, format!("{path} is not in PEM")),
    }
}
