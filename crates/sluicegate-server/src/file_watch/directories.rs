//! The directories for which the system sends notifications.

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
    /// `None` when the system sends no notifications.
    watcher: Option<RecommendedWatcher>,
    /// The watched directories. The id tells when another directory has taken a name.
    watched: BTreeMap<PathBuf, FileId>,
    watched_entries: Arc<Mutex<WatchedEntries>>,
}

/// The paths that matter; notifications about others are ignored.
#[derive(Default)]
struct WatchedEntries {
    /// The entries on the way to a file, and the watched directories themselves.
    entries: BTreeSet<PathBuf>,
    /// Those of them that were removed or renamed. A new directory of the same name has to be
    /// watched anew, even if it got the same inode.
    lost: BTreeSet<PathBuf>,
}

/// The most attempts to catch up with directories that are being made; polling finds the rest.
const ROUNDS_MAX: usize = 16;

impl DirectoryWatch {
    /// Calls `on_touch` from now on when something happens on the way to a file. Without
    /// notifications of the system it is never called, and polling has to do.
    pub(super) fn listen(&mut self, on_touch: impl Fn() + Send + 'static) {
        let watched_entries = Arc::clone(&self.watched_entries);
        let handle = move |event: notify::Result<Event>| {
            let is_ours = match &event {
                Ok(event) => watched_entries
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .concerns(event),
                // An error means that notifications were lost.
                Err(_) => true,
            };
            if is_ours {
                on_touch();
            }
        };
        match notify::recommended_watcher(handle) {
            Ok(watcher) => self.watcher = Some(watcher),
            Err(error) => {
                tracing::warn!(
                    %error,
                    "the system sends no file notifications, files are checked every 5 s"
                )
            }
        }
    }

    /// Watches the directories on the way to these files. A directory that appears just before its
    /// parent is watched would be missed, so the way is walked again until nothing is new.
    pub(super) fn watch<'a>(&mut self, files: impl Iterator<Item = &'a Path> + Clone) {
        for _ in 0..ROUNDS_MAX {
            if !self.watch_once(files.clone()) {
                return;
            }
        }
    }

    /// Walks the way to each file once. Returns true when a directory is watched that was not
    /// before.
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
        let mut watched_entries = self
            .watched_entries
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let WatchedEntries { lost, .. } = std::mem::replace(
            &mut *watched_entries,
            WatchedEntries {
                entries,
                lost: BTreeSet::new(),
            },
        );
        // Notifications are handled under this lock, and `watch` waits for their thread.
        drop(watched_entries);

        self.watched.retain(|path, id| {
            let stays = wanted.get(path) == Some(id) && !lost.contains(path);
            if !stays {
                // Fails for a directory that is gone, which is not watched any more anyway.
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
    /// Returns true when the event may concern a watched file.
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

/// Returns true when the directory is watched now.
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

/// Returns true for events other than reading; our own check would otherwise cause the next one.
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

    fn watched_entries() -> WatchedEntries {
        WatchedEntries {
            entries: BTreeSet::from(["/etc".into(), "/etc/a".into()]),
            lost: BTreeSet::new(),
        }
    }

    #[test]
    fn reading_is_no_change() {
        let mut watched_entries = watched_entries();
        assert!(!watched_entries.concerns(&event(
            EventKind::Access(AccessKind::Open(AccessMode::Any)),
            "/etc/a"
        )));
        assert!(!watched_entries.concerns(&event(
            EventKind::Access(AccessKind::Close(AccessMode::Read)),
            "/etc/a"
        )));
        assert!(watched_entries.concerns(&event(
            EventKind::Access(AccessKind::Close(AccessMode::Write)),
            "/etc/a"
        )));
        assert!(watched_entries.concerns(&event(EventKind::Create(CreateKind::File), "/etc/a")));
    }

    #[test]
    fn only_what_leads_to_a_file_is_heard_and_what_was_missed() {
        let mut watched_entries = watched_entries();
        assert!(!watched_entries.concerns(&event(EventKind::Any, "/etc/b")));
        assert!(
            watched_entries.concerns(&event(EventKind::Other, "/etc/b").set_flag(Flag::Rescan))
        );
    }

    #[test]
    fn a_directory_that_was_removed_is_watched_anew() {
        let mut watched_entries = watched_entries();
        assert!(watched_entries.concerns(&event(EventKind::Remove(RemoveKind::Folder), "/etc")));
        assert!(!watched_entries.concerns(&event(EventKind::Remove(RemoveKind::File), "/etc/b")));
        assert_eq!(watched_entries.lost, BTreeSet::from(["/etc".into()]));
    }
}
