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
pub(super) enum CheckDepth {
    /// All are read.
    Content,
    /// Those are read whose size, time or place on the disk is another.
    Stamps,
}

/// Files and what they held when they were looked at last.
#[derive(Debug)]
pub(super) struct FileContents(Vec<WatchedFile>);

#[derive(Debug)]
struct WatchedFile {
    path: PathBuf,
    /// Of the file as it is; `None` while it is not there.
    stamp: Option<FileStamp>,
    /// Of the file as it was last; `None` as long as it has never been there.
    hash: Option<[u8; 32]>,
}

impl FileContents {
    /// Reads the files.
    pub(super) fn of(files: Vec<PathBuf>) -> Self {
        let file = files.into_iter().map(|path| {
            let mut file = WatchedFile {
                path,
                stamp: None,
                hash: None,
            };
            file.check(CheckDepth::Content);
            file
        });
        Self(file.collect())
    }

    pub(super) fn files(&self) -> impl Iterator<Item = &Path> + Clone {
        self.0.iter().map(|file| file.path.as_path())
    }

    /// Whether the content of any file is another than at the last look.
    pub(super) fn check(&mut self, check: CheckDepth) -> bool {
        // Every file is looked at, so that changes that belong together are one.
        self.0
            .iter_mut()
            .fold(false, |changed, file| file.check(check) | changed)
    }

    /// Takes over other files; those that stay keep what they held.
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
    fn check(&mut self, check: CheckDepth) -> bool {
        let stamp = FileStamp::of(&self.path);
        if check == CheckDepth::Stamps && stamp == self.stamp {
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

/// Where a file or directory is on its disk.
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
        // A pipe without a writer holds up whoever opens it, so that is somebody else.
        std::thread::spawn(move || looked.send(FileContents::of(files).check(CheckDepth::Content)));
        assert_eq!(
            has_looked.recv_timeout(std::time::Duration::from_secs(20)),
            Ok(false)
        );
    }
}
