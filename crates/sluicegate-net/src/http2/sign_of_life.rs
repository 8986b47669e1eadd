//! Finds connections whose clients are gone or hang, where nobody else ends them for being idle.

use std::io;

use super::driver::Driver;
use super::frame::{self, kind};
use super::stream::AnsweredRequest;
use crate::handler::{IncomingRequest, ResponseBody, SignOfLife};

/// The time since the client has sent something.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ClientSilence {
    /// Bytes that had come when it began.
    read: u64,
    ticks: u32,
}

impl<S, F, B> Driver<S, F, B>
where
    S: FnMut(IncomingRequest) -> F + Unpin,
    F: Future<Output = AnsweredRequest<B>>,
    B: ResponseBody,
{
    /// Sends a PING when nothing has come for a while; fails when nothing came after that either.
    pub(super) fn ask_for_sign_of_life(&mut self, ticks: u32) -> io::Result<()> {
        let Some(SignOfLife { after, longest }) = self.settings.sign_of_life else {
            return Ok(());
        };
        let (read, silence) = (self.settings.activity.bytes_read(), self.silence);
        if read != silence.read {
            self.silence = ClientSilence { read, ticks: 0 };
            return Ok(());
        }
        self.silence.ticks = silence.ticks.saturating_add(ticks);
        let is_over = |time| {
            let time = self.settings.timeouts.ticks(time);
            (silence.ticks < time, self.silence.ticks >= time)
        };
        let is_lost = is_over(after + longest).1;
        if is_over(after) == (true, true) {
            frame::push_frame(self.out.text(), kind::PING, 0, 0, b"anybody?");
        }
        match is_lost {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => Ok(()),
        }
    }
}
