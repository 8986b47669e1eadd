//! Notices that files have changed, however they are replaced.
//!
//! The directories are watched, not the files: a watched file is lost at the first rename, and a directory that Kubernetes
//! mounts changes by one link in it. What decides is the content; and since not every file system tells of changes, all
//! files are looked at every five seconds besides.

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

pub(crate) use content::hash_of;

/// Watches files and says when the content of one is another.
///
/// Start it before the files are read for the first time: what changes in between is then noticed. A file that disappears is
/// no change, one that comes back with another content is. Dropping it ends it.
#[derive(Debug)]
pub struct FileWatcher {
    messages: Sender<WatchMessage>,
    thread: Option<JoinHandle<()>>,
}

/// How patient a watcher is.
#[derive(Clone, Copy, Debug)]
struct WatchTimings {
    /// After a change, until nothing more changes.
    debounce: Duration,
    /// The longest that changes in a row put off looking.
    debounce_max: Duration,
    /// Between looks without being told.
    poll: Duration,
    /// Whether the system is asked to tell of changes.
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

enum WatchMessage {
    /// Something happened where the files are.
    Touched,
    /// These are the files now, with their contents.
    Files(FileContents),
    /// The watcher is being dropped.
    End,
}

impl FileWatcher {
    /// Calls `on_change` from a thread of its own, one call at a time, for changes that belong together once.
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
                // However much happens, one message is enough until it is read.
                if !flag.swap(true, Ordering::AcqRel) {
                    let _ = touch.send(WatchMessage::Touched);
                }
            });
        }
        let files = content::absolute(files);
        // Watched first: what happens after a file was read is then told.
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

    /// Watches these files instead. Those that were watched before are compared with what they were then, new ones with what
    /// they are now. May be called while `on_change` runs, and by it.
    pub fn set_files(&self, files: Vec<PathBuf>) {
        // The thread ends only with this watcher.
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
        // `on_change` may hold the last handle: it cannot wait for its own end.
        if thread.thread().id() != thread::current().id() {
            let _ = thread.join();
        }
    }
}

/// The thread of a watcher.
struct WatchThread<F> {
    timings: WatchTimings,
    receiver: Receiver<WatchMessage>,
    is_touched: Arc<AtomicBool>,
    directories: DirectoryWatch,
    contents: FileContents,
    on_change: F,
}

impl<F: Fn()> WatchThread<F> {
    fn run(mut self) {
        loop {
            let check = match self.receiver.recv_timeout(self.timings.poll) {
                Ok(WatchMessage::End) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => CheckDepth::Stamps,
                Ok(message) => match self.settle(message) {
                    Some(check) => check,
                    None => return,
                },
            };
            // Watched first, as at the start: links and directories may lead elsewhere by now.
            self.directories.watch(self.contents.files());
            if self.contents.check(check) {
                (self.on_change)();
            }
        }
    }

    /// Takes messages until there are no more for a while; `None` is the end.
    fn settle(&mut self, first: WatchMessage) -> Option<CheckDepth> {
        let latest = Instant::now() + self.timings.debounce_max;
        let mut check = CheckDepth::Stamps;
        let mut message = first;
        loop {
            match message {
                WatchMessage::End => return None,
                WatchMessage::Files(new) => self.contents.replace(new),
                WatchMessage::Touched => {
                    self.is_touched.store(false, Ordering::Release);
                    check = CheckDepth::Content;
                }
            }
            let left = latest.saturating_duration_since(Instant::now());
            let timings = if check == CheckDepth::Content {
                self.timings.debounce
            } else {
                Duration::ZERO
            };
            message = match self.receiver.recv_timeout(timings.min(left)) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => return Some(check),
                Err(RecvTimeoutError::Disconnected) => return None,
            };
        }
    }
}

#[cfg(test)]
mod tests;
