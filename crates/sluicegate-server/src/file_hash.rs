//! The hash of a file: two equal hashes mean that there is nothing new to read.
//!
//! Used by the file watch, by reloads, and by connections that are kept as long as the certificates
//! they were made with stay the same.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

/// The SHA-256 of a regular file. Anything else is an error: reading a pipe might never end.
pub(crate) fn sha256_of(path: &Path) -> io::Result<[u8; 32]> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut piece = [0; 16 * 1024];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(hash.finalize().into()),
            read => hash.update(&piece[..read]),
        }
    }
}
