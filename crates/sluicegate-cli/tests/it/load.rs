//! Clients that ask all the time, and remember whatever went wrong.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// What clients saw.
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
        super::running::eventually("clients are answered", || {
            assert!(
                !self.clients.iter().any(JoinHandle::is_finished),
                "a client has given up"
            );
            self.counts.answered.load(Relaxed) >= until
        });
    }

    /// Ends the clients; an error is what the first of them met.
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
        let is_reused = self.stream.is_some();
        let mut stream = match self.stream.take() {
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
        let answer = stream
            .write_all(request.as_bytes())
            .map_err(|_| Nothing)
            .and_then(|()| read_answer(&mut stream));
        match answer {
            Ok(Answer { status, closes }) => {
                self.stream = (!closes).then_some(stream);
                Ok(status)
            }
            // Between requests a server may close at any time without a word (RFC 9112, 9.5): clients ask again.
            Err(Nothing) if is_reused => self.ask(kind),
            Err(Nothing) => Err(format!("{kind:?}: closed without an answer")),
        }
    }

    fn connect(&self) -> Result<TcpStream, String> {
        let stream = TcpStream::connect(self.proxy).map_err(|error| format!("refused: {error}"))?;
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .map_err(|error| error.to_string())?;
        Ok(stream)
    }
}

struct Answer {
    status: u16,
    closes: bool,
}

/// Not a byte came.
struct Nothing;

fn read_answer(stream: &mut TcpStream) -> Result<Answer, Nothing> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(end) = find(&bytes, b"\r\n\r\n") {
            break end + 4;
        }
        let mut piece = [0; 4096];
        match stream.read(&mut piece) {
            Ok(0) | Err(_) if bytes.is_empty() => return Err(Nothing),
            Ok(0) => panic!("an answer breaks off: {}", String::from_utf8_lossy(&bytes)),
            Err(error) => panic!("{error} after {}", String::from_utf8_lossy(&bytes)),
            Ok(read) => bytes.extend_from_slice(&piece[..read]),
        }
    };
    let head = String::from_utf8_lossy(&bytes[..head_end]).to_ascii_lowercase();
    let field = |name: &str| {
        head.lines()
            .find_map(|line| line.strip_prefix(name))
            .map(str::trim)
    };
    let length: usize = field("content-length:")
        .expect("a length")
        .parse()
        .expect("a number");
    while bytes.len() < head_end + length {
        let mut piece = [0; 4096];
        let read = stream.read(&mut piece).expect("the rest of the answer");
        assert!(read > 0, "an answer breaks off: {head}");
        bytes.extend_from_slice(&piece[..read]);
    }
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|word| word.parse().ok())
        .unwrap_or(0);
    Ok(Answer {
        status,
        closes: field("connection:") == Some("close"),
    })
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}
