//! The client of HTTP/1.1: connections that each wait for one answer at a time.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::connector::Connector;
use super::open_loop::{self, RequestPace};
use super::prepared_request::{Exchange, PreparedRequest, exchange};
use super::requests::BenchRequest;
use super::wire::{BUFFER_MIN, HttpConnection};
use crate::tally::AnswerTally;

/// Connections to one contestant, on a runtime of one thread.
pub struct ClientPool {
    runtime: Runtime,
    connector: Connector,
    connections: Vec<ClientConnection>,
    /// A program that takes longer than this beyond its time is taken for hung.
    patience: Duration,
}

/// A connection, and what it takes to open it again.
struct ClientConnection {
    connector: Connector,
    wire: HttpConnection,
}

impl ClientConnection {
    fn into_parts(self) -> (Connector, HttpConnection) {
        (self.connector, self.wire)
    }
}

/// Connections that are opened at the same time, so that no queue of the contestant overflows.
const OPENED_AT_A_TIME: usize = 64;
const BUFFER_BYTES: usize = 64 << 10;
const PATIENCE: Duration = Duration::from_secs(20);

impl ClientPool {
    /// Opens the connections without a request.
    pub fn open(connector: Connector, count: usize) -> Result<Self, String> {
        let mut pool = Self::nobody(connector)?;
        pool.grow(count, |connector| async move {
            let wire = connector.connect(BUFFER_BYTES).await?;
            Ok(ClientConnection { connector, wire })
        })?;
        Ok(pool)
    }

    /// Opens the connections, asks once on each, and leaves them idle.
    pub fn open_idle(
        connector: Connector,
        count: usize,
        request: BenchRequest,
    ) -> Result<Self, String> {
        let mut pool = Self::nobody(connector)?;
        let bytes: Arc<[u8]> = request.to_bytes().into();
        pool.grow(count, |connector| {
            let bytes = Arc::clone(&bytes);
            async move {
                let mut wire = connector.connect(BUFFER_MIN).await?;
                match exchange(&mut wire, &bytes).await? {
                    Exchange {
                        status,
                        is_last: false,
                        ..
                    } if status == "200" => Ok(ClientConnection { connector, wire }),
                    Exchange { status, .. } => Err(io::Error::other(format!(
                        "answered with {status}, or closed"
                    ))),
                }
            }
        })?;
        Ok(pool)
    }

    /// Asks on all connections until the time is over, and waits for the answers that are on their way.
    pub fn ask(
        &mut self,
        requests: &[BenchRequest],
        duration: Duration,
    ) -> Result<AnswerTally, String> {
        let started = Instant::now();
        let requests: Arc<[PreparedRequest]> = requests.iter().map(PreparedRequest::new).collect();
        let connections = &mut self.connections;
        let asking = async {
            let mut tasks = JoinSet::new();
            for (place, connection) in connections.drain(..).enumerate() {
                let asker = Asker {
                    connection,
                    requests: Arc::clone(&requests),
                    place,
                };
                tasks.spawn(asker.ask(started + duration));
            }
            let mut total = AnswerTally::default();
            while let Some(ended) = tasks.join_next().await {
                let (connection, tally) = ended.map_err(io::Error::other)??;
                connections.push(connection);
                total.add(&tally);
            }
            Ok(total)
        };
        let tally = self
            .runtime
            .block_on(async { timeout(duration + self.patience, asking).await });
        let tally = in_time(tally).map_err(|error| format!("asking: {error}"))?;
        Ok(AnswerTally {
            wall: started.elapsed(),
            ..tally
        })
    }

    /// Asks at a fixed rate, whatever the answers; see [`open_loop`](super::open_loop).
    pub fn ask_at_rate(
        &mut self,
        request: BenchRequest,
        pace: RequestPace,
    ) -> Result<AnswerTally, String> {
        let (connectors, mut wires): (Vec<Connector>, Vec<HttpConnection>) = self
            .connections
            .drain(..)
            .map(ClientConnection::into_parts)
            .unzip();
        let asking = open_loop::ask(&mut wires, PreparedRequest::new(&request), pace);
        let tally = self
            .runtime
            .block_on(async { timeout(pace.duration + self.patience, asking).await });
        let back = connectors.into_iter().zip(wires);
        self.connections
            .extend(back.map(|(connector, wire)| ClientConnection { connector, wire }));
        in_time(tally).map_err(|error| format!("asking at a rate: {error}"))
    }

