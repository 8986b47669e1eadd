//! The client of HTTP/1.1: connections that each wait for one answer at a time.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::loads::BenchRequest;
use super::wire::{BUFFER_MIN, HttpConnection};
use crate::tally::AnswerTally;

/// Connections to one contestant, on a runtime of one thread.
pub struct ClientPool {
    runtime: Runtime,
    target: SocketAddr,
    connections: Vec<HttpConnection>,
    /// A program that takes longer than this beyond its time is taken for hung.
    patience: Duration,
}

/// Connections that are opened at the same time, so that no queue of the contestant overflows.
const OPENED_AT_A_TIME: usize = 64;
const BUFFER_BYTES: usize = 64 << 10;
const PATIENCE: Duration = Duration::from_secs(20);

impl ClientPool {
    /// Opens the connections without a request.
    pub fn open(target: SocketAddr, count: usize) -> Result<Self, String> {
        let mut pool = Self::nobody(target)?;
        pool.grow(count, |target| async move {
            connect(target, BUFFER_BYTES).await
        })?;
        Ok(pool)
    }

    /// Opens the connections, asks once on each, and leaves them idle.
    pub fn open_idle(
        target: SocketAddr,
        count: usize,
        request: BenchRequest,
    ) -> Result<Self, String> {
        let mut pool = Self::nobody(target)?;
        let bytes: Arc<[u8]> = request.to_bytes().into();
        pool.grow(count, |target| {
            let bytes = Arc::clone(&bytes);
            async move {
                let mut wire = connect(target, BUFFER_MIN).await?;
                match exchange(&mut wire, &bytes).await? {
                    Exchange {
                        status,
                        is_last: false,
                        ..
                    } if status == "200" => Ok(wire),
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
        request: BenchRequest,
        duration: Duration,
    ) -> Result<AnswerTally, String> {
        let bytes: Arc<[u8]> = request.to_bytes().into();
        let (target, started) = (self.target, Instant::now());
        let connections = &mut self.connections;
        let asking = async {
            let mut tasks = JoinSet::new();
            for wire in connections.drain(..) {
                let asker = ClientThread {
                    target,
                    bytes: Arc::clone(&bytes),
                    answer_bytes: request.answer_bytes(),
                };
                tasks.spawn(async move { asker.ask(wire, started + duration).await });
            }
            let mut total = AnswerTally::default();
            while let Some(ended) = tasks.join_next().await {
                let (wire, tally) = ended.map_err(io::Error::other)??;
                connections.push(wire);
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

    fn nobody(target: SocketAddr) -> Result<Self, String> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("the client cannot be started: {error}"))?;
        Ok(Self {
            runtime,
            target,
            connections: Vec::new(),
            patience: PATIENCE,
        })
    }

    fn grow<F>(&mut self, count: usize, open: impl Fn(SocketAddr) -> F) -> Result<(), String>
    where
        F: Future<Output = io::Result<HttpConnection>> + Send + 'static,
    {
        let (target, connections) = (self.target, &mut self.connections);
        let opening = async {
            while connections.len() < count {
                let mut tasks = JoinSet::new();
                for _ in 0..OPENED_AT_A_TIME.min(count - connections.len()) {
                    tasks.spawn(open(target));
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
struct ClientThread {
    target: SocketAddr,
    bytes: Arc<[u8]>,
    /// The length of the body of an allowed answer.
    answer_bytes: usize,
}

impl ClientThread {
    async fn ask(
        &self,
        mut wire: HttpConnection,
        until: Instant,
    ) -> io::Result<(HttpConnection, AnswerTally)> {
        let mut tally = AnswerTally::default();
        while Instant::now() < until {
            let asked = Instant::now();
            let exchange = exchange(&mut wire, &self.bytes).await?;
            match exchange.status.as_str() {
                "200" if exchange.body_bytes == self.answer_bytes => tally.allowed += 1,
                "429" => tally.rejected += 1,
                _ => tally.other += 1,
            }
            tally.latencies.record(asked.elapsed());
            if exchange.is_last {
                wire = connect(self.target, BUFFER_BYTES).await?;
                tally.reconnects += 1;
            }
        }
        Ok((wire, tally))
    }
}

/// A request that was answered.
struct Exchange {
    status: String,
    body_bytes: usize,
    /// The contestant closes the connection after it.
    is_last: bool,
}

async fn exchange(wire: &mut HttpConnection, request: &[u8]) -> io::Result<Exchange> {
    wire.write(request).await?;
    let head = wire.head().await?;
    let head =
        head.ok_or_else(|| io::Error::new(ErrorKind::UnexpectedEof, "closed instead of answered"))?;
    wire.skip(head.content_length).await?;
    Ok(Exchange {
        status: head.word,
        body_bytes: head.content_length,
        is_last: head.is_last,
    })
}

async fn connect(target: SocketAddr, buffer_bytes: usize) -> io::Result<HttpConnection> {
    HttpConnection::new(TcpStream::connect(target).await?, buffer_bytes)
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
            let mut pool = ClientPool::open(backend.address(), 3).unwrap();
            let tally = pool.ask(request, Duration::from_millis(30)).unwrap();
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
        let mut pool = ClientPool::open(silent.local_addr().unwrap(), 2).unwrap();
        pool.patience = Duration::from_millis(20);
        let failure = pool
            .ask(BenchRequest::Small, Duration::from_millis(1))
            .unwrap_err();
        assert_eq!(failure, "asking: no end of it in time");
    }

    #[test]
    fn an_answer_of_another_length_is_not_counted_as_allowed() {
        let backend = Backend::start().unwrap();
        let mut pool = ClientPool::open(backend.address(), 1).unwrap();
        let asker = ClientThread {
            target: backend.address(),
            bytes: BenchRequest::Small.to_bytes().into(),
            answer_bytes: 7,
        };
        let wire = pool.connections.remove(0);
        let until = Instant::now() + Duration::from_millis(5);
        let (_, tally) = pool.runtime.block_on(asker.ask(wire, until)).unwrap();
        assert!(tally.other > 0 && tally.allowed == 0, "{tally:?}");
    }

    #[test]
    fn idle_connections_have_all_been_answered_once() {
        let backend = Backend::start().unwrap();
        let pool = ClientPool::open_idle(backend.address(), 100, BenchRequest::Small).unwrap();
        assert_eq!((pool.connections.len(), backend.served()), (100, 100));
    }
}
