//! The contestants of `bench decisions` and their setup: in memory, two threads where it has threads, no log.

use std::net::SocketAddr;
use std::path::Path;

use super::loads::DecisionsProtocol;
use crate::samples::ServerContestant;

/// A server that decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionsContestant {
    Sluicegate,
    Throttlecrab,
    /// Redis, with the script of `bench redis` called once per decision.
    Redis,
}

impl DecisionsContestant {
    pub const ALL: [Self; 3] = [Self::Sluicegate, Self::Throttlecrab, Self::Redis];

    pub fn speaks(self, protocol: DecisionsProtocol) -> bool {
        self != Self::Redis || protocol == DecisionsProtocol::Resp
    }

    /// The words to start it with; `config` is where [`DecisionsContestant::config`] was written.
    pub fn arguments(
        self,
        protocol: DecisionsProtocol,
        listen: SocketAddr,
        config: &Path,
    ) -> Vec<String> {
        let (host, port) = (listen.ip().to_string(), listen.port().to_string());
        match self {
            Self::Sluicegate => ["serve", "--config", &config.to_string_lossy()]
                .map(str::to_string)
                .into(),
            Self::Throttlecrab => {
                let endpoint = match protocol {
                    DecisionsProtocol::Resp => "redis",
                    DecisionsProtocol::Http => "http",
                    DecisionsProtocol::Grpc => "grpc",
                };
                let mut words = vec![format!("--{endpoint}"), format!("--{endpoint}-host"), host];
                words.extend([format!("--{endpoint}-port"), port]);
                words.extend(
                    ["--log-level", "error", "--store-capacity", "200000"].map(str::to_string),
                );
                words
            }
            Self::Redis => {
                let words = [
                    "--bind",
                    &host,
                    "--port",
                    &port,
                    "--save",
                    "",
                    "--appendonly",
                    "no",
                ];
                words.map(str::to_string).into()
            }
        }
    }

    /// The file it reads, if it reads one.
    pub fn config(
        self,
        protocol: DecisionsProtocol,
        listen: SocketAddr,
        admin: SocketAddr,
    ) -> Option<String> {
        let endpoint = match protocol {
            DecisionsProtocol::Resp => "resp",
            DecisionsProtocol::Http => "http",
            DecisionsProtocol::Grpc => "grpc",
        };
        let fill = |template: &str| {
            let filled = template
                .replace("<endpoint>", endpoint)
                .replace("<listen>", &listen.to_string());
            filled.replace("<admin>", &admin.to_string())
        };
        (self == Self::Sluicegate).then(|| fill(include_str!("sluicegate.yaml")))
    }
}

impl ServerContestant for DecisionsContestant {
    const OURS: Self = Self::Sluicegate;

    fn name(self) -> &'static str {
        match self {
            Self::Sluicegate => "sluicegate",
            Self::Throttlecrab => "throttlecrab-server",
            Self::Redis => "Redis + GCRA script",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::running_server::on_loopback;

    #[test]
    fn nothing_is_left_to_fill_in() {
        let [listen, admin] = [1_001, 1_002].map(on_loopback);
        for protocol in [
            DecisionsProtocol::Resp,
            DecisionsProtocol::Http,
            DecisionsProtocol::Grpc,
        ] {
            let config = DecisionsContestant::Sluicegate
                .config(protocol, listen, admin)
                .unwrap();
            assert!(
                !config.contains('<') && config.contains("1001") && config.contains("1002"),
                "{config}"
            );
            let words = DecisionsContestant::Throttlecrab
                .arguments(protocol, listen, Path::new("x"))
                .join(" ");
            assert!(words.contains("-port 1001"), "{words}");
        }
        assert_eq!(
            DecisionsContestant::Redis.config(DecisionsProtocol::Resp, listen, admin),
            None
        );
    }

    #[test]
    fn a_script_is_asked_for_in_the_protocol_of_redis_only() {
        assert!(
            DecisionsContestant::Redis.speaks(DecisionsProtocol::Resp)
                && !DecisionsContestant::Redis.speaks(DecisionsProtocol::Http)
        );
        assert!(DecisionsContestant::Throttlecrab.speaks(DecisionsProtocol::Grpc));
    }
}
