//! Headers of the client: they begin a request, or are the trailers of one.

use http::header::{CONTENT_LENGTH, HeaderName};
use http::{Method, StatusCode};

use super::driver::Driver;
use super::flow::{ReceiveWindow, SendWindow};
use super::frame::ErrorCode;
use super::gathering::Gathering;
use super::priority::Urgency;
use super::receiving::{Fault, fails};
use super::request_fields::{FieldsError, RequestFields};
use super::stream::{AnsweredRequest, Receiving, Stream};
use crate::handler::{IncomingRequest, ResponseBody};
use crate::request_body::ClientBody;
use crate::stream_body::stream_body;
use crate::validate::{self, BodyEnd};

const PRIORITY: HeaderName = HeaderName::from_static("priority");

impl<S, F, B> Driver<S, F, B>
where
    S: FnMut(IncomingRequest) -> F + Unpin,
    F: Future<Output = AnsweredRequest<B>>,
    B: ResponseBody,
{
    /// A whole header has come. It is decoded whatever becomes of it, because the next one builds
    /// on it.
    pub(super) fn on_block(&mut self, id: u32, is_last: bool, block: &[u8]) -> Result<(), Fault> {
        self.turns.count();
        let mut fields = RequestFields::new(self.settings.header_bytes, self.spare_headers.take());
        self.decoder.decode(block, |field| fields.add(field))?;
        if let Some(slot) = self.streams.find(id) {
            return self.on_trailers(slot, is_last, fields);
        }
        if id <= self.last_stream {
            // They were on their way when we reset the stream, or the stream was over.
            return match self.resets.contains(&id) {
                true => Ok(()),
                false => fails(ErrorCode::StreamClosed),
            };
        }
        if !self.takes_requests() {
            return Err(Fault::Stream(id, ErrorCode::RefusedStream));
        }
        self.last_stream = id;
        if self.streams.open() == super::streams::Streams::<F, B>::MOST {
            return Err(Fault::Stream(id, ErrorCode::RefusedStream));
        }
        self.begin_request(id, is_last, fields)
    }

    fn on_trailers(
        &mut self,
        slot: usize,
        is_last: bool,
        fields: RequestFields,
    ) -> Result<(), Fault> {
        let stream = self.streams.get_mut(slot);
        let id = stream.id;
        let fault = |code| Fault::Stream(id, code);
        let receiving = match &mut stream.receiving {
            Some(receiving) if !receiving.is_over => receiving,
            _ => return Err(fault(ErrorCode::StreamClosed)),
        };
        let is_short = receiving.left.is_some_and(|left| left > 0);
        if !is_last || is_short {
            return Err(fault(ErrorCode::Protocol));
        }
        let trailers = fields.into_trailers().map_err(|error| match error {
            FieldsError::Malformed => fault(ErrorCode::Protocol),
            FieldsError::TooLarge => fault(ErrorCode::EnhanceYourCalm),
        })?;
        receiving.is_over = true;
        match &receiving.body {
            Some(body) => body.finish(Some(trailers)),
            None => self.end_gathering(slot),
        }
        Ok(())
    }

    /// Begins a request, and lets its handler run for the first time: what has begun is counted,
    /// also if the client resets the stream right away. A handler that wants the whole body runs
    /// when that is here.
    fn begin_request(
        &mut self,
        id: u32,
        is_last: bool,
        fields: RequestFields,
    ) -> Result<(), Fault> {
        let parts = match fields.into_parts(self.settings.extended_connect) {
            Ok(parts) => parts,
            Err(FieldsError::Malformed) => return Err(Fault::Stream(id, ErrorCode::Protocol)),
            Err(FieldsError::TooLarge) => {
                self.credit.refused_header().map_err(Fault::Connection)?;
                self.refuse_header(id, is_last);
                return Ok(());
            }
        };
        let end = validate::body_end(&parts);
        let length = match end {
            Ok(BodyEnd::Length(length)) => Some(length),
            Ok(BodyEnd::None) => parts.headers.contains_key(CONTENT_LENGTH).then_some(0),
            Ok(BodyEnd::Chunked) | Err(_) => None,
        };
        if is_last && length.is_some_and(|length| length > 0) {
            return Err(Fault::Stream(id, ErrorCode::Protocol));
        }
        let slot = self.open_slot(id);
        if let Some(value) = parts.headers.get(PRIORITY) {
            self.streams
                .set_urgency(slot, Urgency::parse(value.as_bytes()));
        }
        let stream = self.streams.get_mut(slot);
        stream.window = SendWindow::new(self.initial_window);
        stream.is_head = parts.method == Method::HEAD;
        if is_last {
            let body = ClientBody::Empty;
            self.call_handler(slot, IncomingRequest::new(parts, end, body));
            return Ok(());
        }
        let receiving = stream.receiving.insert(Receiving {
            body: None,
            window: ReceiveWindow::new(self.settings.bounds.receive_window()),
            left: length,
            is_over: false,
        });
        if let Some(bounds) = (self.settings.whole_body)(&parts) {
            stream.gathering = Some(Gathering::new(parts, end, bounds));
            self.streams.gathering |= 1 << slot;
            return Ok(());
        }
        let (sender, body) = stream_body(length, stream.waker.clone());
        receiving.body = Some(sender);
        let body = ClientBody::Stream(body);
        self.call_handler(slot, IncomingRequest::new(parts, end, body));
        Ok(())
    }

    /// A slot for a stream that begins.
    fn open_slot(&mut self, id: u32) -> usize {
        self.settings.activity.begin_request();
        let ready = &self.ready;
        self.streams.open_stream(id, |slot| Stream {
            id,
            waker: ready.waker(slot),
            handler: None,
            gathering: None,
            receiving: None,
            sending: None,
            window: SendWindow::new(0),
            urgency: Urgency::default(),
            is_head: false,
        })
    }

    /// Lets the handler run for the first time.
    pub(super) fn call_handler(&mut self, slot: usize, request: IncomingRequest) {
        self.streams.set_handler(slot, || (self.begin)(request));
        self.poll_stream(slot);
    }

    /// Answers a request whose header is too large to be kept.
    fn refuse_header(&mut self, id: u32, is_last: bool) {
        self.push_head(id, true, |block| {
            crate::hpack::push_status(block, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
        });
        if !is_last {
            self.reset(id, ErrorCode::No);
        }
    }
}
