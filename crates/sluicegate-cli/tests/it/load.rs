//! Clients that send requests all the time and record whatever went wrong.

use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};

use sluicegate_testkit::raw_socket::{read_response, try_connect};
use sluicegate_testkit::{HttpResponse, eventually};

/// Responses that clients got.
#[derive(Debug, Default)]
pub struct Counts {
    pub answered: AtomicU64,
    pub limited: AtomicU64,
}

/// Clients under way.
pub struct Load {
    stop: Arc<AtomicBool>,
    pub counts: Arc<Counts>,
    clients: Vec<JoinHandle<Result<(), String>>>,
}

/// How a client uses its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connections {
    /// A new one for each request.
    New,
    /// One for many requests; a new one when the proxy said that it closes.
    Kept,
}

impl Load {
    /// So many clients of each kind.
    pub fn start(proxy: SocketAddr, clients: usize) -> Self {
        let (stop, counts) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(Counts::default()),
        );
        let client = |kind: Connections| {
            let (stop, counts) = (Arc::clone(&stop), Arc::clone(&counts));
            thread::spawn(move || {
                let mut client = Client {
                    proxy,
                    stream: None,
                };
                while !stop.load(Relaxed) {
                    let status = client.ask(kind)?;
                    match status {
                        200 => counts.answered.fetch_add(1, Relaxed),
                        429 => counts.limited.fetch_add(1, Relaxed),
                        other => return Err(format!("{kind:?}: status {other}")),
                    };
                }
                Ok(())
            })
        };
        let kinds = [Connections::New, Connections::Kept];
        let clients = (0..clients).flat_map(|_| kinds).map(client).collect();
        Self {
            stop,
            counts,
            clients,
        }
    }

    /// Waits until so many more were answered.
    pub fn go_on_for(&self, answers: u64) {
        let until = self.counts.answered.load(Relaxed) + answers;
        eventually("clients are answered", || {
            assert!(
                !self.clients.iter().any(JoinHandle::is_finished),
                "a client has given up"
            );
            self.counts.answered.load(Relaxed) >= until
        });
    }

    /// Ends the clients; an error is the first failure of any of them.
    pub fn stop(self) -> Result<Arc<Counts>, String> {
        self.stop.store(true, Relaxed);
        for client in self.clients {
            client
                .join()
                .map_err(|_| "a client panicked".to_owned())??;
        }
        Ok(self.counts)
    }
}

struct Client {
    proxy: SocketAddr,
    stream: Option<TcpStream>,
}

impl Client {
    fn ask(&mut self, kind: Connections) -> Result<u16, String> {
        let kept = self.stream.take();
        let kept = kept.filter(|stream| is_open(stream).unwrap_or(true));
        let mut stream = match kept {
            Some(stream) => stream,
            None => self.connect()?,
        };
        let connection = if kind == Connections::New {
            "close"
        } else {
            "keep-alive"
        };
        let request =
            format!("GET /load HTTP/1.1\r\nHost: a.example\r\nConnection: {connection}\r\n\r\n");
        let is_sent = stream.write_all(request.as_bytes()).is_ok();
        let answer = if is_sent {
            read_response(&mut stream)
        } else {
            HttpResponse::default()
        };
        match answer.status() {
            0 => Err(format!("{kind:?}: closed without an answer")),
            status => {
                let closes = answer.header("connection") == Some("close");
                self.stream = (!closes).then_some(stream);
                Ok(status)
            }
        }
    }

    fn connect(&self) -> Result<TcpStream, String> {
        try_connect(self.proxy).map_err(|error| format!("refused: {error}"))
    }
}

/// Returns false when the server has closed the connection between two requests, as every server
/// may (RFC 9112, 9.5). A client that looks before it sends finds out, and loses nothing.
pub fn is_open(stream: &TcpStream) -> io::Result<bool> {
    stream.set_nonblocking(true)?;
    let peeked = stream.peek(&mut [0]);
    stream.set_nonblocking(false)?;
    match peeked {
        Ok(length) => Ok(length > 0),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(true),
        Err(error) => Err(error),
    }
}
