//! Import: limits of other programs converted to our format.
//!
//! Each importer reads the files of one program into a `Draft`. The draft writes itself as
//! YAML, with a comment above every line that differs in meaning, and the result is loaded with our
//! own reader before it is given out. Programs that send each request to one place among many
//! (nginx, Traefik, Kong) describe these places as `scope::Scope`s, from which the frame finds out
//! which limit replaces which.

mod alternatives;
mod cover;
mod draft;
mod edgeguard;
mod edgequota;
mod envoy_ratelimit;
mod foreign_text;
mod foreign_tree;
mod haproxy;
mod kong;
mod misskey;
mod nginx;
mod regex_path;
mod scope;
mod traefik;

use crate::{Mistakes, Source, Syntax, load};

/// The programs whose limits can be converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// EdgeGuard's configuration, in TOML.
    Edgeguard,
    /// EdgeQuota's configuration, in YAML.
    Edgequota,
    /// A file of one domain of envoyproxy/ratelimit.
    EnvoyRatelimit,
    /// HAProxy's configuration, with its stick tables.
    Haproxy,
    /// Kong's declarative configuration.
    Kong,
    /// Limits of endpoints of Misskey or Sharkey, in JSON.
    Misskey,
    /// nginx.conf and the files that it includes.
    Nginx,
    /// Traefik's dynamic configuration, in YAML or TOML, or as objects of Kubernetes.
    Traefik,
}

/// The result of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The configuration in our format.
    pub yaml: String,
    /// The differences in behaviour, a sentence each. Each is also a comment in the YAML.
    pub differences: Vec<String>,
    /// The statements that have no counterpart here, each with its place and the reason.
    pub not_carried_over: Vec<String>,
}

/// Converts a file of another program, or reports every mistake in it.
pub fn convert(format: Format, source: &Source) -> Result<Imported, Mistakes> {
    if source.text.len() > Source::LENGTH_MAX {
        return Err(Mistakes::whole(&source.name, "is longer than 1 MiB"));
    }
    let draft = match format {
        Format::Edgeguard => edgeguard::draft(source),
        Format::Edgequota => edgequota::draft(source),
        Format::EnvoyRatelimit => envoy_ratelimit::draft(source),
        Format::Haproxy => haproxy::draft(source),
        Format::Kong => kong::draft(source),
        Format::Misskey => misskey::draft(source),
        Format::Nginx => nginx::draft(source),
        Format::Traefik => traefik::draft(source),
    }?;
    let imported = draft.into_imported();
    // The result must be a configuration that we accept ourselves.
    let ours = Source {
        name: format!("{}, converted", source.name),
        text: imported.yaml.clone(),
        syntax: Syntax::Yaml,
        base_dir: source.base_dir.clone(),
    };
    load(&ours, &|_| None).map(|_| imported)
}
