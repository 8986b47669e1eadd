//! The contestants of `bench proxy` and their setup: two threads or workers, one limit per client address, no log.

use std::net::SocketAddr;
use std::path::Path;

use super::loads::{ClientProtocol, IDLE_CONNECTIONS};
use crate::rate::Rate;
use crate::samples::ServerContestant;

/// A proxy that limits by client address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyContestant {
    Sluicegate,
    Nginx,
    Haproxy,
    Envoy,
}

/// The values that a configuration template is filled in with.
pub struct ProxySettings<'a> {
    pub listen: SocketAddr,
    pub protocol: ClientProtocol,
    pub upstream: SocketAddr,
    /// The address of our admin listener.
    pub admin: SocketAddr,
    pub rate: Rate,
    /// Where ours has its quota from, if not from its configuration.
    pub external: Option<ExternalQuota>,
    /// Its own, for files it writes.
    pub directory: &'a Path,
}

/// A limits service, and the Redis that keeps its answers.
#[derive(Clone, Copy)]
pub struct ExternalQuota {
    pub service: SocketAddr,
    pub redis: SocketAddr,
}

/// Connections each of them is told to expect: the idle ones and those to the backend.
const CONNECTIONS_MAX: usize = IDLE_CONNECTIONS + 1_144;

impl ProxyContestant {
    pub const ALL: [Self; 4] = [Self::Sluicegate, Self::Nginx, Self::Haproxy, Self::Envoy];

    /// Processes it has once it is ready.
    pub const fn processes(self) -> usize {
        match self {
            Self::Nginx => 3,
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

    pub fn config(self, setting: &ProxySettings<'_>) -> String {
        let template = match self {
            Self::Sluicegate if setting.external.is_some() => {
                include_str!("sluicegate-outside.yaml")
            }
            Self::Sluicegate => include_str!("sluicegate.yaml"),
            Self::Nginx => include_str!("nginx.conf"),
            Self::Haproxy => include_str!("haproxy.cfg"),
            Self::Envoy => include_str!("envoy.yaml"),
        };
        let is_h2 = setting.protocol == ClientProtocol::Http2;
        let Rate { count, burst, .. } = setting.rate;
        // nginx counts what may come on top of the rate.
        let nginx_burst = if burst > 1 {
            format!("burst={} nodelay", burst - 1)
        } else {
            String::new()
        };
        let values = [
            ("listen", setting.listen.to_string()),
            ("listen_port", setting.listen.port().to_string()),
            ("upstream", setting.upstream.to_string()),
            ("upstream_port", setting.upstream.port().to_string()),
            ("admin", setting.admin.to_string()),
            ("count", count.to_string()),
            ("burst", burst.to_string()),
            ("nginx_burst", nginx_burst),
            ("nginx_http2", if is_h2 { " http2" } else { "" }.to_string()),
            (
                "haproxy_http2",
                if is_h2 { " proto h2" } else { "" }.to_string(),
            ),
            ("connections_max", CONNECTIONS_MAX.to_string()),
            ("directory", setting.directory.display().to_string()),
            (
                "service",
                setting
                    .external
                    .map_or_else(String::new, |external| external.service.to_string()),
            ),
            (
                "redis",
                setting
                    .external
                    .map_or_else(String::new, |external| external.redis.to_string()),
            ),
        ];
        let fill = |text: String, (name, value): &(&str, String)| {
            text.replace(&format!("<{name}>"), value)
        };
        values.iter().fold(template.to_string(), fill)
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
    use super::super::loads::rate;
    use super::*;
    use crate::rate::ExpectedAnswer;
    use crate::running_server::on_loopback;

    fn config(
        contestant: ProxyContestant,
        protocol: ClientProtocol,
        answer: ExpectedAnswer,
    ) -> String {
        let [listen, upstream, admin] = [1_001, 1_002, 1_003].map(on_loopback);
        let (rate, external) = (rate(answer), None);
        contestant.config(&ProxySettings {
            listen,
            protocol,
            upstream,
            admin,
            rate,
            external,
            directory: Path::new("/d"),
        })
    }

    #[test]
    fn nothing_is_left_to_fill_in() {
        for contestant in ProxyContestant::ALL {
            let text = config(contestant, ClientProtocol::Http2, ExpectedAnswer::Denied);
            assert!(!text.contains('<'), "{}: {text}", contestant.name());
            assert!(
                text.contains("1001") && text.contains("1002"),
                "{}: {text}",
                contestant.name()
            );
        }
    }

    #[test]
    fn the_limit_is_in_every_configuration() {
        for contestant in ProxyContestant::ALL {
            let [allowed, denied] = [ExpectedAnswer::Allowed, ExpectedAnswer::Denied]
                .map(|answer| config(contestant, ClientProtocol::Http1, answer));
            assert!(
                allowed.contains("1000000") && !denied.contains("1000000"),
                "{}",
                contestant.name()
            );
        }
    }

    #[test]
    fn protocols_are_chosen_where_they_must_be() {
        assert!(
            config(
                ProxyContestant::Nginx,
                ClientProtocol::Http2,
                ExpectedAnswer::Allowed
            )
            .contains("1001 http2 reuseport;")
        );
        assert!(
            config(
                ProxyContestant::Nginx,
                ClientProtocol::Http1,
                ExpectedAnswer::Allowed
            )
            .contains("1001 reuseport;")
        );
        assert!(
            config(
                ProxyContestant::Haproxy,
                ClientProtocol::Http2,
                ExpectedAnswer::Allowed
            )
            .contains("1001 proto h2\n")
        );
    }
}
