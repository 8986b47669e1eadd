//! Who takes part, and how each of them is set up: in memory, two threads where it has threads, no log.

use std::net::SocketAddr;
use std::path::Path;

use super::loads::Protocol;
use crate::samples::Contestant;

/// A server that decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    Sluicegate,
    Throttlecrab,
    /// Redis, with the script of `bench redis` called once per decision.
    Redis,
}

impl Who {
    pub const ALL: [Self; 3] = [Self::Sluicegate, Self::Throttlecrab, Self::Redis];

    pub fn speaks(self, protocol: Protocol) -> bool {
        self != Self::Redis || protocol == Protocol::Resp
    }

    /// The words to start it with; `config` is where [`Who::config`] was written.
    pub fn arguments(self, protocol: Protocol, listen: SocketAddr, config: &Path) -> Vec<String> {
        let (host, port) = (listen.ip().to_string(), listen.port().to_string());
        match self {
            Self::Sluicegate => ["serve", "--config", &config.to_string_lossy()]
                .map(str::to_string)
                .into(),
            Self::Throttlecrab => {
                let door = match protocol {
                    Protocol::Resp => "redis",
                    Protocol::Http => "http",
                    Protocol::Grpc => "grpc",
                };
                let mut words = vec![format!("--{door}"), format!("--{door}-host"), host];
                words.extend([format!("--{door}-port"), port]);
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
        protocol: Protocol,
        listen: SocketAddr,
        admin: SocketAddr,
    ) -> Option<String> {
        let door = match protocol {
            Protocol::Resp => "resp",
            Protocol::Http => "http",
            Protocol::Grpc => "grpc",
        };
        let fill = |template: &str| {
            let filled = template
                .replace("<door>", door)
                .replace("<listen>", &listen.to_string());
            filled.replace("<admin>", &admin.to_string())
        };
        (self == Self::Sluicegate).then(|| fill(include_str!("sluicegate.yaml")))
    }
}

impl Contestant for Who {
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
    use crate::running::on_loopback;

    #[test]
    fn nothing_is_left_to_fill_in() {
        let [listen, admin] = [1_001, 1_002].map(on_loopback);
        for protocol in [Protocol::Resp, Protocol::Http, Protocol::Grpc] {
            let config = Who::Sluicegate.config(protocol, listen, admin).unwrap();
            assert!(
                !config.contains('<') && config.contains("1001") && config.contains("1002"),
                "{config}"
            );
            let words = Who::Throttlecrab
                .arguments(protocol, listen, Path::new("x"))
                .join(" ");
            assert!(words.contains("-port 1001"), "{words}");
        }
        assert_eq!(Who::Redis.config(Protocol::Resp, listen, admin), None);
    }

    #[test]
    fn a_script_is_asked_for_in_the_protocol_of_redis_only() {
        assert!(Who::Redis.speaks(Protocol::Resp) && !Who::Redis.speaks(Protocol::Http));
        assert!(Who::Throttlecrab.speaks(Protocol::Grpc));
    }
}
