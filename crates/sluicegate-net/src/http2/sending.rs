//! Responses: their heads, their bodies in turns, and their ends.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use http_body::Frame;

use super::driver::{Driver, WRITE_BYTES, header_flags};
use super::frame::{self, ErrorCode, FrameHead, HEAD_BYTES, PAYLOAD_MAX, flag, kind};
use super::stream::{AnsweredRequest, Sending, StallClock};
use crate::handler::{CompleteBody, IncomingRequest, ResponseBody};
use crate::response::{HttpResponse, ResponseLines};
use crate::timeouts::UnreadPolicy;
use crate::{date, hop_by_hop, hpack};

/// What came of asking a stream for its next part.
enum Part {
    /// There is something to send.
    Here,
    /// The response has nothing yet; it will wake its stream.
    Waiting,
    /// It may not be asked: too much waits for the client.
    Later,
    /// It has failed.
    Broken,
}

impl<S, F, B> Driver<S, F, B>
where
    S: FnMut(IncomingRequest) -> F + Unpin,
    F: Future<Output = AnsweredRequest<B>>,
    B: ResponseBody,
{
    /// Polls the streams that were woken.
    pub(super) fn poll_woken(&mut self) {
        let mut woken = self.ready.take();
        while woken != 0 {
            let slot = woken.trailing_zeros() as usize;
            woken &= woken - 1;
            self.poll_stream(slot);
        }
    }

    /// Gives the client window for what was read of its body, and lets the handler go on or the
    /// response be sent.
    pub(super) fn poll_stream(&mut self, slot: usize) {
        let Some(stream) = self.streams.open_mut(slot) else {
            return;
        };
        if let Some(receiving) = &mut stream.receiving
            && let Some(body) = &receiving.body
        {
            let read = body.take_read();
            let id = stream.id;
            if read > 0 {
                if !receiving.is_over
                    && let Some(more) = receiving.window.give_back(read)
                {
                    frame::push_window_update(self.out.text(), id, more);
                }
                self.give_back(read);
            }
        }
        let stream = self.streams.get_mut(slot);
        let mut cx = Context::from_waker(&stream.waker);
        let handler = stream.handler.as_mut();
        match handler.and_then(|handler| handler.as_mut().as_pin_mut()) {
            None => {
                if let Some(Sending {
                    body: Some(body), ..
                }) = &mut stream.sending
                {
                    body.poll_upload(&mut cx);
                }
                self.streams.send |= self.streams.sending & (1 << slot);
            }
            Some(handler) => {
                if let Poll::Ready(answered) = handler.poll(&mut cx) {
                    let AnsweredRequest { response, headers } = answered;
                    self.streams.drop_handler(slot);
                    self.spare_headers.keep(headers);
                    let is_last = response.body.ends_connection();
                    self.respond(slot, response);
                    if is_last {
                        self.end_requests();
                    }
                }
            }
        }
    }

    /// Begins to send a response.
    fn respond(&mut self, slot: usize, response: HttpResponse<B>) {
        let HttpResponse {
            status,
            lines,
            mut body,
            closes: _,
        } = response;
        let stream = self.streams.get_mut(slot);
        let (id, bytes) = (stream.id, body.size_hint().exact());
        let (may_have_body, length) = body_of(status, bytes, stream.is_head);
        if let Some(complete) = body.complete()
            && may_have_body
            && self.has_room_for(slot, complete.data.len())
        {
            self.respond_at_once(slot, status, &lines, complete);
            return body.sent_complete();
        }
        let stream = self.streams.get_mut(slot);
        let has_body = may_have_body && !body.is_end_stream();
        if has_body {
            stream.sending = Some(Sending {
                body: Some(body),
                data: Bytes::new(),
                trailers: None,
                left: length,
                clock: StallClock::default(),
            });
            self.streams.sending |= 1 << slot;
            self.streams.send |= 1 << slot;
        }
        self.push_head(id, !has_body, |block| {
            hpack::push_status(block, status);
            push_lines(block, &lines, length);
        });
        if !has_body {
            self.finish(slot);
        }
    }

    /// True when a body of so many bytes can be sent right away: in one frame, within the windows,
    /// and without much that waits before it.
    fn has_room_for(&mut self, slot: usize, bytes: usize) -> bool {
        let window = self.streams.get_mut(slot).window.available();
        let window = window.min(self.send_window.available());
        bytes <= window.min(PAYLOAD_MAX) && self.out.unsent() < self.settings.bounds.held_max()
    }

    /// Sends a whole response.
    fn respond_at_once(
        &mut self,
        slot: usize,
        status: StatusCode,
        lines: &ResponseLines,
        body: CompleteBody<'_>,
    ) {
        let CompleteBody { data, trailers } = body;
        let id = self.streams.get_mut(slot).id;
        // A body with trailers has a length that clients of gRPC do not expect to be told.
        let length = trailers.is_empty().then_some(data.len() as u64);
        let is_last = data.is_empty() && trailers.is_empty();
        self.push_head(id, is_last, |block| {
            hpack::push_status(block, status);
            push_lines(block, lines, length);
        });
        if !data.is_empty() {
            let flags = if trailers.is_empty() {
                flag::END_STREAM
            } else {
                0
            };
            frame::push_frame(self.out.text(), kind::DATA, flags, id, data);
            self.send_window.take(data.len());
            self.sent_in_tick += data.len() as u64;
            self.credit.sent_data();
        }
        if !trailers.is_empty() {
            self.push_head(id, true, |block| {
                for (name, value) in trailers {
                    hpack::push_lower_field(block, name.as_bytes(), value.as_bytes());
                }
            });
        }
        self.finish(slot);
    }

    /// Appends a header; `write` writes its fields.
    pub(super) fn push_head(&mut self, id: u32, is_last: bool, write: impl FnOnce(&mut Vec<u8>)) {
        let out = self.out.text();
        let start = out.len();
        out.extend_from_slice(&[0; HEAD_BYTES]);
        self.encoder.begin(out);
        write(out);
        let length = out.len() - start - HEAD_BYTES;
        let mut head = FrameHead {
            length,
            kind: kind::HEADERS,
            flags: header_flags(is_last),
            stream: id,
        };
        if length <= PAYLOAD_MAX {
            out[start..][..HEAD_BYTES].copy_from_slice(&head.to_bytes());
            return;
        }
        // It needs more than one frame, which is rare.
        let block = out.split_off(start + HEAD_BYTES);
        out.truncate(start);
        head.flags &= !flag::END_HEADERS;
        let count = block.len().div_ceil(PAYLOAD_MAX);
        for (place, part) in block.chunks(PAYLOAD_MAX).enumerate() {
            if place + 1 == count {
                head.flags |= flag::END_HEADERS;
            }
            frame::push_frame(out, head.kind, head.flags, id, part);
            (head.kind, head.flags) = (kind::CONTINUATION, 0);
        }
    }

    /// Our side of a stream has ended. If the client's has not, it is told that the rest of its
    /// request is of no use.
    fn finish(&mut self, slot: usize) {
        let stream = self.streams.get_mut(slot);
        if stream.is_receiving() {
            let id = stream.id;
            self.reset(id, ErrorCode::No);
        } else {
            self.close(slot);
        }
    }

    /// Lets the streams take turns until there is enough for a write, or nothing more.
    pub(super) fn fill(&mut self) {
        while self.out.unsent() < WRITE_BYTES
            && let Some(slot) = self.streams.next_to_send()
        {
            match self.next_part(slot) {
                Part::Here => self.send_part(slot),
                Part::Waiting | Part::Later => self.streams.send &= !(1 << slot),
                Part::Broken => {
                    let id = self.streams.get_mut(slot).id;
                    self.reset(id, ErrorCode::Internal);
                }
            }
        }
    }

    /// Polls the response's body, unless a part of it is waiting.
    fn next_part(&mut self, slot: usize) -> Part {
        let bounds = self.settings.bounds;
        let part_max = bounds.part_max(self.streams.sending.count_ones());
        let stream = self.streams.get_mut(slot);
        let window = self.send_window.available().min(stream.window.available());
        let Some(sending) = &mut stream.sending else {
            return Part::Waiting;
        };
        let mut cx = Context::from_waker(&stream.waker);
        while sending.data.is_empty()
            && let Some(body) = &mut sending.body
        {
            let held_max = if window > 0 {
                bounds.held_max()
            } else {
                bounds.held_without_window()
            };
            if self.held >= held_max {
                self.held_up |= 1 << slot;
                return Part::Later;
            }
            body.limit_next_part(part_max);
            let frame = match Pin::new(body).poll_frame(&mut cx) {
                Poll::Pending => return Part::Waiting,
                Poll::Ready(Some(Err(_))) => return Part::Broken,
                Poll::Ready(Some(Ok(frame))) => Some(frame),
                Poll::Ready(None) => None,
            };
            if !sending.take(frame) {
                return Part::Broken;
            }
            self.held += sending.data.len();
        }
        match sending.data.is_empty() || window > 0 {
            true => Part::Here,
            false => Part::Later,
        }
    }

    /// Sends a part of the response, or its end.
    fn send_part(&mut self, slot: usize) {
        let stream = self.streams.get_mut(slot);
        let id = stream.id;
        let window = self.send_window.available().min(stream.window.available());
        let Some(sending) = &mut stream.sending else {
            return;
        };
        let length = sending.data.len().min(window).min(PAYLOAD_MAX);
        let part = sending.data.split_to(length);
        if sending.data.is_empty() {
            // Even an empty slice would hold on to the buffer that it was read into.
            sending.data = Bytes::new();
        }
        let is_over = sending.body.is_none() && sending.data.is_empty();
        let trailers = is_over.then(|| sending.trailers.take()).flatten();
        sending.clock.sent += length as u64;
        stream.window.take(length);
        self.send_window.take(length);
        self.held -= length;
        self.sent_in_tick += length as u64;
        let is_last = is_over && trailers.is_none();
        if length > 0 || is_last {
            let flags = if is_last { flag::END_STREAM } else { 0 };
            self.out.push_data(id, flags, part);
            self.credit.sent_data();
        }
        if let Some(trailers) = trailers {
            self.push_head(id, true, |block| push_trailers(block, &trailers));
        }
        if is_over {
            self.finish(slot);
        }
        self.resume_held_up();
    }

    /// Lets the streams that were held up be asked for a part again, if there is room.
    pub(super) fn resume_held_up(&mut self) {
        if self.held_up != 0 && self.held < self.settings.bounds.held_max() {
            let held_up = std::mem::take(&mut self.held_up);
            self.streams.send |= held_up & self.streams.sending;
        }
    }

    /// Resets the streams whose clients have not read for too long. A stream is waited for while
    /// something of it waits and its own window is closed, or all streams together get less than
    /// each of them should: a client that reads one of them must not hold the others for ever.
    pub(super) fn give_up_stalled(&mut self) {
        let UnreadPolicy {
            ticks: ticks_max,
            bytes_min,
        } = self.settings.timeouts.unread();
        let waiting = self.streams.sending.count_ones();
        let enough = bytes_min / u64::from(ticks_max) * u64::from(waiting);
        let is_slow = std::mem::take(&mut self.sent_in_tick) <= enough;
        let mut stalled = Vec::new();
        let held_up = self.held_up;
        for (slot, stream) in self.streams.iter_mut() {
            let is_closed = stream.window.available() == 0;
            let Some(sending) = &mut stream.sending else {
                continue;
            };
            let has_part = !sending.data.is_empty() || held_up & (1 << slot) != 0;
            let is_waiting = has_part && (is_closed || is_slow);
            if sending.clock.tick(is_waiting, ticks_max, bytes_min) {
                stalled.push(stream.id);
            }
        }
        for id in stalled {
            self.count_slow();
            self.reset(id, ErrorCode::Cancel);
        }
    }
}

