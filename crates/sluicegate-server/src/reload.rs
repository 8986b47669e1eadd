//! Notices that files have changed, however they are replaced.
//!
//! The directories are watched, not the files: a watched file is lost at the first rename, and a directory that Kubernetes
//! mounts changes by one link in it. What decides is the content; and since not every file system tells of changes, all
//! files are looked at every five seconds besides.

mod content;
mod directories;
mod trail;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use content::{Contents, Look};
use directories::Directories;

pub(crate) use content::hash_of;

/// Watches files and says when the content of one is another.
///
/// Start it before the files are read for the first time: what changes in between is then noticed. A file that disappears is
/// no change, one that comes back with another content is. Dropping it ends it.
#[derive(Debug)]
pub struct Watcher {
    messages: Sender<Message>,
    thread: Option<JoinHandle<()>>,
}

/// How patient a watcher is.
#[derive(Clone, Copy, Debug)]
struct Patience {
    /// After a change, until nothing more changes.
    debounce: Duration,
    /// The longest that changes in a row put off looking.
    debounce_max: Duration,
    /// Between looks without being told.
    poll: Duration,
    /// Whether the system is asked to tell of changes.
    is_told: bool,
}

impl Patience {
    const USUAL: Self = Self {
        debounce: Duration::from_millis(200),
        debounce_max: Duration::from_secs(2),
        poll: Duration::from_secs(5),
        is_told: true,
    };
}

enum Message {
    /// Something happened where the files are.
    Touched,
    /// These are the files now, with their contents.
    Files(Contents),
    /// The watcher is being dropped.
    End,
}

impl Watcher {
    /// Calls `on_change` from a thread of its own, one call at a time, for changes that belong together once.
    pub fn start(files: Vec<PathBuf>, on_change: impl Fn() + Send + 'static) -> io::Result<Self> {
        Self::start_with(Patience::USUAL, files, on_change)
    }

    fn start_with(
        patience: Patience,
        files: Vec<PathBuf>,
        on_change: impl Fn() + Send + 'static,
    ) -> io::Result<Self> {
        let (messages, receiver) = mpsc::channel();
        let is_touched = Arc::new(AtomicBool::new(false));
        let mut directories = Directories::default();
        if patience.is_told {
            let (touch, flag) = (messages.clone(), Arc::clone(&is_touched));
            directories.listen(move || {
                // However much happens, one message is enough until it is read.
                if !flag.swap(true, Ordering::AcqRel) {
                    let _ = touch.send(Message::Touched);
                }
            });
        }
        let files = content::absolute(files);
        // Watched first: what happens after a file was read is then told.
        directories.watch(files.iter().map(PathBuf::as_path));
        let contents = Contents::of(files);
        let vigil = Vigil {
            patience,
            receiver,
            is_touched,
            directories,
            contents,
            on_change,
        };
        let thread = thread::Builder::new()
            .name("reload".to_owned())
            .spawn(move || vigil.keep())?;
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
            .send(Message::Files(Contents::of(content::absolute(files))));
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.messages.send(Message::End);
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
struct Vigil<F> {
    patience: Patience,
    receiver: Receiver<Message>,
    is_touched: Arc<AtomicBool>,
    directories: Directories,
    contents: Contents,
    on_change: F,
}

impl<F: Fn()> Vigil<F> {
    fn keep(mut self) {
        loop {
            let look = match self.receiver.recv_timeout(self.patience.poll) {
                Ok(Message::End) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => Look::AtStamps,
                Ok(message) => match self.settle(message) {
                    Some(look) => look,
                    None => return,
                },
            };
            // Watched first, as at the start: links and directories may lead elsewhere by now.
            self.directories.watch(self.contents.files());
            if self.contents.look(look) {
                (self.on_change)();
            }
        }
    }

    /// Takes messages until there are no more for a while; `None` is the end.
    fn settle(&mut self, first: Message) -> Option<Look> {
        let latest = Instant::now() + self.patience.debounce_max;
        let mut look = Look::AtStamps;
        let mut message = first;
        loop {
            match message {
                Message::End => return None,
                Message::Files(new) => self.contents.replace(new),
                Message::Touched => {
                    self.is_touched.store(false, Ordering::Release);
                    look = Look::AtContent;
                }
            }
            let left = latest.saturating_duration_since(Instant::now());
            let patience = if look == Look::AtContent {
                self.patience.debounce
            } else {
                Duration::ZERO
            };
            message = match self.receiver.recv_timeout(patience.min(left)) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => return Some(look),
                Err(RecvTimeoutError::Disconnected) => return None,
            };
        }
    }
}

#[cfg(test)]
#[path = "reload/tests.rs"]
mod tests;