    fn nobody(connector: Connector) -> Result<Self, String> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("the client cannot be started: {error}"))?;
        Ok(Self {
            runtime,
            connector,
            connections: Vec::new(),
            patience: PATIENCE,
        })
    }

    fn grow<F>(&mut self, count: usize, open: impl Fn(Connector) -> F) -> Result<(), String>
    where
        F: Future<Output = io::Result<ClientConnection>> + Send + 'static,
    {
        let (connector, connections) = (&self.connector, &mut self.connections);
        let opening = async {
            while connections.len() < count {
                let mut tasks = JoinSet::new();
                for _ in 0..OPENED_AT_A_TIME.min(count - connections.len()) {
                    tasks.spawn(open(connector.apart()));
                }
                while let Some(ended) = tasks.join_next().await {
                    connections.push(ended.map_err(io::Error::other)??);
                }
            }
            Ok(())
        };
        let opened = self
            .runtime
            .block_on(async { timeout(self.patience, opening).await });
        in_time(opened).map_err(|error| format!("{count} connections: {error}"))
    }
}

/// One connection's share of the asking.
struct Asker {
    connection: ClientConnection,
    requests: Arc<[PreparedRequest]>,
    /// The request it begins with, counted round, so that not all connections ask the same at a time.
    place: usize,
}

impl Asker {
    async fn ask(self, until: Instant) -> io::Result<(ClientConnection, AnswerTally)> {
        let ClientConnection {
            connector,
            mut wire,
        } = self.connection;
        let mut tally = AnswerTally::default();
        let mut place = self.place;
        while Instant::now() < until {
            let asked = Instant::now();
            if connector.is_for_one_request() {
                wire = connector.connect(BUFFER_MIN).await?;
                // The first connection after the tickets were thrown away has none.
                tally.other += u64::from(!connector.is_as_wanted(&wire));
            }
            let request = &self.requests[place % self.requests.len()];
            let is_last = request.send(&mut wire, &mut tally).await?;
            tally.latencies.record(asked.elapsed());
            place += 1;
            if is_last && !connector.is_for_one_request() {
                wire = connector.connect(BUFFER_BYTES).await?;
                tally.reconnects += 1;
            }
        }
        Ok((ClientConnection { connector, wire }, tally))
    }
}

fn in_time<T>(result: Result<io::Result<T>, tokio::time::error::Elapsed>) -> Result<T, String> {
    match result {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("no end of it in time".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::backend::Backend;
    use super::*;

    #[test]
    fn every_request_is_answered_as_the_backend_answers_it() {
        let backend = Backend::start().unwrap();
        for request in [BenchRequest::Small, BenchRequest::Post, BenchRequest::Large] {
            let before = backend.served();
            let mut pool = ClientPool::open(Connector::plain(backend.address()), 3).unwrap();
            let tally = pool.ask(&[request], Duration::from_millis(30)).unwrap();
            assert!(tally.allowed >= 3, "{request:?}: {tally:?}");
            assert_eq!(
                (tally.rejected, tally.other, tally.reconnects),
                (0, 0, 0),
                "{request:?}"
            );
            assert_eq!(tally.done(), tally.latencies.count());
            assert_eq!(backend.served() - before, tally.allowed);
        }
    }

    #[test]
    fn whoever_never_answers_is_given_up() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut pool = ClientPool::open(Connector::plain(silent.local_addr().unwrap()), 2).unwrap();
        pool.patience = Duration::from_millis(20);
        let failure = pool
            .ask(&[BenchRequest::Small], Duration::from_millis(1))
            .unwrap_err();
        assert_eq!(failure, "asking: no end of it in time");
    }

    #[test]
    fn requests_take_turns_on_each_connection() {
        let backend = Backend::start().unwrap();
        let mut pool = ClientPool::open(Connector::plain(backend.address()), 1).unwrap();
        let requests = [BenchRequest::Small, BenchRequest::Large];
        let tally = pool.ask(&requests, Duration::from_millis(30)).unwrap();
        assert!(tally.allowed >= 2, "{tally:?}");
        assert_eq!(
            tally.other, 0,
            "each answer has the length of its own request"
        );
    }

    #[test]
    fn idle_connections_have_all_been_answered_once() {
        let backend = Backend::start().unwrap();
        let pool = ClientPool::open_idle(
            Connector::plain(backend.address()),
            100,
            BenchRequest::Small,
        )
        .unwrap();
        assert_eq!((pool.connections.len(), backend.served()), (100, 100));
    }
}
