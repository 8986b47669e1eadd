//! The way from a path to its file: every directory entry whose change makes it another file.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The directory entries on the way to files, each by its real path.
///
/// These are the file itself, every symbolic link on the way, and the first entry that is missing.
/// Plain directories on the way are left out: they are rarely replaced, and polling covers that.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PathWalk(pub(super) BTreeSet<PathBuf>);

/// The most links that are followed, as in Linux; a cycle ends here.
const LINKS_MAX: usize = 40;

impl PathWalk {
    /// Adds the way to `file`, an absolute path. Links are resolved step by step as the system
    /// does, because `canonicalize` would hide them.
    pub(super) fn add(&mut self, file: &Path) {
        let mut links = 0;
        let mut at = PathBuf::new();
        let mut ahead = steps(file);
        while let Some(step) = ahead.pop() {
            let name = match step {
                PathStep::Root(root) => {
                    at = root;
                    continue;
                }
                PathStep::Up => {
                    at.pop();
                    continue;
                }
                PathStep::Into(name) => name,
            };
            let entry = at.join(name);
            match fs::symlink_metadata(&entry) {
                Ok(metadata) if metadata.is_symlink() => {
                    links += 1;
                    let target = fs::read_link(&entry);
                    self.0.insert(entry);
                    let Ok(target) = target else { return };
                    if links > LINKS_MAX {
                        return;
                    }
                    ahead.extend(steps(&target));
                }
                Ok(metadata) if metadata.is_dir() && !ahead.is_empty() => at = entry,
                // The file, or the entry that has to be made first.
                _ => {
                    self.0.insert(entry);
                    return;
                }
            }
        }
    }

    /// The directories that the entries are in.
    pub(super) fn directories(&self) -> BTreeSet<&Path> {
        self.0.iter().filter_map(|entry| entry.parent()).collect()
    }
}

/// One step of a path.
enum PathStep {
    Root(PathBuf),
    Up,
    Into(OsString),
}

/// The steps of a path in reverse, so that the next one can be popped.
fn steps(path: &Path) -> Vec<PathStep> {
    let mut root = PathBuf::new();
    let mut steps = Vec::new();
    for component in path.components() {
        match component {
            Component::Prefix(_) | Component::RootDir => root.push(component),
            Component::CurDir => {}
            Component::ParentDir => steps.push(PathStep::Up),
            Component::Normal(name) => steps.push(PathStep::Into(name.to_owned())),
        }
    }
    if !root.as_os_str().is_empty() {
        steps.insert(0, PathStep::Root(root));
    }
    steps.reverse();
    steps
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn walk(root: &Path, file: &str) -> Vec<String> {
        let mut walk = PathWalk::default();
        walk.add(&root.join(file));
        let inside = |entry: &PathBuf| {
            entry
                .strip_prefix(root)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned()
        };
        walk.0.iter().map(inside).collect()
    }

    fn root() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        (directory, root)
    }

    #[test]
    fn a_plain_file_is_its_own_trail() {
        let (_directory, root) = root();
        fs::create_dir(root.join("etc")).unwrap();
        fs::write(root.join("etc/a"), "").unwrap();
        assert_eq!(walk(&root, "etc/a"), ["etc/a"]);
        assert_eq!(walk(&root, "etc/../etc/./a"), ["etc/a"]);
    }

    #[test]
    fn links_are_followed_wherever_they_are() {
        let (_directory, root) = root();
        fs::create_dir_all(root.join("mount/..2026")).unwrap();
        fs::write(root.join("mount/..2026/a"), "").unwrap();
        symlink("..2026", root.join("mount/..data")).unwrap();
        symlink("..data/a", root.join("mount/a")).unwrap();
        symlink(root.join("mount"), root.join("etc")).unwrap();
        assert_eq!(
            walk(&root, "etc/a"),
            ["etc", "mount/..2026/a", "mount/..data", "mount/a"]
        );
    }

    #[test]
    fn what_is_missing_first_is_waited_for() {
        let (_directory, root) = root();
        assert_eq!(walk(&root, "etc/sluicegate/a"), ["etc"]);
        fs::create_dir(root.join("etc")).unwrap();
        assert_eq!(walk(&root, "etc/sluicegate/a"), ["etc/sluicegate"]);
        symlink("nowhere/a", root.join("b")).unwrap();
        assert_eq!(walk(&root, "b"), ["b", "nowhere"]);
    }

    #[test]
    fn links_in_a_circle_end() {
        let (_directory, root) = root();
        symlink("b", root.join("a")).unwrap();
        symlink("a", root.join("b")).unwrap();
        assert_eq!(walk(&root, "a"), ["a", "b"]);
    }
}
