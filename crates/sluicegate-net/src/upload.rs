//! Supervision of a request's body: while the server's response is waited for, and after that.
//!
//! A server has nothing to answer before it has the body, so its time must not run while the
//! client still sends; but a client that sends a byte now and then must not hold a server for
//! ever. So the body reports its progress, and the monitor finds out whose turn it is.
//!
//! Once the response has begun nobody waits for the body alone, and both sides may speak in turn.
//! Then a body that stops altogether ends the request ([`StalledUpload`]).

use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// Manner in which the bytes of a body come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UploadPace {
    /// One after the other, as fast as they can: a minimum rate is required.
    Steady,
    /// In messages, when there is something to say, as in gRPC: pauses are fine for as long as the
    /// server speaks.
    Messages,
}

/// Progress of a body: written by the body, read by the monitor.
#[derive(Debug, Default)]
pub struct UploadProgress {
    /// The body was polled and has nothing: the client is waited for.
    is_wanted: AtomicBool,
    /// Bytes that have come.
    came: AtomicU64,
    /// Parts of the response that the server has sent.
    answered: AtomicU64,
    /// The client was given up.
    is_stalled: AtomicBool,
}

impl UploadProgress {
    /// Records that the client is waited for, or no longer is.
    pub(crate) fn wants_more(&self, is_wanted: bool) {
        self.is_wanted.store(is_wanted, Relaxed);
    }

    /// Records bytes of the body.
    pub(crate) fn has_come(&self, bytes: u64) {
        self.came.fetch_add(bytes, Relaxed);
    }

    /// Records that the server has sent a part of its response.
    pub fn has_answered(&self) {
        self.answered.fetch_add(1, Relaxed);
    }

    /// Returns true when the client was given up because it stopped sending.
    pub fn is_stalled(&self) -> bool {
        self.is_stalled.load(Relaxed)
    }
}

/// The clock of a body that is waited for. It runs from the first poll that finds nothing to the
/// next one that finds something; in between lies a timer, which a body that comes at once never
/// sets.
#[derive(Debug)]
pub(crate) struct StalledUpload {
    longest: Duration,
    pace: UploadPace,
    wait: Option<Box<UploadWait>>,
}

#[derive(Debug)]
struct UploadWait {
    timer: Pin<Box<Sleep>>,
    /// The client is waited for since then; `None` while it is not.
    since: Option<Instant>,
    /// Parts of the response when the wait began.
    answered: u64,
}

impl StalledUpload {
    /// A client that has `longest` to send the next byte. With messages, each part of the response
    /// gives it as much again.
    pub(crate) fn new(longest: Duration, pace: UploadPace) -> Self {
        Self {
            longest,
            pace,
            wait: None,
        }
    }

    /// Records that the client has sent something.
    pub(crate) fn has_come(&mut self) {
        if let Some(wait) = &mut self.wait {
            wait.since = None;
        }
    }

    /// Ready when the client has been waited for too long.
    pub(crate) fn poll_stalled(
        &mut self,
        cx: &mut Context<'_>,
        progress: &UploadProgress,
    ) -> Poll<()> {
        let (answered, now) = (progress.answered.load(Relaxed), Instant::now());
        let wait = self.wait.get_or_insert_with(|| {
            Box::new(UploadWait {
                timer: Box::pin(sleep_until(now + self.longest)),
                since: None,
                answered,
            })
        });
        let has_spoken = answered != std::mem::replace(&mut wait.answered, answered);
        if has_spoken && self.pace == UploadPace::Messages {
            wait.since = None;
        }
        let deadline = *wait.since.get_or_insert(now) + self.longest;
        // A timer that was set for an earlier wait is left alone until it is over.
        while wait.timer.as_mut().poll(cx).is_ready() {
            if wait.timer.deadline() >= deadline {
                progress.is_stalled.store(true, Relaxed);
                return Poll::Ready(());
            }
            wait.timer.as_mut().reset(deadline);
        }
        Poll::Pending
    }
}

/// Checks an upload again and again, and finds out when it is too slow.
///
/// Only checks in a row that find the client waited for count against it: the time that a server
/// takes to read is the server's.
#[derive(Debug)]
pub struct UploadMonitor {
    /// Time to wait before each check.
    pub pause: Duration,
    /// Least bytes that must come within the time that a client has.
    bytes_min: u64,
    /// Checks in a row that found the client waited for, and the bytes that had come before them.
    waited: (u32, u64),
    /// Bytes that had come at the last check.
    came: u64,
}

