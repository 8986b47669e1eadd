//! How much may wait in memory for one connection.

use super::frame::{WINDOW_DEFAULT, WINDOW_MAX};

/// The most bytes of bodies that wait in memory for one connection, in both directions together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferBounds(pub(crate) usize);

impl BufferBounds {
    /// Bytes of request bodies that may wait: one half. A single stream may have all of them.
    pub(super) fn receive_window(self) -> u32 {
        u32::try_from(self.0 / 2)
            .unwrap_or(WINDOW_MAX)
            .clamp(WINDOW_DEFAULT, WINDOW_MAX)
    }

    /// Unsent bytes with which nothing is read any more: a quarter.
    pub(super) fn unsent_max(self) -> usize {
        self.0 / 4
    }

    /// Bytes with which no response is asked for another part: less than a quarter, because the last
    /// part comes on top.
    pub(super) fn held_max(self) -> usize {
        self.0 / 8
    }

    /// The same for those whose windows are closed. They are asked for a part all the same, because
    /// the end of a response needs no window.
    pub(super) fn held_without_window(self) -> usize {
        self.0 / 16
    }

    /// Bytes of one part, when so many responses are being sent.
    pub(super) fn part_max(self, responses: u32) -> usize {
        const LEAST: usize = 8 * 1024;
        (self.0 / 16 / responses.max(1) as usize).max(LEAST)
    }
}
