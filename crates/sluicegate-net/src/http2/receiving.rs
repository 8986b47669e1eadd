//! Frames of the client: what each of them means, and what is wrong with it (RFC 9113, section 6).

use super::driver::{Driver, HEADERS_MAX, HeaderBlock};
use super::frame::{
    self, ErrorCode, FrameHead, HEAD_BYTES, PAYLOAD_MAX, WINDOW_MAX, flag, kind, setting,
};
use super::priority::Urgency;
use super::stream::AnsweredRequest;
use crate::handler::{IncomingRequest, ResponseBody};
use crate::hpack::HpackError;

/// A mistake of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The connection has to end.
    Connection(ErrorCode),
    /// This stream has to be reset.
    Stream(u32, ErrorCode),
}

impl From<HpackError> for Fault {
    fn from(_: HpackError) -> Self {
        Self::Connection(ErrorCode::Compression)
    }
}

/// A connection error.
pub(super) const fn fails<T>(code: ErrorCode) -> Result<T, Fault> {
    Err(Fault::Connection(code))
}

impl<S, F, B> Driver<S, F, B>
where
    S: FnMut(IncomingRequest) -> F + Unpin,
    F: Future<Output = AnsweredRequest<B>>,
    B: ResponseBody,
{
    /// Follows the frames that are complete; returns the number of bytes that they have. An error
    /// ends the connection.
    pub(super) fn follow_frames(&mut self, mut bytes: &[u8]) -> Result<usize, ErrorCode> {
        let length = bytes.len();
        while let Some(head) = FrameHead::parse(bytes) {
            // A reset that follows a header is seen before others have their turn.
            if head.kind == kind::HEADERS && self.turns.is_over(HEADERS_MAX) {
                self.has_frames = true;
                break;
            }
            if head.length > PAYLOAD_MAX {
                return Err(ErrorCode::FrameSize);
            }
            let Some(rest) = bytes[HEAD_BYTES..].get(head.length..) else {
                break;
            };
            self.credit.count(head)?;
            match self.on_frame(head, &bytes[HEAD_BYTES..][..head.length]) {
                Ok(()) => {}
                Err(Fault::Connection(code)) => return Err(code),
                Err(Fault::Stream(stream, code)) => {
                    self.credit.refused_stream(code)?;
                    self.reset(stream, code);
                }
            }
            bytes = rest;
        }
        Ok(length - bytes.len())
    }

    fn on_frame(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Fault> {
        let is_settings = head.kind == kind::SETTINGS && !head.has(flag::ACK);
        if !self.has_settings && !is_settings {
            return fails(ErrorCode::Protocol);
        }
        // Nothing comes between the frames of a header.
        if let Some(block) = &self.block
            && (head.kind, head.stream) != (kind::CONTINUATION, block.stream)
        {
            return fails(ErrorCode::Protocol);
        }
        let is_on_connection = head.stream == 0;
        match head.kind {
            kind::DATA => self.on_data(head, payload),
            kind::HEADERS => self.on_headers(head, payload),
            kind::CONTINUATION => self.on_continuation(head, payload),
            kind::RST_STREAM => self.on_reset(head.stream, payload),
            kind::WINDOW_UPDATE => self.on_window_update(head.stream, payload),
            kind::PRIORITY => self.on_priority(head.stream, payload),
            kind::PUSH_PROMISE => fails(ErrorCode::Protocol),
            kind::SETTINGS | kind::PING | kind::GOAWAY | kind::PRIORITY_UPDATE
                if !is_on_connection =>
            {
                fails(ErrorCode::Protocol)
            }
            kind::SETTINGS => self.on_settings(head, payload),
            kind::PING => self.on_ping(head, payload),
            kind::GOAWAY if payload.len() < 8 => fails(ErrorCode::FrameSize),
            kind::GOAWAY => {
                self.client_ends = true;
                Ok(())
            }
            kind::PRIORITY_UPDATE => self.on_priority_update(payload),
            _ => Ok(()),
        }
    }

    /// Fails unless the stream has been begun by the client.
    fn check_not_idle(&self, stream: u32) -> Result<(), Fault> {
        // We begin no streams, so those with even numbers are idle for ever.
        if stream.is_multiple_of(2) || stream > self.last_stream {
            return fails(ErrorCode::Protocol);
        }
        Ok(())
    }

    /// The slot of a stream; `None` if it is closed and the frame is to be ignored, because it was
    /// on its way when we reset the stream.
    fn slot_of(&self, stream: u32) -> Result<Option<usize>, Fault> {
        match self.streams.find(stream) {
            Some(slot) => Ok(Some(slot)),
            None if self.resets.contains(&stream) => Ok(None),
            None => Err(Fault::Stream(stream, ErrorCode::StreamClosed)),
        }
    }

    fn on_data(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Fault> {
        self.check_not_idle(head.stream)?;
        self.receive_window
            .take(payload.len())
            .map_err(Fault::Connection)?;
        let Some(data) = frame::without_padding(head.flags, payload) else {
            return fails(ErrorCode::Protocol);
        };
        let taken = self.take_data(head, data, payload.len() - data.len());
        // What nobody will read is given back at once; the rest when it is read.
        let unread = match taken {
            Ok(true) => payload.len() - data.len(),
            Ok(false) | Err(_) => payload.len(),
        };
        self.give_back(unread);
        taken.map(drop)
    }

    /// Passes a part of a body on. Returns true if somebody will read it.
    fn take_data(&mut self, head: FrameHead, data: &[u8], padding: usize) -> Result<bool, Fault> {
        let Some(slot) = self.slot_of(head.stream)? else {
            return Ok(false);
        };
        let fault = |code| Fault::Stream(head.stream, code);
        let stream = self.streams.get_mut(slot);
        let receiving = match &mut stream.receiving {
            Some(receiving) if !receiving.is_over => receiving,
            _ => return Err(fault(ErrorCode::StreamClosed)),
        };
        receiving.window.take(data.len() + padding).map_err(fault)?;
        if let Some(left) = &mut receiving.left {
            *left = left
                .checked_sub(data.len() as u64)
                .ok_or(fault(ErrorCode::Protocol))?;
        }
        let is_last = head.has(flag::END_STREAM);
        if is_last && receiving.left.is_some_and(|left| left > 0) {
            return Err(fault(ErrorCode::Protocol));
        }
        receiving.is_over = is_last;
        let Some(body) = &receiving.body else {
            self.gather(slot, data, padding);
            return Ok(false);
        };
        let is_read = data.is_empty() || body.push(data);
        if is_last {
            body.finish(None);
        } else if padding > 0
            && let Some(more) = receiving.window.give_back(padding)
        {
            frame::push_window_update(self.out.text(), head.stream, more);
        }
        Ok(is_read)
    }

    fn on_headers(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Fault> {
        if head.stream.is_multiple_of(2) {
            return fails(ErrorCode::Protocol);
        }
        let Some(mut fields) = frame::without_padding(head.flags, payload) else {
            return fails(ErrorCode::Protocol);
        };
        if head.has(flag::PRIORITY) {
            // Priorities of this kind are no more, but still take their bytes.
            fields = match fields.split_at_checked(5) {
                Some((_, fields)) => fields,
                None => return fails(ErrorCode::FrameSize),
            };
        }
        let is_last = head.has(flag::END_STREAM);
        if head.has(flag::END_HEADERS) {
            return self.on_block(head.stream, is_last, fields);
        }
        self.block = Some(HeaderBlock {
            stream: head.stream,
            is_last,
            bytes: fields.to_vec(),
        });
        Ok(())
    }

    fn on_continuation(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Fault> {
        // Compressed fields have at least five eighths of their size.
        let bytes_max = self.settings.header_bytes.max(PAYLOAD_MAX);
        let Some(mut block) = self.block.take() else {
            return fails(ErrorCode::Protocol);
        };
        if block.bytes.len() + payload.len() > bytes_max {
            return fails(ErrorCode::EnhanceYourCalm);
        }
        block.bytes.extend_from_slice(payload);
        if head.has(flag::END_HEADERS) {
            return self.on_block(block.stream, block.is_last, &block.bytes);
        }
        self.block = Some(block);
        Ok(())
    }

    fn on_reset(&mut self, stream: u32, payload: &[u8]) -> Result<(), Fault> {
        if payload.len() != 4 {
            return fails(ErrorCode::FrameSize);
        }
        self.check_not_idle(stream)?;
        if let Some(slot) = self.streams.find(stream) {
            self.close(slot);
        }
        if stream > self.last_stream_before {
            self.credit.reset_at_once().map_err(Fault::Connection)?;
        }
        Ok(())
    }

    fn on_window_update(&mut self, stream: u32, payload: &[u8]) -> Result<(), Fault> {
        let (4, Some(by)) = (payload.len(), frame::number(payload)) else {
            return fails(ErrorCode::FrameSize);
        };
        let by = by & WINDOW_MAX;
        if stream == 0 {
            if by == 0 {
                return fails(ErrorCode::Protocol);
            }
            let changed = self.send_window.change(i64::from(by));
            self.streams.send |= self.streams.sending;
            return changed.map_err(Fault::Connection);
        }
        self.check_not_idle(stream)?;
        let Some(slot) = self.streams.find(stream) else {
            return Ok(());
        };
        if by == 0 {
            return Err(Fault::Stream(stream, ErrorCode::Protocol));
        }
        let changed = self.streams.get_mut(slot).window.change(i64::from(by));
        self.streams.send |= self.streams.sending & (1 << slot);
        changed.map_err(|code| Fault::Stream(stream, code))
    }

    fn on_settings(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Fault> {
        if head.has(flag::ACK) {
            return match payload {
                [] => Ok(()),
                _ => fails(ErrorCode::FrameSize),
            };
        }
        if !payload.len().is_multiple_of(6) {
            return fails(ErrorCode::FrameSize);
        }
        self.has_settings = true;
        let mut window = self.initial_window;
        for (number, value) in frame::settings(payload) {
            match number {
                setting::ENABLE_PUSH
                | setting::ENABLE_CONNECT_PROTOCOL
                | setting::NO_RFC7540_PRIORITIES
                    if value > 1 =>
                {
                    return fails(ErrorCode::Protocol);
                }
                setting::INITIAL_WINDOW_SIZE if value > WINDOW_MAX => {
                    return fails(ErrorCode::FlowControl);
                }
                setting::INITIAL_WINDOW_SIZE => window = value,
                setting::MAX_FRAME_SIZE if !(PAYLOAD_MAX as u32..1 << 24).contains(&value) => {
                    return fails(ErrorCode::Protocol);
                }
                // Our frames have the least size that a client must take, our table has no size,
                // and we begin no streams.
                _ => {}
            }
        }
        let change = i64::from(window) - i64::from(self.initial_window);
        self.initial_window = window;
        for (_, stream) in self.streams.iter_mut() {
            stream.window.change(change).map_err(Fault::Connection)?;
        }
        self.streams.send |= self.streams.sending;
        frame::push_frame(self.out.text(), kind::SETTINGS, flag::ACK, 0, &[]);
        Ok(())
    }

    fn on_ping(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Fault> {
        if payload.len() != 8 {
            return fails(ErrorCode::FrameSize);
        }
        if head.has(flag::ACK) {
            self.on_pong(payload);
        } else {
            frame::push_frame(self.out.text(), kind::PING, flag::ACK, 0, payload);
        }
        Ok(())
    }

    /// Priorities of RFC 7540 are checked and ignored.
    fn on_priority(&mut self, stream: u32, payload: &[u8]) -> Result<(), Fault> {
        match payload.len() {
            _ if stream == 0 => fails(ErrorCode::Protocol),
            5 => Ok(()),
            // An idle stream cannot be reset.
            _ if self.check_not_idle(stream).is_err() => fails(ErrorCode::FrameSize),
            _ => Err(Fault::Stream(stream, ErrorCode::FrameSize)),
        }
    }

    fn on_priority_update(&mut self, payload: &[u8]) -> Result<(), Fault> {
        let Some((stream, value)) = frame::number(payload).zip(payload.get(4..)) else {
            return fails(ErrorCode::FrameSize);
        };
        let stream = stream & WINDOW_MAX;
        if stream == 0 {
            return fails(ErrorCode::Protocol);
        }
        if let Some(slot) = self.streams.find(stream) {
            self.streams.set_urgency(slot, Urgency::parse(value));
        }
        Ok(())
    }
}