/// Result of a check: the side that is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UploadState {
    /// The body comes, or is waited for: the server has nothing to answer yet.
    Sending,
    /// The server reads, or has everything.
    ServersTurn,
    /// The client was waited for and sent too little.
    TooSlow,
}

impl UploadMonitor {
    /// Checks within the time that a client has.
    const CHECKS: u32 = 4;
    /// Slower than this nobody sends in earnest.
    const BYTES_PER_SECOND: u64 = 100;

    /// Monitor of a client that has `time` to send the minimum.
    pub fn new(time: Duration) -> Self {
        const SHORTEST: Duration = Duration::from_millis(5);
        let bytes_min = (Self::BYTES_PER_SECOND * time.as_millis() as u64 / 1_000).max(1);
        Self {
            pause: (time / Self::CHECKS).max(SHORTEST),
            bytes_min,
            waited: (0, 0),
            came: 0,
        }
    }

    /// Checks the progress; to be called after each [`UploadMonitor::pause`].
    pub fn check(&mut self, upload: &UploadProgress) -> UploadState {
        let came = upload.came.load(Relaxed);
        let has_moved = came != std::mem::replace(&mut self.came, came);
        if !upload.is_wanted.load(Relaxed) {
            self.waited = (0, came);
            return if has_moved {
                UploadState::Sending
            } else {
                UploadState::ServersTurn
            };
        }
        self.waited.0 += 1;
        if self.waited.0 <= Self::CHECKS {
            return UploadState::Sending;
        }
        let meanwhile = came - self.waited.1;
        self.waited = (0, came);
        if meanwhile < self.bytes_min {
            UploadState::TooSlow
        } else {
            UploadState::Sending
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    /// Results of twelve checks; 200 bytes must come within two seconds.
    fn states(
        upload: &UploadProgress,
        mut meanwhile: impl FnMut(&UploadProgress),
    ) -> Vec<UploadState> {
        let mut monitor = UploadMonitor::new(Duration::from_secs(2));
        let check = |_| {
            meanwhile(upload);
            monitor.check(upload)
        };
        (0..12).map(check).collect()
    }

    #[test]
    fn a_body_must_come_at_a_hundred_bytes_a_second() {
        let upload = UploadProgress::default();
        upload.wants_more(true);
        assert_eq!(
            states(&upload, |_| {})
                .iter()
                .position(|state| *state == UploadState::TooSlow),
            Some(4)
        );
        assert_eq!(
            states(&upload, |upload| upload.has_come(30))
                .iter()
                .position(|state| *state == UploadState::TooSlow),
            Some(4)
        );
        assert!(
            states(&upload, |upload| upload.has_come(60))
                .iter()
                .all(|state| *state == UploadState::Sending)
        );
    }

    #[test]
    fn a_server_that_does_not_read_takes_its_own_time() {
        let upload = UploadProgress::default();
        assert!(
            states(&upload, |_| {})
                .iter()
                .all(|state| *state == UploadState::ServersTurn)
        );
        let mut checks = 0;
        let now_and_then = |upload: &UploadProgress| {
            checks += 1;
            upload.wants_more(checks % 4 == 0);
        };
        assert!(!states(&upload, now_and_then).contains(&UploadState::TooSlow));
    }

    /// Time until a body with this pace is given up, at most ten times what it has. A part of the
    /// response comes every 700 ms where the server speaks.
    async fn given_up_after(pace: UploadPace, server_speaks: bool) -> Option<Duration> {
        let (longest, since) = (Duration::from_secs(1), Instant::now());
        let upload = UploadProgress::default();
        let mut clock = StalledUpload::new(longest, pace);
        let stalled = poll_fn(|cx| clock.poll_stalled(cx, &upload));
        let mut stalled = std::pin::pin!(stalled);
        while since.elapsed() < longest * 10 {
            // bounded wait: the clock is paused
            if tokio::time::timeout(longest * 7 / 10, stalled.as_mut())
                .await
                .is_ok()
            {
                return Some(since.elapsed());
            }
            if server_speaks {
                upload.has_answered();
            }
        }
        None
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stops_is_given_up_unless_it_has_messages_and_the_server_speaks() {
        let second = Some(1);
        for (pace, server_speaks, expected) in [
            (UploadPace::Steady, false, second),
            (UploadPace::Steady, true, second),
            (UploadPace::Messages, false, second),
            (UploadPace::Messages, true, None),
        ] {
            let after = given_up_after(pace, server_speaks).await;
            assert_eq!(
                after.map(|after| after.as_secs()),
                expected,
                "{pace:?}, {server_speaks}"
            );
        }
    }
}
