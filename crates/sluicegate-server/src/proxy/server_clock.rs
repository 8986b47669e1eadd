//! The clock of a response that a server has begun: a server that stops in the middle is given up.
//!
//! The clock runs from the first poll that finds nothing to the next one that finds something, so
//! the time that a client takes to read is not the server's. A response that comes at once never
//! reads it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use sluicegate_net::UploadProgress;
use tokio::time::{Instant, Sleep, sleep_until};

/// The clock of one response, which also tells the request's body that the server speaks.
pub(super) struct ServerClock {
    longest: Duration,
    /// The end of the current wait; `None` while nothing is waited for.
    deadline: Option<Instant>,
    /// Set when the connection has no timer of its own.
    timer: Option<Pin<Box<Sleep>>>,
    /// The progress of the request's body, if there is one.
    upload: Option<Arc<UploadProgress>>,
}

impl ServerClock {
    /// A server that may be silent for `longest`.
    pub(super) fn new(longest: Duration, upload: Option<Arc<UploadProgress>>) -> Self {
        Self {
            longest,
            deadline: None,
            timer: None,
            upload,
        }
    }

    /// Ends the wait: the server has sent something.
    pub(super) fn has_come(&mut self) {
        self.deadline = None;
        if let Some(upload) = &self.upload {
            upload.has_answered();
        }
    }

    /// The time at which the server is given up, if it stays silent. Begins a wait if none is on.
    pub(super) fn deadline(&mut self) -> Instant {
        *self
            .deadline
            .get_or_insert_with(|| Instant::now() + self.longest)
    }

    /// Ready when the server has been silent for too long.
    pub(super) fn poll_stalled(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let deadline = self.deadline();
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        loop {
            ready!(timer.as_mut().poll(cx));
            if timer.deadline() >= deadline {
                return Poll::Ready(());
            }
            // It was set for an earlier wait.
            timer.as_mut().reset(deadline);
        }
    }

    /// True when it was the client who stopped, in the middle of its request's body.
    pub(super) fn is_client_stalled(&self) -> bool {
        self.upload
            .as_ref()
            .is_some_and(|upload| upload.is_stalled())
    }
}
