//! Packages from the index of Node, for the tests that need them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::command::{Command, root, target_dir};

/// The packages of one directory of this repository, installed under `target` as its lock file says.
pub struct NpmPackages {
    /// The name that readers know them by; tests say `#[ignore = "needs NAME"]`.
    pub name: &'static str,
    /// The variable by which the tests are told where the packages are.
    pub variable: &'static str,
    /// The directory with `package.json` and `package-lock.json`.
    source: &'static str,
    home: &'static str,
}

/// Everything from the index that the tests use, where it can be installed.
pub const FOR_TESTS: [NpmPackages; 2] = [
    NpmPackages {
        name: "TypeScript",
        variable: "SLUICEGATE_TYPESCRIPT",
        source: "examples/limits-service-typescript",
        home: "test-typescript",
    },
    NpmPackages {
        name: "Express",
        variable: "SLUICEGATE_EXPRESS",
        source: "crates/sluicegate-cli/tests/it/frameworks/express",
        home: "test-express",
    },
];

/// The files that say what is installed and how; the lock file comes last.
const FILES: [&str; 3] = [".npmrc", "package.json", "package-lock.json"];

impl NpmPackages {
    /// Where the packages are, after installing them on first use.
    pub fn directory(&self) -> Result<PathBuf, String> {
        let home = root().join(target_dir()).join(self.home);
        let source = root().join(self.source);
        if let Some(packages) = installed_in(&home, &source) {
            return Ok(packages);
        }
        fs::create_dir_all(&home).map_err(|error| format!("{}: {error}", home.display()))?;
        let _ = fs::remove_file(home.join("installed.json"));
        for name in FILES {
            let copied = fs::copy(source.join(name), home.join(name));
            copied.map_err(|error| format!("{}/{name}: {error}", self.source))?;
        }
        let place = home.display().to_string();
        Command::new("npm", ["ci", "--no-audit", "--no-fund", "--prefix", &place]).run()?;
        // Written last, so that a directory that has it is whole.
        let lock = home.join("package-lock.json");
        let noted = fs::copy(lock, home.join("installed.json"));
        noted.map_err(|error| format!("{place}: {error}"))?;
        installed_in(&home, &source)
            .ok_or_else(|| format!("npm installed no packages of {}", self.source))
    }
}

/// The packages, if they are those of the lock file.
fn installed_in(home: &Path, source: &Path) -> Option<PathBuf> {
    let wanted = fs::read_to_string(source.join("package-lock.json")).ok()?;
    let installed = fs::read_to_string(home.join("installed.json")).ok()?;
    let packages = home.join("node_modules");
    (wanted == installed && packages.is_dir()).then_some(packages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_count_only_if_they_are_those_of_the_lock_file() {
        let home = std::env::temp_dir().join(format!("sluicegate-npm-{}", std::process::id()));
        let source = home.join("source");
        fs::create_dir_all(&source).unwrap();
        fs::create_dir_all(home.join("node_modules")).unwrap();
        fs::write(source.join("package-lock.json"), "1").unwrap();
        assert_eq!(installed_in(&home, &source), None, "interrupted");
        fs::write(home.join("installed.json"), "1").unwrap();
        assert_eq!(
            installed_in(&home, &source),
            Some(home.join("node_modules"))
        );
        fs::write(source.join("package-lock.json"), "2").unwrap();
        assert_eq!(
            installed_in(&home, &source),
            None,
            "other packages than now"
        );
        fs::remove_dir_all(&home).unwrap();
    }

    /// Every machine asks the registry that it is set up for.
    #[test]
    fn no_lock_file_names_a_registry() {
        for packages in FOR_TESTS {
            let lock = root().join(packages.source).join("package-lock.json");
            let lock = fs::read_to_string(lock).unwrap();
            assert!(lock.contains("\"integrity\"") && !lock.contains("\"resolved\""));
        }
    }
}
