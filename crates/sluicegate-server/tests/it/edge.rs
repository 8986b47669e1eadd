//! A proxy in front of a server, both in this process and on loopback.
//!
//! Servers come from the test kit; what needs the `sluicegate` program is in the tests of the cli.

use std::net::SocketAddr;
use std::sync::Arc;

use sluicegate_config as config;
use sluicegate_core::{FailurePolicy, Limit, Nanos, Policy, Quota};
use sluicegate_server::{Embedded, UsedMemory};

/// A running proxy; it ends when dropped.
pub struct Edge {
    pub address: SocketAddr,
    server: Embedded,
}

impl Edge {
    /// In front of this server, with these limits, and times so short that no test waits for a connection to end.
    pub fn start(upstream: SocketAddr, limits: Vec<Limit>) -> Self {
        Self::with(upstream, limits, |_| {})
    }

    /// The same, with further settings.
    pub fn with(
        upstream: SocketAddr,
        limits: Vec<Limit>,
        set: impl FnOnce(&mut config::Config),
    ) -> Self {
        let mut config = config(upstream, limits);
        set(&mut config);
        Self::of(Embedded::start(config).unwrap())
    }

    /// The same without limits, where `used_memory` says how much memory is used.
    pub fn with_used_memory(
        upstream: SocketAddr,
        set: impl FnOnce(&mut config::Config),
        used_memory: Box<UsedMemory>,
    ) -> Self {
        let mut config = config(upstream, Vec::new());
        set(&mut config);
        Self::of(Embedded::with_used_memory(config, used_memory).unwrap())
    }

    fn of(server: Embedded) -> Self {
        Self {
            address: server.proxy_addresses()[0],
            server,
        }
    }

    /// The address of the admin API, if it is on.
    pub fn admin(&self) -> Option<SocketAddr> {
        self.server.admin_address()
    }
}

/// One request a day for each client.
pub fn one_a_day() -> Vec<Limit> {
    vec![Limit::per_client("day", Quota::per_day(1).burst(1))]
}

fn config(upstream: SocketAddr, limits: Vec<Limit>) -> config::Config {
    let server = config::Upstream::Server {
        tls: false,
        host: upstream.ip().to_string(),
        port: upstream.port(),
        http: config::UpstreamHttp::Http1,
        ca_file: None,
    };
    let millis = |count: u64| Nanos::from_millis(count);
    config::Config {
        switched_off: Vec::new(),
        value_files: Vec::new(),
        external: None,
        proxy: Some(config::Proxy {
            listen: vec!["127.0.0.1:0".parse().unwrap()],
            routes: vec![config::Route {
                host: None,
                path: None,
                upstreams: vec![server],
            }],
            tls: None,
            timeouts: config::Timeouts {
                header: millis(2000),
                idle: millis(2000),
                stalled_client: millis(2000),
                stalled_server: millis(10_000),
                connect: millis(5000),
                upstream_wait: millis(1000),
                request: millis(10_000),
                drain: millis(100),
            },
            max_connections: 10_000,
            max_connections_per_upstream: 1_024,
            max_connections_per_client: None,
            max_buffered_per_connection: 1 << 20,
            bounds: config::Bounds {
                header_bytes: 64 << 10,
                headers: 100,
                target_bytes: 8 << 10,
                body_bytes: None,
            },
            refused_requests: None,
            proxy_protocol_from: Vec::new(),
            workers: Some(1),
        }),
        decisions: config::Decisions::default(),
        admin: config::Admin {
            listen: None,
            token_file: None,
        },
        overload: config::Overload::default(),
        client_ip: config::ClientIp {
            trusted_proxies: Vec::new(),
            header: config::ProxyHeader::default(),
            prefixes: Default::default(),
        },
        principals: config::Principals::default(),
        access: config::Access::default(),
        store: config::Store {
            on_failure: FailurePolicy::default(),
            kind: config::StoreKind::Local {
                max_keys: 10_000,
                sweep: Nanos::from_secs(60),
            },
        },
        policy: Arc::new(Policy::new(limits).unwrap()),
        response: config::Response {
            headers: vec![config::HeaderStyle::XRateLimit],
            body: config::BodyStyle::default(),
            reject: None,
            body_files: Vec::new(),
        },
        log: config::Log {
            format: config::LogFormat::default(),
            access: false,
            rate_limit_line: false,
        },
        traces: None,
        warnings: Vec::new(),
    }
}
