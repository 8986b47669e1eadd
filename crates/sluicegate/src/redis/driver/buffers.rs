//! Reading from and writing to a connection in steps that may be cancelled at any time.

use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};

use crate::redis::dial::NodeConnection;

/// Bytes that are not written yet.
pub(super) struct OutgoingBytes {
    writer: WriteHalf<NodeConnection>,
    /// Calls that `traffic` appended; the first `written` bytes of them are on their way.
    pub(super) bytes: Vec<u8>,
    written: usize,
    /// False while a TLS connection may still hold written bytes back.
    flushed: bool,
}

impl OutgoingBytes {
    pub(super) fn new(writer: WriteHalf<NodeConnection>) -> Self {
        Self {
            writer,
            bytes: Vec::new(),
            written: 0,
            flushed: true,
        }
    }

    /// Returns true when everything is written and flushed.
    pub(super) fn is_done(&self) -> bool {
        self.bytes.is_empty() && self.flushed
    }

    /// Writes some of the bytes, or flushes when all are written. It may be dropped at any `await`:
    /// `written` counts only what the connection has taken.
    pub(super) async fn progress(&mut self) -> Result<(), String> {
        if self.bytes.is_empty() {
            self.writer
                .flush()
                .await
                .map_err(|error| error.to_string())?;
            self.flushed = true;
            return Ok(());
        }
        self.flushed = false;
        let wrote = self
            .writer
            .write(&self.bytes[self.written..])
            .await
            .map_err(|error| error.to_string())?;
        if wrote == 0 {
            return Err("closed while writing".to_owned());
        }
        self.written += wrote;
        if self.written == self.bytes.len() {
            self.bytes.clear();
            self.written = 0;
        }
        Ok(())
    }
}

/// Appends the bytes that have come, at least one.
pub(super) async fn read_some(
    reader: &mut ReadHalf<NodeConnection>,
    into: &mut Vec<u8>,
) -> Result<(), String> {
    match reader.read_buf(into).await {
        Ok(0) => Err("closed by the server".to_owned()),
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}
