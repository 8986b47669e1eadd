//! Windows of flow control (RFC 9113, section 5.2), of a stream or of the connection.

use super::frame::{ErrorCode, WINDOW_MAX};

/// Bytes that we may send. A change of the settings may make it negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SendWindow(i64);

impl SendWindow {
    pub(super) fn new(size: u32) -> Self {
        Self(i64::from(size))
    }

    /// Bytes that may be sent now.
    pub(super) fn available(self) -> usize {
        usize::try_from(self.0).unwrap_or(0)
    }

    /// Counts bytes that are sent.
    pub(super) fn take(&mut self, bytes: usize) {
        self.0 -= bytes as i64;
    }

    /// The client lets us send more, or a change of its settings more or less.
    pub(super) fn change(&mut self, by: i64) -> Result<(), ErrorCode> {
        self.0 += by;
        if self.0 > i64::from(WINDOW_MAX) {
            return Err(ErrorCode::FlowControl);
        }
        Ok(())
    }
}

/// Bytes that the client may send.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReceiveWindow {
    size: u32,
    left: u32,
    /// Bytes that were read here and that the client may not send again yet.
    owed: u32,
}

impl ReceiveWindow {
    pub(super) fn new(size: u32) -> Self {
        Self {
            size,
            left: size,
            owed: 0,
        }
    }

    /// Counts bytes that came.
    pub(super) fn take(&mut self, bytes: usize) -> Result<(), ErrorCode> {
        let bytes = u32::try_from(bytes).map_err(|_| ErrorCode::FlowControl)?;
        self.left = self.left.checked_sub(bytes).ok_or(ErrorCode::FlowControl)?;
        Ok(())
    }

    /// Counts bytes that were read. Returns the window that the client is to get, if it is enough
    /// to be worth a frame.
    pub(super) fn give_back(&mut self, bytes: usize) -> Option<u32> {
        self.owed += bytes as u32;
        if self.owed == 0 || self.owed < self.size / 2 {
            return None;
        }
        self.left += self.owed;
        Some(std::mem::take(&mut self.owed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_send_window_may_be_negative_and_has_a_largest_size() {
        let mut window = SendWindow::new(10);
        window.take(8);
        window.change(-10).unwrap();
        assert_eq!(window.available(), 0);
        window.change(9).unwrap();
        assert_eq!(window.available(), 1);
        assert_eq!(
            window.change(i64::from(WINDOW_MAX)),
            Err(ErrorCode::FlowControl)
        );
    }

    #[test]
    fn a_receive_window_grows_again_in_large_steps() {
        let mut window = ReceiveWindow::new(100);
        window.take(100).unwrap();
        assert_eq!(window.take(1), Err(ErrorCode::FlowControl));
        assert_eq!(
            (window.give_back(49), window.give_back(1)),
            (None, Some(50))
        );
        window.take(50).unwrap();
        assert!(window.take(1).is_err());
    }
}
