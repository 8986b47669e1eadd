//! Permissions of files that hold secrets, or decide who gets in.
//!
//! Whoever can write such a file can get in, so one that group or others may write is refused.
//! One that others may read is only warned about: it may be alone in its container.

use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::named_files::NamedFile;

/// What is wrong with the permissions of files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PermissionReport {
    /// Reasons to refuse the configuration: place and message.
    pub(crate) mistakes: Vec<(String, String)>,
    /// Sentences for the operator.
    pub(crate) warnings: Vec<String>,
}

/// Looks at every file that matters. One that cannot be looked at is left to whoever reads it.
pub(crate) fn check(files: &[NamedFile<'_>]) -> PermissionReport {
    const WRITABLE: u32 = 0o022;
    const READABLE_BY_ALL: u32 = 0o004;
    let mut report = PermissionReport::default();
    for NamedFile {
        place, path, kind, ..
    } in files
    {
        let Some(metadata) = fs::metadata(path).ok().filter(fs::Metadata::is_file) else {
            continue;
        };
        let (path, mode) = (path.display(), metadata.mode() & 0o777);
        if kind.is_trusted() && mode & WRITABLE != 0 {
            let message = format!(
                "{path}: others may write it (mode {mode:04o}), and could so get in: run `chmod go-w {path}`"
            );
            report.mistakes.push((place.clone(), message));
        }
        if kind.is_secret() && mode & READABLE_BY_ALL != 0 {
            report.warnings.push(format!(
                "{place}: {path}: everybody on this machine may read it (mode {mode:04o}): run `chmod o-r {path}`"
            ));
        }
    }
    report
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::named_files::FileKind;

    fn checked(kind: FileKind, mode: u32) -> (usize, usize) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "x").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        // A link leads to the file, as in volumes of Kubernetes.
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let file = |path| NamedFile {
            place: "a.b".to_owned(),
            path,
            kind,
            is_followed: true,
        };
        let report = check(&[file(&path), file(&link)]);
        let (mistakes, warnings) = (report.mistakes.len(), report.warnings.len());
        assert!(mistakes % 2 == 0 && warnings % 2 == 0, "{report:?}");
        (mistakes / 2, warnings / 2)
    }

    #[test]
    fn what_others_may_write_is_refused_and_secrets_that_they_may_read_are_warned_about() {
        use FileKind::{
            ApiKeys, Authorities, Certificate, KeySet, Password, PrivateKey, Token, Value,
        };
        for kind in [PrivateKey, Token, Password] {
            let modes = [0o600, 0o400, 0o640, 0o644, 0o620, 0o602, 0o666];
            let found = modes.map(|mode| checked(kind, mode));
            let expected = [(0, 0), (0, 0), (0, 0), (0, 1), (1, 0), (1, 0), (1, 1)];
            assert_eq!(found, expected, "{kind:?}");
        }
        for kind in [ApiKeys, KeySet, Authorities, Value] {
            let found = [0o600, 0o644, 0o664, 0o646].map(|mode| checked(kind, mode));
            assert_eq!(found, [(0, 0), (0, 0), (1, 0), (1, 0)], "{kind:?}");
        }
        assert_eq!(checked(Certificate, 0o666), (0, 0));
        assert_eq!(checked(FileKind::Body, 0o666), (0, 0));
    }

    #[test]
    fn what_is_no_file_is_left_to_its_reader() {
        for path in ["/no/such/file", "/dev/null", "/tmp"] {
            let file = NamedFile {
                place: "a".to_owned(),
                path: std::path::Path::new(path),
                kind: FileKind::Token,
                is_followed: false,
            };
            assert_eq!(check(&[file]), PermissionReport::default(), "{path}");
        }
    }
}
