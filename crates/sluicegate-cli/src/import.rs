//! `sluicegate import`: converts another program's limits to our format. The conversion itself is
//! `sluicegate_config::import`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use sluicegate_config::Source;
use sluicegate_config::import::{Format, convert};

use crate::check;
use crate::exit_code::{FAILED, FINE};

/// Programs whose limits can be converted.
#[derive(Subcommand)]
pub enum Program {
    /// EdgeGuard: the limits of its TOML file
    #[command(
        after_help = "Example:\n  sluicegate import edgeguard edgeguard.toml > sluicegate.yaml"
    )]
    Edgeguard(ImportedFile),
    /// EdgeQuota: the limit of its YAML file, with its store and its limits service
    #[command(after_help = "Example:\n  sluicegate import edgequota config.yaml > sluicegate.yaml")]
    Edgequota(ImportedFile),
    /// Envoy's reference rate limit service, envoyproxy/ratelimit: the file of one domain
    #[command(
        after_help = "Example:\n  sluicegate import envoy-ratelimit domain.yaml > sluicegate.yaml"
    )]
    EnvoyRatelimit(ImportedFile),
    /// HAProxy: rules by the http_req_rate of a stick table
    #[command(
        after_help = "Example:\n  sluicegate import haproxy /etc/haproxy/haproxy.cfg > sluicegate.yaml"
    )]
    Haproxy(ImportedFile),
    /// Kong: the plugins rate-limiting and rate-limiting-advanced of a declarative configuration
    #[command(after_help = "Example:\n  sluicegate import kong kong.yaml > sluicegate.yaml")]
    Kong(ImportedFile),
    /// Misskey and Sharkey: the limits of endpoints, as JSON
    #[command(after_help = "Example:\n  sluicegate import misskey limits.json > sluicegate.yaml")]
    Misskey(ImportedFile),
    /// nginx: limit_req_zone and limit_req of nginx.conf and the files it includes
    #[command(
        after_help = "Example:\n  sluicegate import nginx /etc/nginx/nginx.conf > sluicegate.yaml"
    )]
    Nginx(ImportedFile),
    /// Traefik: rateLimit middlewares and their routers, from a file or from objects of Kubernetes
    #[command(after_help = "Example:\n  sluicegate import traefik dynamic.yaml > sluicegate.yaml")]
    Traefik(ImportedFile),
}

/// The file to convert.
#[derive(Args)]
pub struct ImportedFile {
    /// The other program's configuration
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl Program {
    /// Prints the configuration to standard output, and each difference in meaning and each statement
    /// without a counterpart to standard error, so that the output can be redirected into a file.
    pub fn run(&self) -> u8 {
        let (format, file) = self.parts();
        match Source::read(file).and_then(|source| convert(format, &source)) {
            Ok(imported) => {
                print!("{}", imported.yaml);
                for difference in &imported.differences {
                    eprintln!("differs: {difference}");
                }
                for statement in &imported.not_carried_over {
                    eprintln!("not carried over: {statement}");
                }
                FINE
            }
            Err(mistakes) => {
                check::show(&mistakes);
                FAILED
            }
        }
    }

    fn parts(&self) -> (Format, &PathBuf) {
        match self {
            Self::Edgeguard(imported) => (Format::Edgeguard, &imported.file),
            Self::Edgequota(imported) => (Format::Edgequota, &imported.file),
            Self::EnvoyRatelimit(imported) => (Format::EnvoyRatelimit, &imported.file),
            Self::Haproxy(imported) => (Format::Haproxy, &imported.file),
            Self::Kong(imported) => (Format::Kong, &imported.file),
            Self::Misskey(imported) => (Format::Misskey, &imported.file),
            Self::Nginx(imported) => (Format::Nginx, &imported.file),
            Self::Traefik(imported) => (Format::Traefik, &imported.file),
        }
    }
}
