//! Certificates for servers that speak TLS.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use tempfile::TempDir;

use crate::watchdog;

/// The server's demand for a certificate of its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAuth {
    /// A client without a certificate of our authority is refused.
    Required,
    /// No certificate is asked for.
    None,
}

/// An authority of our own, a server certificate for `localhost` and 127.0.0.1 and a client certificate, as PEM files.
/// Clones share the directory, which goes with the last of them.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    directory: Arc<TempDir>,
}

impl TlsFiles {
    /// Makes new keys and writes the files.
    pub fn generate() -> Self {
        let directory = watchdog::temporary_directory("tls-");
        write_files(directory.path()).expect("names and keys of ours are valid");
        Self {
            directory: Arc::new(directory),
        }
    }

    /// Certificate of the authority, for clients to trust.
    pub fn authority(&self) -> PathBuf {
        self.directory.path().join("authority.pem")
    }

    /// Certificate of the server.
    pub fn server_certificate(&self) -> PathBuf {
        self.directory.path().join("server.pem")
    }

    /// Private key of the server.
    pub fn server_key(&self) -> PathBuf {
        self.directory.path().join("server.key")
    }

    /// Certificate of the client.
    pub fn client_certificate(&self) -> PathBuf {
        self.directory.path().join("client.pem")
    }

    /// Private key of the client.
    pub fn client_key(&self) -> PathBuf {
        self.directory.path().join("client.key")
    }

    /// The lines by which a server speaks TLS, and nothing else, on this port, also to its primary.
    pub(crate) fn redis_config(&self, port: u16, client_auth: ClientAuth) -> Vec<String> {
        let auth_clients = match client_auth {
            ClientAuth::Required => "yes",
            ClientAuth::None => "no",
        };
        vec![
            "port 0".to_owned(),
            format!("tls-port {port}"),
            format!("tls-ca-cert-file {}", self.authority().display()),
            format!("tls-cert-file {}", self.server_certificate().display()),
            format!("tls-key-file {}", self.server_key().display()),
            format!("tls-auth-clients {auth_clients}"),
            "tls-replication yes".to_owned(),
        ]
    }
}

fn write_files(directory: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, "sluicegate test authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    fs::write(directory.join("authority.pem"), authority.pem())?;

    let names = ["localhost", "127.0.0.1"].map(str::to_owned);
    // Redis is a client as well when it follows a primary.
    let server_usages = [
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    let client_usages = [ExtendedKeyUsagePurpose::ClientAuth];
    let wanted: [(&str, Vec<String>, &[ExtendedKeyUsagePurpose]); 2] = [
        ("server", names.to_vec(), &server_usages),
        ("client", Vec::new(), &client_usages),
    ];
    for (name, alternative_names, usages) in wanted {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(alternative_names)?;
        params
            .distinguished_name
            .push(DnType::CommonName, format!("sluicegate test {name}"));
        params.extended_key_usages = usages.to_vec();
        params.use_authority_key_identifier_extension = true;
        fs::write(
            directory.join(format!("{name}.pem")),
            params.signed_by(&key, &authority)?.pem(),
        )?;
        fs::write(directory.join(format!("{name}.key")), key.serialize_pem())?;
    }
    Ok(())
}
