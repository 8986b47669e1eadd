//! What files hold, and whether it is something else now.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest, Sha256};

/// Relative paths start where the program runs now.
pub(super) fn absolute(files: Vec<PathBuf>) -> Vec<PathBuf> {
    files
        .into_iter()
        .map(|path| std::path::absolute(&path).unwrap_or(path))
        .collect()
}

/// How closely files are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// All are read.
    AtContent,
    /// Those are read whose size, time or place on the disk is another.
    AtStamps,
}

/// Files and what they held when they were looked at last.
#[derive(Debug)]
pub(super) struct Contents(Vec<Seen>);

#[derive(Debug)]
struct Seen {
    path: PathBuf,
    /// Of the file as it is; `None` while it is not there.
    stamp: Option<Stamp>,
    /// Of the file as it was last; `None` as long as it has never been there.
    hash: Option<[u8; 32]>,
}

impl Contents {
    /// Reads the files.
    pub(super) fn of(files: Vec<PathBuf>) -> Self {
        let seen = files.into_iter().map(|path| {
            let mut seen = Seen {
                path,
                stamp: None,
                hash: None,
            };
            seen.look(Look::AtContent);
            seen
        });
        Self(seen.collect())
    }

    pub(super) fn files(&self) -> impl Iterator<Item = &Path> + Clone {
        self.0.iter().map(|seen| seen.path.as_path())
    }

    /// Whether the content of any file is another than at the last look.
    pub(super) fn look(&mut self, look: Look) -> bool {
        // Every file is looked at, so that changes that belong together are one.
        self.0
            .iter_mut()
            .fold(false, |changed, seen| seen.look(look) | changed)
    }

    /// Takes over other files; those that stay keep what they held.
    pub(super) fn replace(&mut self, mut new: Self) {
        for seen in &mut new.0 {
            if let Some(known) = self.0.iter_mut().find(|known| known.path == seen.path) {
                (seen.stamp, seen.hash) = (known.stamp.take(), known.hash);
            }
        }
        *self = new;
    }
}

impl Seen {
    fn look(&mut self, look: Look) -> bool {
        let stamp = Stamp::of(&self.path);
        if look == Look::AtStamps && stamp == self.stamp {
            return false;
        }
        if stamp.is_none() && self.stamp.is_some() {
            tracing::warn!(file = %self.path.display(), "a watched file is gone, what was read of it stays in force");
        }
        self.stamp = stamp;
        // What cannot be read now may be in the middle of being replaced.
        let Ok(hash) = hash_of(&self.path) else {
            return false;
        };
        let changed = self.hash != Some(hash);
        self.hash = Some(hash);
        changed
    }
}

/// What differs whenever a file was written or replaced, short of two writes within a tick of the system's clock.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    size: u64,
    modified: Option<SystemTime>,
    place: Place,
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        Some(Self {
            size: metadata.len(),
            modified: metadata.modified().ok(),
            place: Place::of(&metadata),
        })
    }
}

/// Where a file or directory is on its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    device: u64,
    inode: u64,
}

impl Place {
    #[cfg(unix)]
    pub(super) fn of(metadata: &fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }

    #[cfg(not(unix))]
    pub(super) fn of(_: &fs::Metadata) -> Self {
        Self {
            device: 0,
            inode: 0,
        }
    }
}

/// What a file holds, in 32 bytes. Of regular files only: a pipe would never end.
pub(crate) fn hash_of(path: &Path) -> io::Result<[u8; 32]> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_content_is_a_change() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        fs::write(&path, "one").unwrap();
        let mut contents = Contents::of(vec![path.clone()]);
        assert!(!contents.look(Look::AtContent));
        fs::write(&path, "one").unwrap();
        assert!(
            !contents.look(Look::AtContent),
            "the same again is no change"
        );
        fs::write(&path, "two").unwrap();
        assert!(contents.look(Look::AtContent));
        assert!(!contents.look(Look::AtContent), "a change is told once");
    }

    #[test]
    fn a_file_that_is_gone_is_no_change_until_it_is_back_with_another_content() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        fs::write(&path, "one").unwrap();
        let mut contents = Contents::of(vec![path.clone()]);
        fs::remove_file(&path).unwrap();
        assert!(!contents.look(Look::AtStamps));
        fs::write(&path, "one").unwrap();
        assert!(!contents.look(Look::AtStamps));
        fs::remove_file(&path).unwrap();
        assert!(!contents.look(Look::AtContent));
        fs::write(&path, "two").unwrap();
        assert!(contents.look(Look::AtStamps));
    }

    #[test]
    fn all_files_that_changed_are_one_change() {
        let directory = tempfile::tempdir().unwrap();
        let paths = ["a", "b"].map(|name| directory.path().join(name));
        let mut contents = Contents::of(paths.to_vec());
        paths
            .iter()
            .for_each(|path| fs::write(path, "one").unwrap());
        assert!(
            contents.look(Look::AtStamps),
            "files that come into being are a change"
        );
        assert!(!contents.look(Look::AtContent));
    }

    #[test]
    fn other_files_start_as_they_are_and_known_ones_as_they_were() {
        let directory = tempfile::tempdir().unwrap();
        let [a, b] = ["a", "b"].map(|name| directory.path().join(name));
        fs::write(&a, "one").unwrap();
        fs::write(&b, "one").unwrap();
        let mut contents = Contents::of(vec![a.clone()]);
        contents.replace(Contents::of(vec![a.clone(), b.clone()]));
        assert!(!contents.look(Look::AtContent));
        fs::write(&a, "two").unwrap();
        contents.replace(Contents::of(vec![b.clone(), a]));
        assert!(
            contents.look(Look::AtStamps),
            "a change that nobody was told of is not forgotten"
        );
        contents.replace(Contents::of(vec![]));
        fs::write(&b, "two").unwrap();
        assert!(
            !contents.look(Look::AtContent),
            "what is not watched does not matter"
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_or_directory_in_place_of_a_file_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        assert!(
            std::process::Command::new("mkfifo")
                .arg(&pipe)
                .status()
                .unwrap()
                .success()
        );
        let (looked, has_looked) = std::sync::mpsc::channel();
        let files = vec![directory.path().to_owned(), pipe];
        // A pipe without a writer holds up whoever opens it, so that is somebody else.
        std::thread::spawn(move || looked.send(Contents::of(files).look(Look::AtContent)));
        assert_eq!(
            has_looked.recv_timeout(std::time::Duration::from_secs(20)),
            Ok(false)
        );
    }
}
