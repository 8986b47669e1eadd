//! Dials a node: from an endpoint to a connection that is ready for commands.
//!
//! The steps are those of [`DialStep`]: resolve, connect, TLS, `AUTH`, `SELECT`. They share one
//! timeout, and an error names the step at which the attempt stopped. `probe` checks afterwards
//! whether the node is fit for use.

mod connection;
mod error;
mod login;
#[cfg(test)]
mod tests;
mod tls;

pub(super) use connection::NodeConnection;
pub(super) use error::FailureClass;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout, timeout_at};

use self::error::{DialCause, DialError, DialStep};
use self::tls::TlsSetup;
use super::endpoint::Endpoint;
use super::options::RedisOptions;
use super::options_error::OptionsError;
use super::secret::Credentials;

/// Everything a dial needs except the endpoint: prepared once, used for every connection.
#[derive(Clone)]
pub(super) struct Dialer {
    credentials: Credentials,
    database: u32,
    tls: Option<TlsSetup>,
    /// Longest duration of a whole attempt.
    timeout: Duration,
}

impl Dialer {
    /// Checks the options and reads the certificates. Nothing is dialled.
    pub(super) fn prepare(options: &RedisOptions) -> Result<Self, OptionsError> {
        options.validate()?;
        Ok(Self {
            credentials: options.credentials.clone(),
            database: options.database,
            tls: options.tls.as_ref().map(TlsSetup::prepare).transpose()?,
            timeout: options.connect_timeout.into(),
        })
    }

    /// A dialer for the sentinels, which have credentials of their own and no databases.
    pub(super) fn for_sentinels(&self, credentials: &Credentials) -> Self {
        Self {
            credentials: credentials.clone(),
            database: 0,
            ..self.clone()
        }
    }
}

/// Dials `endpoint`. The connection is encrypted and authenticated as configured, and on the right
/// database.
pub(super) async fn dial(
    endpoint: &Endpoint,
    dialer: &Dialer,
) -> Result<NodeConnection, DialError> {
    let attempt = DialAttempt {
        endpoint,
        timeout: dialer.timeout,
        deadline: Instant::now() + dialer.timeout,
    };
    let lookup = async {
        Ok(lookup_host((endpoint.host(), endpoint.port()))
            .await?
            .collect::<Vec<_>>())
    };
    let addresses = attempt.at(DialStep::Resolve, lookup).await?;
    let stream = attempt
        .at(DialStep::Connect, connect(&addresses, attempt.deadline))
        .await?;
    let mut connection = match &dialer.tls {
        Some(tls) => {
            attempt
                .at(DialStep::Tls, tls.handshake(endpoint, stream))
                .await?
        }
        None => NodeConnection::Plain(stream),
    };
    attempt
        .at(
            DialStep::Auth,
            login::authenticate(&mut connection, &dialer.credentials),
        )
        .await?;
    attempt
        .at(
            DialStep::Select,
            login::select(&mut connection, dialer.database),
        )
        .await?;
    Ok(connection)
}

/// The part of an attempt that all its steps share.
struct DialAttempt<'a> {
    endpoint: &'a Endpoint,
    timeout: Duration,
    deadline: Instant,
}

impl DialAttempt<'_> {
    /// Performs one step in the time that is left; an error names the step.
    async fn at<T>(
        &self,
        step: DialStep,
        action: impl Future<Output = Result<T, DialCause>>,
    ) -> Result<T, DialError> {
        let done = timeout_at(self.deadline, action)
            .await
            .unwrap_or(Err(DialCause::TimedOut(self.timeout)));
        done.map_err(|cause| DialError {
            endpoint: self.endpoint.clone(),
            step,
            cause,
        })
    }
}

/// Connects to the first address that answers. Each gets an equal share of the time that is left,
/// so an address that drops packets does not use up the time of the next one.
async fn connect(addresses: &[SocketAddr], deadline: Instant) -> Result<TcpStream, DialCause> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for (index, address) in addresses.iter().enumerate() {
        let left = u32::try_from(addresses.len() - index).unwrap_or(u32::MAX);
        let share = deadline.saturating_duration_since(Instant::now()) / left;
        match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                tune(&stream)?;
                return Ok(stream);
            }
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last.into())
}

/// Sets the options of a socket: small writes leave at once, and a peer that is gone is noticed
/// within seconds, whether the connection is idle or not.
fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(10))
        .with_interval(Duration::from_secs(5))
        .with_retries(3);
    socket.set_tcp_keepalive(&keepalive)?;
    // Without it, the system retries unacknowledged data ever more slowly, and a connection takes
    // up to half a minute to recover after packets were dropped.
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(Duration::from_secs(2)))?;
    Ok(())
}
