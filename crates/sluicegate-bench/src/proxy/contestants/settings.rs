//! The values that the templates of configurations are filled in with.

use std::net::SocketAddr;
use std::path::Path;

use sluicegate_testkit::TlsFiles;

use super::super::loads::{ClientProtocol, IDLE_CONNECTIONS, LoadAnswer};
use super::twenty_limits;
use crate::rate::Rate;

/// The circumstances that a contestant is configured for.
pub struct ProxySettings<'a> {
    pub listen: SocketAddr,
    pub protocol: ClientProtocol,
    pub upstream: SocketAddr,
    /// The address of our admin listener.
    pub admin: SocketAddr,
    pub rate: Rate,
    pub answer: LoadAnswer,
    pub counters: Counters,
    /// Its own, for files it writes.
    pub directory: &'a Path,
    pub tls: &'a TlsFiles,
    /// It runs under callgrind.
    pub is_counted: bool,
}

/// Where a contestant has its numbers from, and where it counts.
#[derive(Clone, Copy)]
pub enum Counters {
    /// All in the process itself.
    Local,
    /// Ours counts in Redis; Envoy asks a service that does.
    Redis {
        redis: SocketAddr,
        service: SocketAddr,
    },
    /// Ours has its quota from a service, and Redis keeps the answers.
    ExternalQuota {
        service: SocketAddr,
        redis: SocketAddr,
    },
}

/// Connections each of them is told to expect: the idle ones and those to the backend.
const CONNECTIONS_MAX: usize = IDLE_CONNECTIONS + 1_144;
/// The certificate and its key in one file, as HAProxy wants them.
pub const COMBINED_PEM: &str = "server-with-key.pem";