impl<B: ResponseBody> Sending<B> {
    /// Takes the next frame of the body, or its end. Returns false if the body is not as long as
    /// announced.
    fn take(&mut self, frame: Option<Frame<Bytes>>) -> bool {
        match frame.map(Frame::into_data) {
            Some(Ok(data)) => {
                if let Some(left) = &mut self.left {
                    match left.checked_sub(data.len() as u64) {
                        Some(rest) => *left = rest,
                        None => return false,
                    }
                }
                self.data = data;
                if self.body.as_ref().is_some_and(|body| body.is_end_stream()) {
                    self.body = None;
                }
            }
            Some(Err(frame)) => {
                self.trailers = frame.into_trailers().ok();
                self.body = None;
            }
            None => self.body = None,
        }
        self.body.is_some() || self.left.is_none_or(|left| left == 0)
    }
}

/// Returns true when a response may have a body, and the value of its `Content-Length`; `None` if a
/// server's line says it, or nobody can.
fn body_of(status: StatusCode, bytes: Option<u64>, is_head: bool) -> (bool, Option<u64>) {
    if status.is_informational() || status == StatusCode::NO_CONTENT {
        (false, None)
    } else if is_head || status == StatusCode::NOT_MODIFIED {
        // The length of a body that is not sent. If the response is a server's, its own
        // Content-Length is among its lines and the body is empty.
        (false, bytes.filter(|length| *length > 0))
    } else {
        (true, bytes)
    }
}

/// Appends the lines of a response, the length of its body and the date.
fn push_lines(block: &mut Vec<u8>, lines: &ResponseLines, length: Option<u64>) {
    // A connection's own fields do not exist in HTTP/2.
    let stays = |(name, _): &(&[u8], &[u8])| hop_by_hop::known(name).is_none();
    let mut has_date = false;
    for (name, value) in lines.server_lines().filter(stays) {
        has_date |= name.eq_ignore_ascii_case(b"date");
        hpack::push_field(block, name, value);
    }
    for (name, value) in lines.own_lines().filter(stays) {
        has_date |= name == b"date";
        hpack::push_lower_field(block, name, value);
    }
    if let Some(length) = length {
        hpack::push_lower_field(
            block,
            b"content-length",
            itoa::Buffer::new().format(length).as_bytes(),
        );
    }
    if !has_date {
        hpack::push_lower_field(block, b"date", &date::now());
    }
}

/// Appends the trailers of a response.
fn push_trailers(block: &mut Vec<u8>, trailers: &HeaderMap) {
    for (name, value) in trailers {
        if !hop_by_hop::is_hop_by_hop(name.as_str()) {
            hpack::push_lower_field(block, name.as_str().as_bytes(), value.as_bytes());
        }
    }
}
