//! The contents of watched files, as hashes, and whether they have changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::file_hash;

/// Makes paths absolute, so that a later change of the working directory does not matter.
pub(super) fn absolute(files: Vec<PathBuf>) -> Vec<PathBuf> {
    files
        .into_iter()
        .map(|path| std::path::absolute(&path).unwrap_or(path))
        .collect()
}

/// The thoroughness of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CheckDepth {
    /// Every file is read.
    Content,
    /// A file is read only if its size, time or inode has changed.
    Stamps,
}

/// Files, with their contents at the last check.
#[derive(Debug)]
pub(super) struct FileContents(Vec<WatchedFile>);

/// One file.
#[derive(Debug)]
struct WatchedFile {
    path: PathBuf,
    /// The stamp at the last check; `None` while the file is missing.
    stamp: Option<FileStamp>,
    /// The hash of the last content that could be read; `None` until there was one.
    hash: Option<[u8; 32]>,
}

impl FileContents {
    /// Reads the files.
    pub(super) fn of(files: Vec<PathBuf>) -> Self {
        let files = files.into_iter().map(|path| {
            let mut file = WatchedFile {
                path,
                stamp: None,
                hash: None,
            };
            file.check(CheckDepth::Content);
            file
        });
        Self(files.collect())
    }

    pub(super) fn files(&self) -> impl Iterator<Item = &Path> + Clone {
        self.0.iter().map(|file| file.path.as_path())
    }

    /// Returns true when the content of any file has changed since the last check.
    pub(super) fn check(&mut self, depth: CheckDepth) -> bool {
        // No file is skipped, so that changes that belong together are reported once.
        self.0
            .iter_mut()
            .fold(false, |changed, file| file.check(depth) | changed)
    }

    /// Replaces the files. A file that stays keeps its old content, so that a change which nobody
    /// has seen yet is still reported.
    pub(super) fn replace(&mut self, mut new: Self) {
        for file in &mut new.0 {
            if let Some(known) = self.0.iter_mut().find(|known| known.path == file.path) {
                (file.stamp, file.hash) = (known.stamp.take(), known.hash);
            }
        }
        *self = new;
    }
}

impl WatchedFile {
    fn check(&mut self, depth: CheckDepth) -> bool {
        let stamp = FileStamp::of(&self.path);
        if depth == CheckDepth::Stamps && stamp == self.stamp {
            return false;
        }
        if stamp.is_none() && self.stamp.is_some() {
            tracing::warn!(
                file = %self.path.display(),
                "a watched file is missing, its last content stays in force"
            );
        }
        self.stamp = stamp;
        // A file that cannot be read may be in the middle of being replaced: not a change yet.
        let Ok(hash) = file_hash::sha256_of(&self.path) else {
            return false;
        };
        let changed = self.hash != Some(hash);
        self.hash = Some(hash);
        changed
    }
}

/// Changes whenever a file is written or replaced, except for two writes of the same size within
/// one tick of the file system's clock.
#[derive(Debug, PartialEq, Eq)]
struct FileStamp {
    size: u64,
    modified: Option<SystemTime>,
    id: FileId,
}

impl FileStamp {
    fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        Some(Self {
            size: metadata.len(),
            modified: metadata.modified().ok(),
            id: FileId::of(&metadata),
        })
    }
}

/// The identity of a file or directory on its disk, independent of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_content_is_a_change() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        fs::write(&path, "one").unwrap();
        let mut contents = FileContents::of(vec![path.clone()]);
        assert!(!contents.check(CheckDepth::Content));
        fs::write(&path, "one").unwrap();
        assert!(
            !contents.check(CheckDepth::Content),
            "the same again is no change"
        );
        fs::write(&path, "two").unwrap();
        assert!(contents.check(CheckDepth::Content));
        assert!(
            !contents.check(CheckDepth::Content),
            "a change is told once"
        );
    }

    #[test]
    fn a_file_that_is_gone_is_no_change_until_it_is_back_with_another_content() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        fs::write(&path, "one").unwrap();
        let mut contents = FileContents::of(vec![path.clone()]);
        fs::remove_file(&path).unwrap();
        assert!(!contents.check(CheckDepth::Stamps));
        fs::write(&path, "one").unwrap();
        assert!(!contents.check(CheckDepth::Stamps));
        fs::remove_file(&path).unwrap();
        assert!(!contents.check(CheckDepth::Content));
        fs::write(&path, "two").unwrap();
        assert!(contents.check(CheckDepth::Stamps));
    }

    #[test]
    fn all_files_that_changed_are_one_change() {
        let directory = tempfile::tempdir().unwrap();
        let paths = ["a", "b"].map(|name| directory.path().join(name));
        let mut contents = FileContents::of(paths.to_vec());
        paths
            .iter()
            .for_each(|path| fs::write(path, "one").unwrap());
        assert!(
            contents.check(CheckDepth::Stamps),
            "files that come into being are a change"
        );
        assert!(!contents.check(CheckDepth::Content));
    }

    #[test]
    fn other_files_start_as_they_are_and_known_ones_as_they_were() {
        let directory = tempfile::tempdir().unwrap();
        let [a, b] = ["a", "b"].map(|name| directory.path().join(name));
        fs::write(&a, "one").unwrap();
        fs::write(&b, "one").unwrap();
        let mut contents = FileContents::of(vec![a.clone()]);
        contents.replace(FileContents::of(vec![a.clone(), b.clone()]));
        assert!(!contents.check(CheckDepth::Content));
        fs::write(&a, "two").unwrap();
        contents.replace(FileContents::of(vec![b.clone(), a]));
        assert!(
            contents.check(CheckDepth::Stamps),
            "a change that nobody was told of is not forgotten"
        );
        contents.replace(FileContents::of(vec![]));
        fs::write(&b, "two").unwrap();
        assert!(
            !contents.check(CheckDepth::Content),
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
        // Opening a pipe without a writer blocks, so another thread does it.
        std::thread::spawn(move || looked.send(FileContents::of(files).check(CheckDepth::Content)));
        assert_eq!(
            has_looked.recv_timeout(std::time::Duration::from_secs(20)),
            Ok(false)
        );
    }
}
