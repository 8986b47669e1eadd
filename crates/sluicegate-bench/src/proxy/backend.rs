//! The server behind every contestant: answers at once, in one size per path, and counts.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Builder;

use super::requests::BenchRequest;
use super::wire::{BenchStream, HttpConnection};

/// A server on a thread of its own, for as long as this process runs.
pub struct Backend {
    address: SocketAddr,
    served: Arc<AtomicU64>,
}

/// Connections that may wait to be accepted: more than a contestant opens at once.
const BACKLOG: u32 = 4_096;
const BUFFER_BYTES: usize = 64 << 10;

impl Backend {
    pub fn start() -> Result<Self, String> {
        let served = Arc::new(AtomicU64::new(0));
        let (tell, told) = channel();
        let counter = Arc::clone(&served);
        std::thread::Builder::new()
            .name("backend".to_string())
            .spawn(move || serve(&tell, &counter))
            .map_err(|error| format!("the backend cannot be started: {error}"))?;
        let address = told
            .recv()
            .map_err(|_| "the backend ended before it began".to_string())?;
        Ok(Self {
            address: address.map_err(|error| format!("the backend cannot listen: {error}"))?,
            served,
        })
    }

    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Requests that were answered with 200 so far.
    pub fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }
}

/// Says where it listens, or why it cannot, and then accepts forever.
fn serve(tell: &Sender<io::Result<SocketAddr>>, served: &Arc<AtomicU64>) {
    let listening = || {
        let runtime = Builder::new_current_thread().enable_io().build()?;
        let listener = runtime.block_on(async { listen() })?;
        Ok((runtime, listener.local_addr()?, listener))
    };
    let (runtime, listener) = match listening() {
        Ok((runtime, address, listener)) => {
            let _nobody_waits = tell.send(Ok(address));
            (runtime, listener)
        }
        Err(error) => {
            let _nobody_waits = tell.send(Err(error));
            return;
        }
    };
    let answers = Arc::new(PreparedResponses::new());
    runtime.block_on(async {
        loop {
            // A connection that was given up before it was accepted is the client's business.
            let Ok((stream, _)) = listener.accept().await else {
                continue;
            };
            let (answers, served) = (Arc::clone(&answers), Arc::clone(served));
            // A contestant that is killed breaks its connections: that is no failure of ours.
            tokio::spawn(async move { answer(stream, &answers, &served).await.ok() });
        }
    })
}

fn listen() -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    socket.listen(BACKLOG)
}

/// The answers, made once.
struct PreparedResponses {
    small: Vec<u8>,
    large: Vec<u8>,
}

/// To anything that a contestant should not have sent: it shows in the status the client gets.
const BAD_REQUEST: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";

impl PreparedResponses {
    fn new() -> Self {
        let of = |bytes: usize| {
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {bytes}\r\n\r\n"
            );
            let mut answer = head.into_bytes();
            answer.resize(answer.len() + bytes, b'a');
            answer
        };
        Self {
            small: of(BenchRequest::Small.answer_bytes()),
            large: of(BenchRequest::Large.answer_bytes()),
        }
    }

    fn to(&self, request: BenchRequest) -> &[u8] {
        match request {
            BenchRequest::Small | BenchRequest::Scarce | BenchRequest::Post => &self.small,
            BenchRequest::Large => &self.large,
        }
    }
}

async fn answer(
    stream: TcpStream,
    answers: &PreparedResponses,
    served: &AtomicU64,
) -> io::Result<()> {
    let mut wire = HttpConnection::new(BenchStream::Plain(stream), BUFFER_BYTES)?;
    while let Some(head) = wire.head().await? {
        wire.skip(head.content_length).await?;
        match BenchRequest::of_path(&head.word)
            .filter(|request| request.body_bytes() == head.content_length)
        {
            Some(request) => {
                served.fetch_add(1, Ordering::Relaxed);
                wire.write(answers.to(request)).await?;
            }
            None => wire.write(BAD_REQUEST).await?,
        }
        if head.is_last {
            break;
        }
    }
    Ok(())
}
