use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use super::*;

/// Waits for the system's word alone.
const NOTIFIED: WatchTimings = WatchTimings {
    debounce: Duration::from_millis(50),
    poll: Duration::from_secs(3_600),
    ..WatchTimings::DEFAULT
};
/// Hears nothing and looks.
const POLLING: WatchTimings = WatchTimings {
    poll: Duration::from_millis(20),
    uses_notifications: false,
    ..WatchTimings::DEFAULT
};
/// Nothing here takes that long unless it never comes.
const LONG: Duration = Duration::from_secs(20);

/// A directory, a watcher of `a` in it, and its calls.
struct WatchedDir {
    directory: tempfile::TempDir,
    changes: Receiver<String>,
    watcher: FileWatcher,
}

impl WatchedDir {
    /// Each call tells what the file holds.
    fn new(timings: WatchTimings, file: &str, prepare: impl FnOnce(&Path)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        prepare(directory.path());
        let path = directory.path().join(file);
        let (tell, changes) = mpsc::channel();
        let read = path.clone();
        let on_change = move || {
            tell.send(fs::read_to_string(&read).unwrap_or_default())
                .unwrap()
        };
        let watcher = FileWatcher::start_with(timings, vec![path], on_change).unwrap();
        Self {
            directory,
            changes,
            watcher,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The next call, which must come with this content: calls for something in between would come
    /// first. A file that is being written may be found empty.
    #[track_caller]
    fn expect(&self, content: &str) {
        let mut found = self.changes.recv_timeout(LONG);
        while found.as_deref() == Ok("") {
            found = self.changes.recv_timeout(LONG);
        }
        assert_eq!(found.as_deref(), Ok(content));
    }
}

fn one(directory: &Path) {
    fs::write(directory.join("a"), "one").unwrap();
}

#[test]
fn a_file_that_is_written_is_a_change() {
    for timings in [NOTIFIED, POLLING] {
        let dir = WatchedDir::new(timings, "a", one);
        fs::write(dir.path("a"), "two").unwrap();
        dir.expect("two");
        fs::write(dir.path("a"), "three").unwrap();
        dir.expect("three");
    }
}

#[test]
fn a_file_that_is_renamed_over_is_a_change_each_time() {
    let dir = WatchedDir::new(NOTIFIED, "a", one);
    for content in ["two", "three", "four"] {
        fs::write(dir.path("new"), content).unwrap();
        fs::rename(dir.path("new"), dir.path("a")).unwrap();
        dir.expect(content);
    }
}

#[cfg(unix)]
#[test]
fn a_link_that_kubernetes_swaps_is_a_change_each_time() {
    use std::os::unix::fs::symlink;
    let mount = |directory: &Path, version: &str| {
        fs::create_dir(directory.join(version)).unwrap();
        fs::write(directory.join(version).join("a"), version).unwrap();
        symlink(version, directory.join("..data_tmp")).unwrap();
        fs::rename(directory.join("..data_tmp"), directory.join("..data")).unwrap();
    };
    for timings in [NOTIFIED, POLLING] {
        let dir = WatchedDir::new(timings, "a", |directory| {
            mount(directory, "..1");
            symlink("..data/a", directory.join("a")).unwrap();
        });
        for (version, before) in [("..2", "..1"), ("..3", "..2")] {
            mount(dir.directory.path(), version);
            fs::remove_dir_all(dir.path(before)).unwrap();
            dir.expect(version);
        }
    }
}

#[cfg(unix)]
#[test]
fn the_target_of_a_link_into_another_directory_is_watched() {
    let dir = WatchedDir::new(NOTIFIED, "etc/a", |directory| {
        fs::create_dir(directory.join("etc")).unwrap();
        fs::create_dir(directory.join("elsewhere")).unwrap();
        one(&directory.join("elsewhere"));
        std::os::unix::fs::symlink("../elsewhere/a", directory.join("etc/a")).unwrap();
    });
    fs::write(dir.path("elsewhere/a"), "two").unwrap();
    dir.expect("two");
}

#[test]
fn a_file_that_is_deleted_and_made_again_is_a_change_only_if_it_differs() {
    let dir = WatchedDir::new(NOTIFIED, "a", one);
    fs::remove_file(dir.path("a")).unwrap();
    fs::write(dir.path("a"), "one").unwrap();
    fs::remove_file(dir.path("a")).unwrap();
    fs::write(dir.path("a"), "two").unwrap();
    dir.expect("two");
}

#[test]
fn a_directory_that_appears_later_is_waited_for() {
    let dir = WatchedDir::new(NOTIFIED, "etc/sluicegate/a", |_| {});
    fs::create_dir_all(dir.path("etc/sluicegate")).unwrap();
    one(&dir.path("etc/sluicegate"));
    dir.expect("one");
    fs::write(dir.path("etc/sluicegate/a"), "two").unwrap();
    dir.expect("two");
}

#[test]
fn a_directory_that_is_replaced_is_watched_again() {
    let dir = WatchedDir::new(NOTIFIED, "etc/a", |directory| {
        fs::create_dir(directory.join("etc")).unwrap();
        one(&directory.join("etc"));
    });
    for content in ["two", "three"] {
        fs::remove_dir_all(dir.path("etc")).unwrap();
        fs::create_dir(dir.path("etc")).unwrap();
        fs::write(dir.path("etc/a"), content).unwrap();
        dir.expect(content);
    }
}

#[test]
fn other_files_are_watched_when_told_so_even_by_the_call_itself() {
    let directory = tempfile::tempdir().unwrap();
    let [a, b] = ["a", "b"].map(|name| directory.path().join(name));
    fs::write(&a, "one").unwrap();
    fs::write(&b, "one").unwrap();
    let watcher = Arc::new(OnceLock::<FileWatcher>::new());
    let (tell, changes) = mpsc::channel();
    let (own, files) = (Arc::downgrade(&watcher), vec![a.clone(), b.clone()]);
    let on_change = move || {
        if let Some(watcher) = own.upgrade().as_ref().and_then(|watcher| watcher.get()) {
            watcher.set_files(files.clone());
        }
        tell.send(()).unwrap();
    };
    watcher
        .set(FileWatcher::start_with(NOTIFIED, vec![a.clone()], on_change).unwrap())
        .unwrap();
    fs::write(&a, "two").unwrap();
    changes.recv_timeout(LONG).unwrap();
    // The call has named the other file; from when on it is watched is not known, so it is written
    // until it is.
    let deadline = Instant::now() + LONG;
    let mut round = 0;
    while changes.recv_timeout(Duration::from_millis(100)).is_err() {
        assert!(Instant::now() < deadline, "the other file is not watched");
        round += 1;
        fs::write(&b, format!("round {round}")).unwrap();
    }
}

#[test]
fn changes_in_a_row_are_looked_at_before_they_end() {
    let timings = WatchTimings {
        debounce: Duration::from_secs(3_600),
        debounce_max: Duration::from_millis(50),
        poll: Duration::from_secs(3_600),
        uses_notifications: true,
    };
    let dir = WatchedDir::new(timings, "a", one);
    fs::write(dir.path("a"), "two").unwrap();
    dir.expect("two");
}

#[test]
fn a_watcher_that_is_dropped_ends_at_once() {
    let dir = WatchedDir::new(
        WatchTimings {
            poll: Duration::from_secs(3_600),
            ..POLLING
        },
        "a",
        one,
    );
    let started = Instant::now();
    drop(dir.watcher);
    assert!(started.elapsed() < LONG);
    assert_eq!(
        dir.changes.recv_timeout(LONG),
        Err(RecvTimeoutError::Disconnected),
        "the call is gone with its thread"
    );
}
