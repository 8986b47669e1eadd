//! Reads every file that a configuration names, as a start would, and starts nothing.

use std::path::Path;

use sluicegate::Secret;
use sluicegate_config::{Config, Principals, ServerTls};
use sluicegate_gate::auth::Authenticator;
use sluicegate_net::tls;

use crate::file_permissions;
use crate::named_files::{FileKind, NamedFile, named_files};
use crate::token_file::AdminToken;

/// What was found in the files that a configuration names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileReport {
    /// The number of files.
    pub files: usize,
    /// Everything because of which a start would be refused: the key in the configuration, and what
    /// is wrong with the file. No message contains a secret.
    pub mistakes: Vec<(String, String)>,
    /// Sentences about permissions that are wider than they should be.
    pub warnings: Vec<String>,
}

/// The number of files that a configuration names.
pub fn count_files(config: &Config) -> usize {
    named_files(config).len()
}

/// Reads the files. Nothing is fetched, and no connection is made.
pub fn check_files(config: &Config) -> FileReport {
    let files = named_files(config);
    let file_permissions::PermissionReport { mistakes, warnings } = file_permissions::check(&files);
    let mut report = FileReport {
        files: files.len(),
        mistakes,
        warnings,
    };
    let found = files.iter().flat_map(|file| read(file, &files, config));
    for mistake in found.chain(principals(&config.principals)) {
        // Authorities of clients are read with the certificate as well.
        if !report.mistakes.contains(&mistake) {
            report.mistakes.push(mistake);
        }
    }
    report
}

/// The mistakes in one file. A key is read together with its certificate.
fn read(file: &NamedFile<'_>, files: &[NamedFile<'_>], config: &Config) -> Vec<(String, String)> {
    let read = match file.kind {
        FileKind::Authorities => tls::authorities(Some(file.path)).map(drop),
        FileKind::Token => AdminToken::from_file(file.path)
            .map(drop)
            .map_err(|error| error.to_string()),
        FileKind::Password => Secret::from_file(file.path)
            .map(drop)
            .map_err(|error| error.to_string()),
        FileKind::Certificate => return pair(file, files, config),
        // Read with the certificate, by the authenticator, and with the configuration.
        FileKind::PrivateKey
        | FileKind::ApiKeys
        | FileKind::KeySet
        | FileKind::Body
        | FileKind::Value => Ok(()),
    };
    let mistake = read.err().map(|message| (file.place.clone(), message));
    mistake.into_iter().collect()
}

/// Reads a certificate with its key, and the authorities of clients where there are any.
fn pair(cert: &NamedFile<'_>, files: &[NamedFile<'_>], config: &Config) -> Vec<(String, String)> {
    let Some(place) = cert.place.strip_suffix(".cert") else {
        return Vec::new();
    };
    let key_place = format!("{place}.key");
    let Some(key) = files.iter().find(|file| file.place == key_place) else {
        return Vec::new();
    };
    let tls = ServerTls {
        cert: cert.path.to_owned(),
        key: key.path.to_owned(),
    };
    let of_decisions = config.decisions.tls.as_ref();
    let client_ca_file = of_decisions.filter(|_| place == "decisions.tls");
    let client_ca_file = client_ca_file.and_then(|tls| tls.client_ca_file.as_deref());
    let read = tls::server_config(&tls, client_ca_file, place, &[]);
    read.err().into_iter().map(placed).collect()
}

/// The mistakes in the files of credentials.
fn principals(principals: &Principals) -> Vec<(String, String)> {
    let Err(mistakes) = Authenticator::load(principals) else {
        return Vec::new();
    };
    let api_keys = principals.api_keys.as_ref().map(|keys| keys.file.as_path());
    let jwks = principals.jwt.as_ref().and_then(|jwt| jwt.jwks_file());
    let is_in = |mistake: &str, file: Option<&Path>| {
        file.is_some_and(|file| mistake.starts_with(&format!("{}:", file.display())))
    };
    mistakes
        .into_iter()
        .map(|mistake| match mistake {
            mistake if is_in(&mistake, api_keys) => {
                ("principals.api_keys.file".to_owned(), mistake)
            }
            mistake if is_in(&mistake, jwks) => ("principals.jwt.jwks_file".to_owned(), mistake),
            mistake => placed(mistake),
        })
        // The authorities of a URL are read as a file of their own.
        .filter(|(place, _)| place != "principals.jwt.jwks_url")
        .collect()
}

/// Takes a mistake apart that begins with its place.
fn placed(mistake: String) -> (String, String) {
    match mistake.split_once(": ") {
        Some((place, message)) => (place.to_owned(), message.to_owned()),
        None => (String::new(), mistake),
    }
}
