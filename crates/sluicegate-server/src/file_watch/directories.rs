//! Directories that the system tells about.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use notify::event::{AccessKind, AccessMode, EventKind, ModifyKind};
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher as _};

use super::content::FileId;
use super::path_walk::PathWalk;

/// The directories in which something may happen to the watched files.
#[derive(Default)]
pub(super) struct DirectoryWatch {
    /// `None` when the system does not tell.
    watcher: Option<RecommendedWatcher>,
    /// Which directory was watched under which name: another one may have taken its place.
    watched: BTreeMap<PathBuf, FileId>,
    entries_of_interest: Arc<Mutex<WatchedEntries>>,
}

/// What the system's news are compared with.
#[derive(Default)]
struct WatchedEntries {
    /// The entries that lead to a file, and the directories themselves.
    entries: BTreeSet<PathBuf>,
    /// Of these, what was removed or renamed. A new directory of the same name is another one even if it is in the same
    /// place on the disk.
    lost: BTreeSet<PathBuf>,
}

/// Nobody makes directories faster than that, or else the slow look finds them.
const ROUNDS_MAX: usize = 16;

impl DirectoryWatch {
    /// From now on calls `on_touch` when something happens on the way to a file. If the system cannot tell, nothing is told.
    pub(super) fn listen(&mut self, on_touch: impl Fn() + Send + 'static) {
        let entries_of_interest = Arc::clone(&self.entries_of_interest);
        let handle = move |event: notify::Result<Event>| {
            let is_ours = match &event {
                Ok(event) => entries_of_interest
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .concerns(event),
                // Something was missed.
                Err(_) => true,
            };
            if is_ours {
                on_touch();
            }
        };
        match notify::recommended_watcher(handle) {
            Ok(watcher) => self.watcher = Some(watcher),
            Err(error) => {
                tracing::warn!(%error, "the system does not tell of changes, files are looked at every 5 s")
            }
        }
    }

    /// Watches where these files are now. What appears on the way to a file just before its directory is watched is found by
    /// going the way again, until nothing is new.
    pub(super) fn watch<'a>(&mut self, files: impl Iterator<Item = &'a Path> + Clone) {
        for _ in 0..ROUNDS_MAX {
            if !self.watch_once(files.clone()) {
                return;
            }
        }
    }

    /// Goes the way to each file once. Whether there is a directory that was not watched before.
    fn watch_once<'a>(&mut self, files: impl Iterator<Item = &'a Path>) -> bool {
        let Some(watcher) = &mut self.watcher else {
            return false;
        };
        let mut walk = PathWalk::default();
        files.for_each(|file| walk.add(file));
        let wanted: BTreeMap<PathBuf, FileId> = walk
            .directories()
            .into_iter()
            .filter_map(|path| Some((path.to_owned(), id_of(path)?)))
            .collect();

        let mut entries = walk.0;
        entries.extend(wanted.keys().cloned());
        let mut entries_of_interest = self
            .entries_of_interest
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let WatchedEntries { lost, .. } = std::mem::replace(
            &mut *entries_of_interest,
            WatchedEntries {
                entries,
                lost: BTreeSet::new(),
            },
        );
        // The system's news are handled under this lock, and watching waits for them.
        drop(entries_of_interest);

        self.watched.retain(|path, id| {
            let stays = wanted.get(path) == Some(id) && !lost.contains(path);
            if !stays {
                // One that is gone is not watched any more.
                let _ = watcher.unwatch(path);
            }
            stays
        });
        let known = self.watched.len();
        for (path, id) in wanted {
            if !self.watched.contains_key(&path) && try_watch(watcher, &path) {
                self.watched.insert(path, id);
            }
        }
        self.watched.len() > known
    }
}

impl WatchedEntries {
    /// Whether the event may have to do with a watched file.
    fn concerns(&mut self, event: &Event) -> bool {
        if !is_change(event) {
            return false;
        }
        if matches!(
            event.kind,
            EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_))
        ) {
            self.lost.extend(
                event
                    .paths
                    .iter()
                    .filter(|path| self.entries.contains(*path))
                    .cloned(),
            );
        }
        event.need_rescan() || event.paths.iter().any(|path| self.entries.contains(path))
    }
}

fn try_watch(watcher: &mut RecommendedWatcher, directory: &Path) -> bool {
    let result = watcher.watch(directory, RecursiveMode::NonRecursive);
    if let Err(error) = &result {
        tracing::debug!(directory = %directory.display(), %error, "a directory cannot be watched");
    }
    result.is_ok()
}

fn id_of(directory: &Path) -> Option<FileId> {
    fs::metadata(directory)
        .ok()
        .filter(fs::Metadata::is_dir)
        .map(|metadata| FileId::of(&metadata))
}

/// Reading is no change. Without this, our own look would be the reason for the next one.
fn is_change(event: &Event) -> bool {
    match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Access(_) => false,
        _ => true,
    }
}

impl fmt::Debug for DirectoryWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.watched.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use notify::event::{CreateKind, Flag, RemoveKind};

    use super::*;

    fn event(kind: EventKind, path: &str) -> Event {
        Event::new(kind).add_path(path.into())
    }

    fn entries_of_interest() -> WatchedEntries {
        WatchedEntries {
            entries: BTreeSet::from(["/etc".into(), "/etc/a".into()]),
            lost: BTreeSet::new(),
        }
    }

    #[test]
    fn reading_is_no_change() {
        let mut entries_of_interest = entries_of_interest();
        assert!(!entries_of_interest.concerns(&event(
            EventKind::Access(AccessKind::Open(AccessMode::Any)),
            "/etc/a"
        )));
        assert!(!entries_of_interest.concerns(&event(
            EventKind::Access(AccessKind::Close(AccessMode::Read)),
            "/etc/a"
        )));
        assert!(entries_of_interest.concerns(&event(
            EventKind::Access(AccessKind::Close(AccessMode::Write)),
            "/etc/a"
        )));
        assert!(
            entries_of_interest.concerns(&event(EventKind::Create(CreateKind::File), "/etc/a"))
        );
    }

    #[test]
    fn only_what_leads_to_a_file_is_heard_and_what_was_missed() {
        let mut entries_of_interest = entries_of_interest();
        assert!(!entries_of_interest.concerns(&event(EventKind::Any, "/etc/b")));
        assert!(
            entries_of_interest.concerns(&event(EventKind::Other, "/etc/b").set_flag(Flag::Rescan))
        );
    }

    #[test]
    fn a_directory_that_was_removed_is_watched_anew() {
        let mut entries_of_interest = entries_of_interest();
        assert!(
            entries_of_interest.concerns(&event(EventKind::Remove(RemoveKind::Folder), "/etc"))
        );
        assert!(
            !entries_of_interest.concerns(&event(EventKind::Remove(RemoveKind::File), "/etc/b"))
        );
        assert_eq!(entries_of_interest.lost, BTreeSet::from(["/etc".into()]));
    }
}
