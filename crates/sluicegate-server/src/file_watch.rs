//! Watches files and reports when their content changes, however they are replaced.
//!
//! Idea: notifications of the system only say *when* to check; the content decides *whether*
//! something changed. Directories are watched and not files, because a watch on a file is lost at
//! the first rename, and a directory that Kubernetes mounts changes by one symbolic link in it.
//! Since not every file system sends notifications, all files are also checked every five seconds.
//!
//! Invariant: a change after the watcher was started is reported at least once, and a file with the
//! same content never is.

mod content;
mod directories;
mod path_walk;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use content::{CheckDepth, FileContents};
use directories::DirectoryWatch;

/// Watches files and calls a function when their content changes. Dropping it ends it.
///
/// Start it before the files are read for the first time, so that a change in between is noticed. A
/// file that disappears is not a change; one that comes back with another content is.
#[derive(Debug)]
pub struct FileWatcher {
    messages: Sender<WatchMessage>,
    thread: Option<JoinHandle<()>>,
}

/// The timings of a watcher; tests use shorter ones.
#[derive(Clone, Copy, Debug)]
struct WatchTimings {
    /// Files are checked after this long without a notification, so that one change of several
    /// files is reported once.
    debounce: Duration,
    /// The longest that a series of notifications delays the check.
    debounce_max: Duration,
    /// The time between checks without a notification.
    poll: Duration,
    /// False to rely on polling alone.
    uses_notifications: bool,
}

impl WatchTimings {
    const DEFAULT: Self = Self {
        debounce: Duration::from_millis(200),
        debounce_max: Duration::from_secs(2),
        poll: Duration::from_secs(5),
        uses_notifications: true,
    };
}

/// A message to the thread of a watcher.
enum WatchMessage {
    /// The system sent a notification about a watched file or a directory on its path.
    Touched,
    /// The files to watch from now on, with their contents.
    Files(FileContents),
    /// The watcher is being dropped.
    End,
}

impl FileWatcher {
    /// Calls `on_change` from a thread of its own, one call at a time, once for changes that happen
    /// together.
    pub fn start(files: Vec<PathBuf>, on_change: impl Fn() + Send + 'static) -> io::Result<Self> {
        Self::start_with(WatchTimings::DEFAULT, files, on_change)
    }

    fn start_with(
        timings: WatchTimings,
        files: Vec<PathBuf>,
        on_change: impl Fn() + Send + 'static,
    ) -> io::Result<Self> {
        let (messages, receiver) = mpsc::channel();
        let is_touched = Arc::new(AtomicBool::new(false));
        let mut directories = DirectoryWatch::default();
        if timings.uses_notifications {
            let (touch, flag) = (messages.clone(), Arc::clone(&is_touched));
            directories.listen(move || {
                // One message is enough until the thread has read it.
                if !flag.swap(true, Ordering::AcqRel) {
                    let _ = touch.send(WatchMessage::Touched);
                }
            });
        }
        let files = content::absolute(files);
        // Watched before they are read, so that a change in between sends a notification.
        directories.watch(files.iter().map(PathBuf::as_path));
        let contents = FileContents::of(files);
        let watch_thread = WatchThread {
            timings,
            receiver,
            is_touched,
            directories,
            contents,
            on_change,
        };
        let thread = thread::Builder::new()
            .name("reload".to_owned())
            .spawn(move || watch_thread.run())?;
        Ok(Self {
            messages,
            thread: Some(thread),
        })
    }

    /// Replaces the set of files. Files that were watched before keep the content that they are
    /// compared with; new ones start with what they contain now. `on_change` may call this.
    pub fn set_files(&self, files: Vec<PathBuf>) {
        // The thread lives as long as this watcher, so sending cannot fail.
        let _ = self
            .messages
            .send(WatchMessage::Files(FileContents::of(content::absolute(
                files,
            ))));
    }
}

impl Drop for FileWatcher {
    fn drop(&mut self) {
        let _ = self.messages.send(WatchMessage::End);
        let Some(thread) = self.thread.take() else {
            return;
        };
        // `on_change` may drop the last handle, and a thread cannot wait for itself.
        if thread.thread().id() != thread::current().id() {
            let _ = thread.join();
        }
    }
}

/// The state of a watcher's thread.
struct WatchThread<F> {
    timings: WatchTimings,
    receiver: Receiver<WatchMessage>,
    /// True while a `Touched` message is on its way.
    is_touched: Arc<AtomicBool>,
    directories: DirectoryWatch,
    contents: FileContents,
    on_change: F,
}

impl<F: Fn()> WatchThread<F> {
    /// Checks after each notification and each poll interval, until the watcher is dropped.
    fn run(mut self) {
        loop {
            let depth = match self.receiver.recv_timeout(self.timings.poll) {
                Ok(WatchMessage::End) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => CheckDepth::Stamps,
                Ok(message) => match self.settle(message) {
                    Some(depth) => depth,
                    None => return,
                },
            };
            // Watched before the check, as at the start: links may lead elsewhere by now.
            self.directories.watch(self.contents.files());
            if self.contents.check(depth) {
                (self.on_change)();
            }
        }
    }

    /// Reads messages until none comes for the debounce time, and returns how to check. `None` when
    /// the watcher is dropped.
    fn settle(&mut self, first: WatchMessage) -> Option<CheckDepth> {
        let latest = Instant::now() + self.timings.debounce_max;
        let mut depth = CheckDepth::Stamps;
        let mut message = first;
        loop {
            match message {
                WatchMessage::End => return None,
                WatchMessage::Files(new) => self.contents.replace(new),
                WatchMessage::Touched => {
                    self.is_touched.store(false, Ordering::Release);
                    depth = CheckDepth::Content;
                }
            }
            let left = latest.saturating_duration_since(Instant::now());
            let quiet = if depth == CheckDepth::Content {
                self.timings.debounce
            } else {
                Duration::ZERO
            };
            message = match self.receiver.recv_timeout(quiet.min(left)) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => return Some(depth),
                Err(RecvTimeoutError::Disconnected) => return None,
            };
        }
    }
}

#[cfg(test)]
mod tests;
