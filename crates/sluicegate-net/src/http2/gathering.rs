//! Requests whose handlers want the whole body: their bytes are put together here, and the handler
//! runs when they are all here, are too many, or take too long.
//!
//! Such a handler needs no queue between itself and the connection, no timer of its own, and is not
//! woken for parts that it can do nothing with. A body that comes with its head, as most do, needs
//! no timer at all.

use std::task::Context;

use bytes::Bytes;
use http::request::Parts;
use tokio::time::{Instant, sleep_until};

use super::driver::Driver;
use super::frame;
use super::stream::AnsweredRequest;
use crate::body_error::BodyError;
use crate::handler::{IncomingRequest, ResponseBody, WholeBodyBounds};
use crate::request_body::{ClientBody, WholeBody};
use crate::validate::{BodyEnd, InvalidRequest};

/// A request that waits for its body.
pub(super) struct Gathering {
    parts: Parts,
    end: Result<BodyEnd, InvalidRequest>,
    data: Vec<u8>,
    bounds: WholeBodyBounds,
    /// The time at which it is given up; set when it is first waited for.
    deadline: Option<Instant>,
}

impl Gathering {
    pub(super) fn new(
        parts: Parts,
        end: Result<BodyEnd, InvalidRequest>,
        bounds: WholeBodyBounds,
    ) -> Self {
        Self {
            parts,
            end,
            data: Vec::new(),
            bounds,
            deadline: None,
        }
    }
}

impl<S, F, B> Driver<S, F, B>
where
    S: FnMut(IncomingRequest) -> F + Unpin,
    F: Future<Output = AnsweredRequest<B>>,
    B: ResponseBody,
{
    /// Takes a part of a body. Its bytes count as read: each request may have as many as its bounds
    /// say, however many there are.
    pub(super) fn gather(&mut self, slot: usize, data: &[u8], padding: usize) {
        let stream = self.streams.get_mut(slot);
        let id = stream.id;
        // Without it, the body was given up already.
        let Some(gathering) = &mut stream.gathering else {
            return;
        };
        if data.len() > gathering.bounds.bytes_max - gathering.data.len() {
            return self.call_gathered(slot, Some(BodyError::TooLarge));
        }
        gathering.data.extend_from_slice(data);
        let Some(receiving) = &mut stream.receiving else {
            return;
        };
        if receiving.is_over {
            self.call_gathered(slot, None);
        } else if let Some(more) = receiving.window.give_back(data.len() + padding) {
            frame::push_window_update(self.out.text(), id, more);
        }
    }

    /// The body has ended with trailers, which nobody wants.
    pub(super) fn end_gathering(&mut self, slot: usize) {
        self.call_gathered(slot, None);
    }

    /// Runs the handler with what has come.
    fn call_gathered(&mut self, slot: usize, error: Option<BodyError>) {
        self.streams.gathering &= !(1 << slot);
        let Some(gathering) = self.streams.get_mut(slot).gathering.take() else {
            return;
        };
        let Gathering {
            parts, end, data, ..
        } = gathering;
        let whole = match error {
            None => Ok(Bytes::from(data)),
            Some(error) => Err(error),
        };
        let body = ClientBody::Whole(WholeBody::new(whole));
        self.call_handler(slot, IncomingRequest::new(parts, end, body));
    }

    /// Gives up the bodies whose time is over, and sees to it that the task is woken for the next.
    pub(super) fn give_up_slow_bodies(&mut self, cx: &mut Context<'_>) {
        if self.streams.gathering == 0 {
            return;
        }
        let now = Instant::now();
        let (mut slots, mut next) = (self.streams.gathering, None::<Instant>);
        while slots != 0 {
            let slot = slots.trailing_zeros() as usize;
            slots &= slots - 1;
            let Some(gathering) = &mut self.streams.get_mut(slot).gathering else {
                continue;
            };
            let longest = gathering.bounds.longest;
            let deadline = *gathering.deadline.get_or_insert_with(|| now + longest);
            if deadline <= now {
                self.call_gathered(slot, Some(BodyError::Stalled));
            } else {
                next = Some(next.map_or(deadline, |next| next.min(deadline)));
            }
        }
        let Some(next) = next else {
            return;
        };
        let timer = self
            .body_timer
            .get_or_insert_with(|| Box::pin(sleep_until(next)));
        // One that was set for an earlier body wakes the task once in vain.
        if timer.deadline() > next || timer.is_elapsed() {
            timer.as_mut().reset(next);
        }
        if timer.as_mut().poll(cx).is_ready() {
            timer.as_mut().reset(next);
            if timer.as_mut().poll(cx).is_ready() {
                cx.waker().wake_by_ref();
            }
        }
    }
}
