//! TLS on both sides: our certificate towards clients, trust towards servers.
//!
//! Errors name the place in the configuration and the file, because an operator has to repair
//! them.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use sluicegate_config::{ServerTls, UpstreamHttp};
use tokio_rustls::TlsConnector;

/// TLS towards clients, from the files configured at `place`. `protocols` are offered in this
/// order; with `client_ca_file` a client must show a certificate of these authorities.
pub fn server_config(
    files: &ServerTls,
    client_ca_file: Option<&Path>,
    place: &str,
    protocols: &[&str],
) -> Result<Arc<ServerConfig>, String> {
    let certs = certificates(&files.cert).map_err(|error| format!("{place}.cert: {error}"))?;
    let key = read(&files.key)
        .and_then(|pem| {
            PrivateKeyDer::from_pem_slice(&pem).map_err(|_| no_pem(&files.key, "private key"))
        })
        .map_err(|error| format!("{place}.key: {error}"))?;
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("{place}: {error}"))?;
    let builder = match client_ca_file {
        None => builder.with_no_client_auth(),
        Some(file) => {
            let verifier = client_verifier(file)
                .map_err(|error| format!("{place}.client_ca_file: {error}"))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_single_cert(certs, key).map_err(|error| {
        format!(
            "{place}: {} and {}: {error}",
            files.cert.display(),
            files.key.display()
        )
    })?;
    config.alpn_protocols = protocols
        .iter()
        .map(|protocol| protocol.as_bytes().to_vec())
        .collect();
    Ok(Arc::new(config))
}

/// Accepts clients with a certificate of the authorities in a file, and no others.
fn client_verifier(file: &Path) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates(file)?);
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
    builder
        .build()
        .map_err(|error| format!("{}: {error}", file.display()))
}

/// TLS towards a server, and the name that its certificate must have. The certificate is always
/// verified.
pub fn connector(
    host: &str,
    http: UpstreamHttp,
    ca_file: Option<&Path>,
) -> Result<(TlsConnector, ServerName<'static>), String> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| format!("{host:?} is no host that TLS knows"))?;
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(authorities(ca_file)?)
        .with_no_client_auth();
    config.alpn_protocols = match http {
        UpstreamHttp::Auto => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        UpstreamHttp::Http1 => vec![b"http/1.1".to_vec()],
        UpstreamHttp::Http2 => vec![b"h2".to_vec()],
    };
    Ok((TlsConnector::from(Arc::new(config)), name))
}

/// Authorities of the system, and those of a file.
pub fn authorities(ca_file: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = ca_file {
        roots.add_parsable_certificates(certificates(path)?);
    }
    Ok(roots)
}

/// The implementation of cryptography, named so that no other is chosen by accident.
fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Certificates of a PEM file; at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let pem = read(path)?;
    let certs: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match certs {
        Ok(certs) if !certs.is_empty() => Ok(certs),
        _ => Err(no_pem(path, "certificate")),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn no_pem(path: &Path, what: &str) -> String {
    format!("{}: holds no {what} in PEM", path.display())
}
