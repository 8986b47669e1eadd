//! Directories that the system tells about.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use notify::event::{AccessKind, AccessMode, EventKind, ModifyKind};
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher as _};

use super::content::Place;
use super::trail::Trail;

/// The directories in which something may happen to the watched files.
#[derive(Default)]
pub(super) struct Directories {
    /// `None` when the system does not tell.
    watcher: Option<RecommendedWatcher>,
    /// Which directory was watched under which name: another one may have taken its place.
    watched: BTreeMap<PathBuf, Place>,
    interest: Arc<Mutex<Interest>>,
}

/// What the system's news are compared with.
#[derive(Default)]
struct Interest {
    /// The entries that lead to a file, and the directories themselves.
    entries: BTreeSet<PathBuf>,
    /// Of these, what was removed or renamed. A new directory of the same name is another one even if it is in the same
    /// place on the disk.
    lost: BTreeSet<PathBuf>,
}

/// Nobody makes directories faster than that, or else the slow look finds them.
const ROUNDS_MAX: usize = 16;

impl Directories {
    /// From now on calls `on_touch` when something happens on the way to a file. If the system cannot tell, nothing is told.
    pub(super) fn listen(&mut self, on_touch: impl Fn() + Send + 'static) {
        let interest = Arc::clone(&self.interest);
        let handle = move |event: notify::Result<Event>| {
            let is_ours = match &event {
                Ok(event) => interest
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .hears(event),
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
            if !self.watches_more(files.clone()) {
                return;
            }
        }
    }

    /// Goes the way to each file once. Whether there is a directory that was not watched before.
    fn watches_more<'a>(&mut self, files: impl Iterator<Item = &'a Path>) -> bool {
        let Some(watcher) = &mut self.watcher else {
            return false;
        };
        let mut trail = Trail::default();
        files.for_each(|file| trail.add(file));
        let wanted: BTreeMap<PathBuf, Place> = trail
            .directories()
            .into_iter()
            .filter_map(|path| Some((path.to_owned(), place_of(path)?)))
            .collect();

        let mut entries = trail.0;
        entries.extend(wanted.keys().cloned());
        let mut interest = self.interest.lock().unwrap_or_else(PoisonError::into_inner);
        let Interest { lost, .. } = std::mem::replace(
            &mut *interest,
            Interest {
                entries,
                lost: BTreeSet::new(),
            },
        );
        // The system's news are handled under this lock, and watching waits for them.
        drop(interest);

        self.watched.retain(|path, place| {
            let stays = wanted.get(path) == Some(place) && !lost.contains(path);
            if !stays {
                // One that is gone is not watched any more.
                let _ = watcher.unwatch(path);
            }
            stays
        });
        let known = self.watched.len();
        for (path, place) in wanted {
            if !self.watched.contains_key(&path) && is_watched_now(watcher, &path) {
                self.watched.insert(path, place);
            }
        }
        self.watched.len() > known
    }
}

impl Interest {
    /// Whether the event may have to do with a watched file.
    fn hears(&mut self, event: &Event) -> bool {
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

fn is_watched_now(watcher: &mut RecommendedWatcher, directory: &Path) -> bool {
    let result = watcher.watch(directory, RecursiveMode::NonRecursive);
    if let Err(error) = &result {
        tracing::debug!(directory = %directory.display(), %error, "a directory cannot be watched");
    }
    result.is_ok()
}

fn place_of(directory: &Path) -> Option<Place> {
    fs::metadata(directory)
        .ok()
        .filter(fs::Metadata::is_dir)
        .map(|metadata| Place::of(&metadata))
}

/// Reading is no change. Without this, our own look would be the reason for the next one.
fn is_change(event: &Event) -> bool {
    match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Access(_) => false,
        _ => true,
    }
}

impl fmt::Debug for Directories {
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

    fn interest() -> Interest {
        Interest {
            entries: BTreeSet::from(["/etc".into(), "/etc/a".into()]),
            lost: BTreeSet::new(),
        }
    }

    #[test]
    fn reading_is_no_change() {
        let mut interest = interest();
        assert!(!interest.hears(&event(
            EventKind::Access(AccessKind::Open(AccessMode::Any)),
            "/etc/a"
        )));
        assert!(!interest.hears(&event(
            EventKind::Access(AccessKind::Close(AccessMode::Read)),
            "/etc/a"
        )));
        assert!(interest.hears(&event(
            EventKind::Access(AccessKind::Close(AccessMode::Write)),
            "/etc/a"
        )));
        assert!(interest.hears(&event(EventKind::Create(CreateKind::File), "/etc/a")));
    }

    #[test]
    fn only_what_leads_to_a_file_is_heard_and_what_was_missed() {
        let mut interest = interest();
        assert!(!interest.hears(&event(EventKind::Any, "/etc/b")));
        assert!(interest.hears(&event(EventKind::Other, "/etc/b").set_flag(Flag::Rescan)));
    }

    #[test]
    fn a_directory_that_was_removed_is_watched_anew() {
        let mut interest = interest();
        assert!(interest.hears(&event(EventKind::Remove(RemoveKind::Folder), "/etc")));
        assert!(!interest.hears(&event(EventKind::Remove(RemoveKind::File), "/etc/b")));
        assert_eq!(interest.lost, BTreeSet::from(["/etc".into()]));
    }
}
