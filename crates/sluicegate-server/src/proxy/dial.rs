//! Connections to the servers behind the proxy: which address of a server is dialled, and for how
//! long.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use sluicegate_gate::external::BackendPolicy;
use sluicegate_net::Transport;
use tokio::net::{TcpStream, lookup_host};

use super::upstream::UpstreamServer;

/// The reason why a server was not connected to.
#[derive(Debug)]
pub(super) enum DialError {
    /// None of its addresses may be dialled, and none was.
    NotAllowed,
    /// It was dialled, or its name looked up, in vain.
    Failed(io::Error),
}

impl From<io::Error> for DialError {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// Connects to a server, with all of TLS, within `timeout`.
pub(super) async fn dial(
    server: &UpstreamServer,
    timeout: Duration,
) -> Result<Transport, DialError> {
    let connected = async {
        let stream = connect(server).await?;
        Ok(Transport::to_server(stream, server.tls.as_ref()).await?)
    };
    tokio::time::timeout(timeout, connected)
        .await
        .unwrap_or_else(|_| Err(DialError::Failed(io::ErrorKind::TimedOut.into())))
}

/// Connects to the first address that answers, of those that may be dialled.
async fn connect(server: &UpstreamServer) -> Result<TcpStream, DialError> {
    let target = (server.host.as_str(), server.port);
    let Some(policy) = &server.policy else {
        return Ok(TcpStream::connect(target).await?);
    };
    // The name is resolved once: the addresses that are checked are those that are dialled.
    first_of(lookup_host(target).await?, policy).await
}

/// A connection to the first of these addresses that may be dialled and answers.
async fn first_of(
    addresses: impl Iterator<Item = SocketAddr>,
    policy: &BackendPolicy,
) -> Result<TcpStream, DialError> {
    let mut last = DialError::NotAllowed;
    for address in addresses.filter(|address| policy.may_dial(address.ip())) {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error.into(),
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use sluicegate_config::BackendUrlSettings;
    use tokio::net::TcpListener;

    use super::*;

    /// A name server that says something else each time, and always something inside.
    fn rebinding(turn: usize, port: u16) -> Vec<SocketAddr> {
        const INSIDE: [&str; 12] = [
            "127.0.0.1",
            "::1",
            "::ffff:127.0.0.1",
            "127.8.8.8",
            "0.0.0.0",
            "::",
            "10.0.0.1",
            "169.254.169.254",
            "64:ff9b::7f00:1",
            "fd00::1",
            "fe80::1",
            "192.168.1.1",
        ];
        let address = |place: usize| INSIDE[place % INSIDE.len()].parse::<IpAddr>().unwrap();
        (turn..turn + 3)
            .map(|place| SocketAddr::new(address(place), port))
            .collect()
    }

    #[tokio::test]
    async fn whatever_a_name_means_this_time_nothing_inside_is_dialled() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let careful = BackendPolicy::new(&BackendUrlSettings::default());
        for turn in 0..60 {
            let refused = first_of(rebinding(turn, port).into_iter(), &careful)
                .await
                .unwrap_err();
            assert!(
                matches!(refused, DialError::NotAllowed),
                "{refused:?}: {:?}",
                rebinding(turn, port)
            );
        }
        let nobody = tokio::time::timeout(Duration::from_millis(1), listener.accept()).await;
        assert!(nobody.is_err(), "somebody was dialled");
        let open = BackendPolicy::new(&BackendUrlSettings {
            deny_private_networks: false,
            ..Default::default()
        });
        assert!(
            first_of(rebinding(0, port).into_iter(), &open)
                .await
                .is_ok(),
            "where it is allowed, it is dialled"
        );
    }
}
