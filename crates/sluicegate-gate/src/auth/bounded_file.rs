//! Reads files of keys with a bound on their size, so that a wrong path (a log, a device) costs a
//! message and not the memory.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The text of a file of at most `bytes_max` bytes, or what is wrong, with the path in front.
pub(super) fn read_text(path: &Path, bytes_max: u64) -> Result<String, String> {
    let at_path = |what: String| format!("{}: {what}", path.display());
    let bytes =
        bytes_of(path, bytes_max).map_err(|error| at_path(format!("cannot be read: {error}")))?;
    if bytes.len() as u64 > bytes_max {
        return Err(at_path(format!("expected at most {} MiB", bytes_max >> 20)));
    }
    String::from_utf8(bytes).map_err(|_| at_path("expected UTF-8 text".to_owned()))
}

/// Reads at most one byte more than allowed. The size is not asked for first, because a file can
/// grow while it is read.
fn bytes_of(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(bytes_max + 1)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_its_size_and_refused_beyond() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keys");
        std::fs::write(&path, vec![b'a'; 1 << 20]).unwrap();
        assert_eq!(read_text(&path, 1 << 20).unwrap().len(), 1 << 20);
        std::fs::write(&path, vec![b'a'; (1 << 20) + 1]).unwrap();
        assert_eq!(
            read_text(&path, 1 << 20).unwrap_err(),
            format!("{}: expected at most 1 MiB", path.display())
        );
    }

    #[test]
    fn what_is_missing_or_no_text_is_refused_by_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keys");
        let missing = read_text(&path, 1).unwrap_err();
        assert!(
            missing.starts_with(&format!("{}: cannot be read: ", path.display())),
            "{missing}"
        );
        std::fs::write(&path, [0xff, 0xfe]).unwrap();
        assert_eq!(
            read_text(&path, 9).unwrap_err(),
            format!("{}: expected UTF-8 text", path.display())
        );
    }
}
