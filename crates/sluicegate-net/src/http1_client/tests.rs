use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use bytes::BytesMut;
use proptest::prelude::*;
use tokio::io::AsyncReadExt;
use tokio::time::sleep;

use super::{ConnectionSlots, Exchange, pool, response_head};
use crate::transport::Transport;
use crate::wire::{Decoded, Framing};

#[tokio::test(start_paused = true)]
async fn a_connection_that_nobody_uses_is_closed_after_a_minute() {
    let slots = Arc::new(ConnectionSlots::new(Arc::new(AtomicUsize::new(2))));
    let (near, mut far) = tokio::io::duplex(64);
    let stream = Transport::Other(Box::new(near));
    pool::keep(Exchange::start(stream, Some(0), slots.try_take().unwrap()));
    // bounded wait: the clock of this test stands still and jumps
    sleep(Duration::from_millis(59_500)).await;
    assert_eq!(slots.used(), 1);
    // bounded wait: as above
    sleep(Duration::from_secs(1)).await;
    assert_eq!(slots.used(), 0);
    assert_eq!(far.read(&mut [0]).await.unwrap(), 0, "the connection's end");
    assert!(Exchange::reused(Some(0)).is_none());
}

/// A response as it is read from these bytes when they come in parts of this length.
#[derive(Debug, PartialEq)]
struct ReceivedResponse {
    status: u16,
    lines: Vec<(Vec<u8>, Vec<u8>)>,
    body: Vec<u8>,
    trailers: usize,
    is_whole: bool,
}

fn received(bytes: &[u8], part: usize) -> Result<Option<ReceivedResponse>, &'static str> {
    let mut parts = bytes.chunks(part.max(1));
    let mut input = BytesMut::new();
    let head = loop {
        match response_head::take(&mut input, false)? {
            Some(head) => break head,
            None => match parts.next() {
                Some(part) => input.extend_from_slice(part),
                None => return Ok(None),
            },
        }
    };
    let mut received = ReceivedResponse {
        status: head.status.as_u16(),
        lines: head
            .lines
            .server_lines()
            .map(|(name, value)| (name.to_vec(), value.to_vec()))
            .collect(),
        body: Vec::new(),
        trailers: 0,
        is_whole: false,
    };
    let mut framing: Framing = head.framing;
    loop {
        match framing.decode(&mut input)? {
            Decoded::Data(data) => received.body.extend_from_slice(&data),
            Decoded::Trailers(trailers) => received.trailers = trailers.len(),
            Decoded::End => {
                received.is_whole = true;
                return Ok(Some(received));
            }
            Decoded::Incomplete => match parts.next() {
                Some(part) => input.extend_from_slice(part),
                None => return Ok(Some(received)),
            },
        }
    }
}

/// Bytes that come near to an answer.
fn answer_like() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        Just("Content-Length: 5\r\n".to_owned()),
        Just("Transfer-Encoding: chunked\r\n".to_owned()),
        Just("Connection: close, x-a\r\n".to_owned()),
        Just("X-A: b\r\n".to_owned()),
        "[ -~\r\n]{0,12}",
    ];
    let body = prop_oneof![
        Just("5\r\nhello\r\n0\r\n\r\n".to_owned()),
        "[0-9a-fx;:\r\n ]{0,24}"
    ];
    let status = prop_oneof![
        Just("HTTP/1.1 200 OK\r\n"),
        Just("HTTP/1.0 404 No\r\n"),
        Just("HTTP/1.1 103\r\n"),
        Just("")
    ];
    (status, proptest::collection::vec(line, 0..4), body).prop_map(|(status, lines, body)| {
        format!("{status}{}\r\n{body}", lines.concat()).into_bytes()
    })
}

proptest! {
    #[test]
    fn whatever_a_server_sends_means_the_same_in_one_piece_and_in_many(
        bytes in prop_oneof![answer_like(), proptest::collection::vec(any::<u8>(), 0..64)],
        part in 1..40_usize,
    ) {
        prop_assert_eq!(received(&bytes, part), received(&bytes, bytes.len()));
    }
}
