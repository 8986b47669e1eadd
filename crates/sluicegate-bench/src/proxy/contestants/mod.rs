//! The contestants of `bench proxy` and their setup: two threads or workers, one limit per client address, no log.

mod settings;
mod twenty_limits;

use std::path::Path;

pub use self::settings::{COMBINED_PEM, Counters, ProxySettings};
use crate::samples::ServerContestant;

/// The configuration of the service that Envoy asks where the counters are in Redis.
pub const SERVICE_TEMPLATE: &str = include_str!("sluicegate-service.yaml");

/// A proxy that limits by client address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyContestant {
    Sluicegate,
    Nginx,
    Haproxy,
    Envoy,
}

impl ProxyContestant {
    pub const ALL: [Self; 4] = [Self::Sluicegate, Self::Nginx, Self::Haproxy, Self::Envoy];

    /// Processes it has once it is ready. Under callgrind there is one.
    pub const fn processes(self, is_counted: bool) -> usize {
        match self {
            Self::Nginx if !is_counted => 3,
            Self::Nginx => 1,
            Self::Sluicegate | Self::Haproxy | Self::Envoy => 1,
        }
    }

    pub const fn config_name(self) -> &'static str {
        match self {
            Self::Sluicegate => "sluicegate.yaml",
            Self::Nginx => "nginx.conf",
            Self::Haproxy => "haproxy.cfg",
            Self::Envoy => "envoy.yaml",
        }
    }

    pub fn arguments(self, config: &Path) -> Vec<String> {
        let config = config.to_string_lossy().into_owned();
        let words: &[&str] = match self {
            Self::Sluicegate => &["serve", "--config", &config],
            Self::Nginx => &["-e", "stderr", "-c", &config],
            Self::Haproxy => &["-db", "-f", &config],
            Self::Envoy => &[
                "--concurrency",
                "2",
                "--disable-hot-restart",
                "--log-level",
                "error",
                "--config-path",
                &config,
            ],
        };
        words.iter().map(ToString::to_string).collect()
    }

    pub fn config(self, settings: &ProxySettings<'_>) -> String {
        let is_told = matches!(settings.counters, Counters::ExternalQuota { .. });
        settings.fill(match self {
            Self::Sluicegate if is_told => include_str!("sluicegate-outside.yaml"),
            Self::Sluicegate => include_str!("sluicegate.yaml"),
            Self::Nginx => include_str!("nginx.conf"),
            Self::Haproxy => include_str!("haproxy.cfg"),
            Self::Envoy => include_str!("envoy.yaml"),
        })
    }
}

impl ServerContestant for ProxyContestant {
    const OURS: Self = Self::Sluicegate;

    fn name(self) -> &'static str {
        match self {
            Self::Sluicegate => "sluicegate",
            Self::Nginx => "nginx",
            Self::Haproxy => "HAProxy",
            Self::Envoy => "Envoy",
        }
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_testkit::TlsFiles;

    use super::super::loads::{ClientProtocol, LoadAnswer, TlsUse, rate};
    use super::*;
    use crate::running_server::on_loopback;

    fn settings(
        protocol: ClientProtocol,
        answer: LoadAnswer,
        counters: Counters,
        tls: &TlsFiles,
    ) -> ProxySettings<'_> {
        let [listen, upstream, admin] = [1_001, 1_002, 1_003].map(on_loopback);
        ProxySettings {
            listen,
            protocol,
            upstream,
            admin,
            rate: rate(answer),
            answer,
            counters,
            directory: Path::new("/d"),
            tls,
            is_counted: false,
        }
    }

    fn config(
        contestant: ProxyContestant,
        protocol: ClientProtocol,
        answer: LoadAnswer,
        counters: Counters,
    ) -> String {
        contestant.config(&settings(protocol, answer, counters, &TlsFiles::generate()))
    }

    fn local(contestant: ProxyContestant, protocol: ClientProtocol, answer: LoadAnswer) -> String {
        config(contestant, protocol, answer, Counters::Local)
    }

    const TLS: ClientProtocol = ClientProtocol::Tls(TlsUse::KeptConnections);

    #[test]
    fn nothing_is_left_to_fill_in() {
        let (service, redis) = (on_loopback(1_004), on_loopback(1_005));
        let counters = [
            Counters::Local,
            Counters::Redis { service, redis },
            Counters::ExternalQuota { service, redis },
        ];
        for contestant in ProxyContestant::ALL {
            for protocol in [ClientProtocol::Http1, ClientProtocol::Http2, TLS] {
                for answer in [LoadAnswer::Denied, LoadAnswer::Mixed] {
                    for counters in counters {
                        let text = config(contestant, protocol, answer, counters);
                        assert!(!text.contains('<'), "{}: {text}", contestant.name());
                        assert!(text.contains("1001") && text.contains("1002"), "{text}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_limit_is_in_every_configuration() {
        for contestant in ProxyContestant::ALL {
            let [allowed, denied] = [LoadAnswer::Allowed, LoadAnswer::Denied]
                .map(|answer| local(contestant, ClientProtocol::Http1, answer));
            assert!(
                allowed.contains("1000000") && !denied.contains("1000000"),
                "{}",
                contestant.name()
            );
        }
    }

    #[test]
    fn twenty_limits_are_in_the_configurations_of_the_mixed_load_only() {
        for contestant in ProxyContestant::ALL {
            let [one, twenty] = [LoadAnswer::Allowed, LoadAnswer::Mixed]
                .map(|answer| local(contestant, ClientProtocol::Http1, answer));
            assert!(
                twenty.contains("/part19") && twenty.contains("/scarce"),
                "{twenty}"
            );
            assert!(
                !one.contains("/part19") && !one.contains("/scarce"),
                "{one}"
            );
        }
    }

    #[test]
    fn one_thread_is_counted_and_two_are_measured() {
        let files = TlsFiles::generate();
        let config = |contestant: ProxyContestant, is_counted| {
            let (protocol, answer) = (ClientProtocol::Http1, LoadAnswer::Allowed);
            contestant.config(&ProxySettings {
                is_counted,
                ..settings(protocol, answer, Counters::Local, &files)
            })
        };
        let single = [
            (ProxyContestant::Sluicegate, "workers: 1"),
            (ProxyContestant::Nginx, "master_process off;"),
            (ProxyContestant::Haproxy, "nbthread 1"),
        ];
        for (contestant, line) in single {
            assert!(config(contestant, true).contains(line), "{line}");
            assert!(!config(contestant, false).contains(line), "{line}");
        }
    }

    #[test]
    fn protocols_are_chosen_where_they_must_be() {
        let of = |contestant, protocol| local(contestant, protocol, LoadAnswer::Allowed);
        let nginx = |protocol| of(ProxyContestant::Nginx, protocol);
        assert!(nginx(ClientProtocol::Http2).contains("1001 http2 reuseport;"));
        assert!(nginx(ClientProtocol::Http1).contains("1001 reuseport;"));
        assert!(nginx(TLS).contains("1001 ssl reuseport;"));
        let haproxy = |protocol| of(ProxyContestant::Haproxy, protocol);
        assert!(haproxy(ClientProtocol::Http2).contains("1001 proto h2\n"));
        assert!(haproxy(TLS).contains("1001 ssl crt /d/server-with-key.pem"));
        assert!(of(ProxyContestant::Sluicegate, TLS).contains("tls: { cert: "));
    }
}
