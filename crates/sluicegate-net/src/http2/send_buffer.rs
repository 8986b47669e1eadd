//! Frames on their way to the client.
//!
//! All frames of a turn leave in one write. Small ones are copied one behind the other; a large
//! part of a body stays where it is and is written from there.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::AsyncWrite;

use super::frame::{FrameHead, kind};

/// Bytes that have to be sent, in their order.
#[derive(Debug)]
pub(super) struct SendBuffer {
    /// Frames, or only their heads.
    text: Vec<u8>,
    /// Bytes of `text` that were sent.
    sent: usize,
    /// Payloads, each with the place in `text` behind which it is sent.
    payloads: VecDeque<(usize, Bytes)>,
    /// Bytes in `payloads`.
    payload_bytes: usize,
    /// Large payloads are written from where they are.
    is_vectored: bool,
    is_unflushed: bool,
}

impl SendBuffer {
    /// A payload of this size is not copied.
    const LARGE: usize = 4 * 1024;
    /// Memory that an empty buffer keeps.
    const KEPT: usize = 16 * 1024;
    /// Slices of one write.
    const SLICES: usize = 32;

    pub(super) fn new(is_vectored: bool) -> Self {
        Self {
            text: Vec::new(),
            sent: 0,
            payloads: VecDeque::new(),
            payload_bytes: 0,
            is_vectored,
            is_unflushed: false,
        }
    }

    /// Bytes that have not been sent.
    pub(super) fn unsent(&self) -> usize {
        self.text.len() - self.sent + self.payload_bytes
    }

    /// Returns true when everything has left.
    pub(super) fn is_sent(&self) -> bool {
        self.unsent() == 0 && !self.is_unflushed
    }

    /// The bytes to which whole frames are appended.
    pub(super) fn text(&mut self) -> &mut Vec<u8> {
        self.is_unflushed = true;
        &mut self.text
    }

    /// Appends a frame with a part of a body.
    pub(super) fn push_data(&mut self, stream: u32, flags: u8, data: Bytes) {
        let head = FrameHead {
            length: data.len(),
            kind: kind::DATA,
            flags,
            stream,
        };
        self.is_unflushed = true;
        self.text.extend_from_slice(&head.to_bytes());
        if self.is_vectored && data.len() >= Self::LARGE {
            self.payload_bytes += data.len();
            self.payloads.push_back((self.text.len(), data));
        } else {
            self.text.extend_from_slice(&data);
        }
    }

    /// Frees memory that a quiet connection does not need.
    pub(super) fn shrink(&mut self) {
        if self.unsent() == 0 {
            (self.text, self.sent, self.payloads) = (Vec::new(), 0, VecDeque::new());
        }
    }

    /// Writes and flushes; ready when everything has left.
    pub(super) fn poll_send(
        &mut self,
        io: &mut (impl AsyncWrite + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let mut io = Pin::new(io);
        while self.unsent() > 0 {
            let wrote = if self.payloads.is_empty() {
                ready!(io.as_mut().poll_write(cx, &self.text[self.sent..]))?
            } else {
                let mut slices = [IoSlice::new(&[]); Self::SLICES];
                let count = self.slices(&mut slices);
                ready!(io.as_mut().poll_write_vectored(cx, &slices[..count]))?
            };
            if wrote == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.advance(wrote);
        }
        self.text.clear();
        self.sent = 0;
        if self.text.capacity() > Self::KEPT {
            self.text = Vec::new();
        }
        if self.is_unflushed {
            ready!(io.poll_flush(cx))?;
            self.is_unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Fills in the first slices; returns their number.
    fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>; Self::SLICES]) -> usize {
        let (mut at, mut count) = (self.sent, 0);
        for (end, payload) in self.payloads.iter().take(Self::SLICES / 2 - 1) {
            slices[count] = IoSlice::new(&self.text[at..*end]);
            slices[count + 1] = IoSlice::new(payload);
            (at, count) = (*end, count + 2);
        }
        if self.payloads.len() < Self::SLICES / 2 {
            slices[count] = IoSlice::new(&self.text[at..]);
            count += 1;
        }
        count
    }

    /// Drops bytes that were written.
    fn advance(&mut self, mut wrote: usize) {
        while let Some((end, payload)) = self.payloads.front_mut() {
            let of_text = wrote.min(*end - self.sent);
            self.sent += of_text;
            wrote -= of_text;
            let of_payload = wrote.min(payload.len());
            payload.advance(of_payload);
            self.payload_bytes -= of_payload;
            wrote -= of_payload;
            if !payload.is_empty() || self.sent < *end {
                return;
            }
            self.payloads.pop_front();
        }
        self.sent += wrote;
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// Takes this many bytes at a time.
    struct Narrow(usize, Vec<u8>);

    impl AsyncWrite for Narrow {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let length = bytes.len().min(self.0);
            self.1.extend_from_slice(&bytes[..length]);
            Poll::Ready(Ok(length))
        }

        fn poll_write_vectored(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            slices: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            let mut left = self.0;
            for slice in slices {
                let length = slice.len().min(left);
                self.1.extend_from_slice(&slice[..length]);
                left -= length;
            }
            Poll::Ready(Ok(self.0 - left))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn bytes_leave_in_their_order_whatever_is_copied_and_however_they_are_taken() {
        let fill = |buffer: &mut SendBuffer| {
            for number in 0..40u8 {
                let size = [3, SendBuffer::LARGE + 5][usize::from(number % 2)];
                buffer.push_data(u32::from(number), 0, Bytes::from(vec![number; size]));
            }
        };
        let mut expected = SendBuffer::new(false);
        fill(&mut expected);
        for most in [1, 8, 100, 5_000, 1 << 20] {
            for is_vectored in [true, false] {
                let (mut buffer, mut io) = (SendBuffer::new(is_vectored), Narrow(most, Vec::new()));
                fill(&mut buffer);
                assert_eq!(buffer.unsent(), expected.unsent());
                let sent = buffer.poll_send(&mut io, &mut Context::from_waker(Waker::noop()));
                assert!(matches!(sent, Poll::Ready(Ok(()))) && buffer.is_sent());
                assert_eq!(io.1, expected.text);
            }
        }
    }
}
