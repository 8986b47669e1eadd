//! A request as it is sent over a connection, and its answer judged.

use std::io::{self, ErrorKind};

use super::requests::BenchRequest;
use super::wire::HttpConnection;
use crate::tally::AnswerTally;

/// The bytes of a request, and what is expected back.
pub struct PreparedRequest {
    bytes: Vec<u8>,
    /// The length of the body of an allowed answer.
    answer_bytes: usize,
}

impl PreparedRequest {
    pub fn new(request: &BenchRequest) -> Self {
        Self {
            bytes: request.to_bytes(),
            answer_bytes: request.answer_bytes(),
        }
    }

    /// Sends it, waits for the answer and counts it; `true` when the contestant closes the connection.
    pub async fn send(
        &self,
        wire: &mut HttpConnection,
        tally: &mut AnswerTally,
    ) -> io::Result<bool> {
        let exchange = exchange(wire, &self.bytes).await?;
        match exchange.status.as_str() {
            "200" if exchange.body_bytes == self.answer_bytes => tally.allowed += 1,
            "429" => tally.rejected += 1,
            _ => tally.other += 1,
        }
        Ok(exchange.is_last)
    }
}

/// A request that was answered.
pub struct Exchange {
    pub status: String,
    pub body_bytes: usize,
    /// The contestant closes the connection after it.
    pub is_last: bool,
}

/// Sends a request and reads the whole answer.
pub async fn exchange(wire: &mut HttpConnection, request: &[u8]) -> io::Result<Exchange> {
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

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;
    use tokio::runtime::Builder;

    use super::super::backend::Backend;
    use super::super::wire::{BUFFER_MIN, BenchStream};
    use super::*;

    #[test]
    fn an_answer_of_another_length_is_not_counted_as_allowed() {
        let backend = Backend::start().unwrap();
        let request = PreparedRequest {
            answer_bytes: 7,
            ..PreparedRequest::new(&BenchRequest::Small)
        };
        let mut tally = AnswerTally::default();
        let sending = async {
            let stream = BenchStream::Plain(TcpStream::connect(backend.address()).await?);
            let mut wire = HttpConnection::new(stream, BUFFER_MIN)?;
            request.send(&mut wire, &mut tally).await
        };
        let runtime = Builder::new_current_thread().enable_io().build().unwrap();
        assert!(!runtime.block_on(sending).unwrap());
        assert_eq!((tally.other, tally.allowed), (1, 0));
    }
}
