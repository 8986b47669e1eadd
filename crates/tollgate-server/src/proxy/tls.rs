//! TLS on both sides: our certificate towards clients, trust towards servers.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::TlsConnector;
use tollgate_config::{ServerTls, UpstreamHttp};

/// The certificate that clients see. HTTP/2 is offered first.
pub(crate) fn to_clients(files: &ServerTls) -> Result<Arc<ServerConfig>, String> {
    let certs = certificates(&files.cert).map_err(|error| format!("proxy.tls.cert: {error}"))?;
    let key = read(&files.key)
        .and_then(|pem| PrivateKeyDer::from_pem_slice(&pem).map_err(|_| no_pem(&files.key, "private key")))
        .map_err(|error| format!("proxy.tls.key: {error}"))?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("proxy.tls: {error}"))?
        .with_no_client_auth()
        .with_single_cert(certs, key)
        .map_err(|error| format!("proxy.tls: {} and {}: {error}", files.cert.display(), files.key.display()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// How a server is spoken to over TLS; its certificate is always verified.
pub(crate) fn to_upstream(
    host: &str,
    http: UpstreamHttp,
    ca_file: Option<&Path>,
) -> Result<(TlsConnector, ServerName<'static>), String> {
    let name = ServerName::try_from(host.to_owned()).map_err(|_| format!("{host:?} is no host that TLS knows"))?;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = ca_file {
        let own = certificates(path)?;
        roots.add_parsable_certificates(own);
    }
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = match http {
        UpstreamHttp::Auto => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        UpstreamHttp::Http1 => vec![b"http/1.1".to_vec()],
        UpstreamHttp::Http2 => vec![b"h2".to_vec()],
    };
    Ok((TlsConnector::from(Arc::new(config)), name))
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

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
