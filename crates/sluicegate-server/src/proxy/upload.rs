//! How the body of a request comes along while its answer is waited for.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

/// How the bytes of a body come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// One after the other, as fast as they can.
    Steady,
    /// In messages, when there is something to say, as in gRPC.
    Messages,
}

/// Told by the body, looked at by whoever waits for the answer.
#[derive(Debug, Default)]
pub(super) struct Upload {
    is_wanted: AtomicBool,
    came: AtomicU64,
}

impl Upload {
    /// Whether the client is waited for.
    pub(super) fn wants_more(&self, is_wanted: bool) {
        self.is_wanted.store(is_wanted, Relaxed);
    }

    pub(super) fn has_come(&self, bytes: u64) {
        self.came.fetch_add(bytes, Relaxed);
    }
}

/// Looks at an upload again and again, and knows when it is too slow.
///
/// The time that a server takes is not the client's: only looks that find the client waited for, one after the other, count.
#[derive(Debug)]
pub(super) struct Inspector {
    /// How long to wait before each look.
    pub(super) pause: Duration,
    /// The least that must come within the time that a client has.
    least: u64,
    /// Looks for which the client has been waited for, and what had come when that began.
    waited: (u32, u64),
    /// What had come at the last look.
    came: u64,
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// The body comes, or is waited for: the server has nothing to answer yet.
    Client,
    Server,
    /// The client's, and it is over.
    Missed,
}

impl Inspector {
    const LOOKS: u32 = 4;
    /// Slower than this nobody sends in earnest.
    const BYTES_PER_SECOND: u64 = 100;

    /// Of a client that has so much time.
    pub(super) fn new(time: Duration) -> Self {
        const SHORTEST: Duration = Duration::from_millis(5);
        let least = (Self::BYTES_PER_SECOND * time.as_millis() as u64 / 1_000).max(1);
        Self {
            pause: (time / Self::LOOKS).max(SHORTEST),
            least,
            waited: (0, 0),
            came: 0,
        }
    }

    /// Looks; once after each pause.
    pub(super) fn look(&mut self, upload: &Upload) -> Turn {
        let came = upload.came.load(Relaxed);
        let has_moved = came != std::mem::replace(&mut self.came, came);
        if !upload.is_wanted.load(Relaxed) {
            self.waited = (0, came);
            return if has_moved {
                Turn::Client
            } else {
                Turn::Server
            };
        }
        self.waited.0 += 1;
        if self.waited.0 <= Self::LOOKS {
            return Turn::Client;
        }
        let meanwhile = came - self.waited.1;
        self.waited = (0, came);
        if meanwhile < self.least {
            Turn::Missed
        } else {
            Turn::Client
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of two seconds, in which 200 bytes must come.
    fn turns(upload: &Upload, mut meanwhile: impl FnMut(&Upload)) -> Vec<Turn> {
        let mut inspector = Inspector::new(Duration::from_secs(2));
        let look = |_| {
            meanwhile(upload);
            inspector.look(upload)
        };
        (0..12).map(look).collect()
    }

    #[test]
    fn a_body_must_come_at_a_hundred_bytes_a_second() {
        let upload = Upload::default();
        upload.wants_more(true);
        assert_eq!(
            turns(&upload, |_| {})
                .iter()
                .position(|turn| *turn == Turn::Missed),
            Some(4)
        );
        assert_eq!(
            turns(&upload, |upload| upload.has_come(30))
                .iter()
                .position(|turn| *turn == Turn::Missed),
            Some(4)
        );
        assert!(
            turns(&upload, |upload| upload.has_come(60))
                .iter()
                .all(|turn| *turn == Turn::Client)
        );
    }

    #[test]
    fn a_server_that_does_not_read_takes_its_own_time() {
        let upload = Upload::default();
        assert!(
            turns(&upload, |_| {})
                .iter()
                .all(|turn| *turn == Turn::Server)
        );
        let mut looks = 0;
        let now_and_then = |upload: &Upload| {
            looks += 1;
            upload.wants_more(looks % 4 == 0);
        };
        assert!(!turns(&upload, now_and_then).contains(&Turn::Missed));
    }
}