impl ProxySettings<'_> {
    /// Replaces each `<name>` by its value.
    pub fn fill(&self, template: &str) -> String {
        let fill = |text: String, (name, value): &(&str, String)| {
            text.replace(&format!("<{name}>"), value)
        };
        // Blocks have places of their own, so they come first.
        let text = self.blocks().iter().fold(template.to_string(), fill);
        self.values().iter().fold(text, fill)
    }

    fn blocks(&self) -> Vec<(&'static str, String)> {
        let mut blocks = vec![
            ("sluicegate_store", self.sluicegate_store()),
            ("sluicegate_tls", self.sluicegate_tls()),
            ("nginx_tls", self.nginx_tls()),
            ("nginx_single_process", self.nginx_single_process()),
            ("sluicegate_workers", self.sluicegate_workers()),
            ("envoy_limit_filter", self.envoy_filter().to_string()),
            ("envoy_route_limits", self.envoy_route_limits().to_string()),
            ("envoy_service_cluster", self.envoy_service().to_string()),
        ];
        let limits = twenty_limits::blocks(&self.nginx_burst());
        let is_mixed = self.answer == LoadAnswer::Mixed;
        blocks.extend(limits.map(|(name, block)| {
            let block = if is_mixed { block } else { String::new() };
            (name, block)
        }));
        blocks
    }

    fn values(&self) -> Vec<(&'static str, String)> {
        let is_h2 = self.protocol == ClientProtocol::Http2;
        let is_tls = matches!(self.protocol, ClientProtocol::Tls(_));
        let combined = self.directory.join(COMBINED_PEM).display().to_string();
        let (nginx_protocol, haproxy_protocol) = match (is_h2, is_tls) {
            (true, _) => (" http2", " proto h2".to_string()),
            (_, true) => (" ssl", format!(" ssl crt {combined} ssl-min-ver TLSv1.3")),
            _ => ("", String::new()),
        };
        let (service, redis) = match self.counters {
            Counters::Local => (String::new(), String::new()),
            Counters::Redis { service, redis } | Counters::ExternalQuota { service, redis } => {
                (service.to_string(), redis.to_string())
            }
        };
        let service_port = service.rsplit(':').next().unwrap_or_default().to_string();
        vec![
            ("listen", self.listen.to_string()),
            ("listen_port", self.listen.port().to_string()),
            ("upstream", self.upstream.to_string()),
            ("upstream_port", self.upstream.port().to_string()),
            ("admin", self.admin.to_string()),
            ("count", self.rate.count.to_string()),
            ("burst", self.rate.burst.to_string()),
            ("nginx_burst", self.nginx_burst()),
            ("nginx_protocol", nginx_protocol.to_string()),
            ("haproxy_protocol", haproxy_protocol),
            ("connections_max", CONNECTIONS_MAX.to_string()),
            (
                "haproxy_threads",
                if self.is_counted { "1" } else { "2" }.to_string(),
            ),
            ("directory", self.directory.display().to_string()),
            (
                "certificate",
                self.tls.server_certificate().display().to_string(),
            ),
            ("key", self.tls.server_key().display().to_string()),
            ("service", service),
            ("service_port", service_port),
            ("redis", redis),
        ]
    }

    /// nginx counts what may come on top of the rate.
    fn nginx_burst(&self) -> String {
        match self.rate.burst {
            0 | 1 => String::new(),
            burst => format!("burst={} nodelay", burst - 1),
        }
    }

    fn sluicegate_store(&self) -> String {
        match self.counters {
            Counters::Redis { .. } => {
                "store:\n  kind: redis\n  redis: { endpoints: [\"<redis>\"] }\n"
            }
            // As many as the tables of the others hold: 10 MiB of nginx, 100k of HAProxy.
            Counters::Local | Counters::ExternalQuota { .. } => {
                "store:\n  kind: local\n  local: { max_keys: 100000 }\n"
            }
        }
        .to_string()
    }

    fn sluicegate_tls(&self) -> String {
        match self.protocol {
            ClientProtocol::Tls(_) => {
                "  tls: { cert: \"<certificate>\", key: \"<key>\" }\n".to_string()
            }
            ClientProtocol::Http1 | ClientProtocol::Http2 => String::new(),
        }
    }

    fn nginx_tls(&self) -> String {
        match self.protocol {
            ClientProtocol::Tls(_) => "        ssl_certificate <certificate>;\n        \
                                       ssl_certificate_key <key>;\n        \
                                       ssl_protocols TLSv1.3;\n        \
                                       # Tickets are enough to resume; a cache beside them is only work.\n        \
                                       ssl_session_cache off;\n        \
                                       ssl_session_tickets on;\n"
                .to_string(),
            ClientProtocol::Http1 | ClientProtocol::Http2 => String::new(),
        }
    }

    /// Threads take turns under callgrind, and what one does while it waits for the others would be counted.
    fn sluicegate_workers(&self) -> String {
        let line = if self.is_counted {
            "  workers: 1\n"
        } else {
            ""
        };
        line.to_string()
    }

    /// Callgrind cannot be told to begin in a process that was forked.
    fn nginx_single_process(&self) -> String {
        let line = if self.is_counted {
            "master_process off;\n"
        } else {
            ""
        };
        line.to_string()
    }

    fn envoy_filter(&self) -> &'static str {
        match self.counters {
            Counters::Redis { .. } => include_str!("envoy-service-limit.yaml"),
            Counters::Local | Counters::ExternalQuota { .. } => {
                include_str!("envoy-local-limit.yaml")
            }
        }
    }

    fn envoy_route_limits(&self) -> &'static str {
        match self.counters {
            Counters::Redis { .. } => {
                "                            rate_limits: [{ actions: [{ remote_address: {} }] }]\n"
            }
            Counters::Local | Counters::ExternalQuota { .. } => "",
        }
    }

    fn envoy_service(&self) -> &'static str {
        match self.counters {
            Counters::Redis { .. } => include_str!("envoy-service-cluster.yaml"),
            Counters::Local | Counters::ExternalQuota { .. } => "",
        }
    }
}
