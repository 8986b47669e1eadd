//! Finds the programs of contestants and clients, and their versions.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Ours: the one that is named, otherwise the one beside this bench.
pub fn our_program(named: Option<&Path>) -> Result<PathBuf, String> {
    let beside = || Some(env::current_exe().ok()?.parent()?.join("sluicegate"));
    let path = named
        .map(Path::to_path_buf)
        .or_else(beside)
        .filter(|path| path.is_file());
    let path =
        path.ok_or("the program is not built (`cargo build --release -p sluicegate-cli`)")?;
    let help = Command::new(&path)
        .args(["serve", "--help"])
        .output()
        .map_err(|error| error.to_string())?;
    if !help.status.success() || !String::from_utf8_lossy(&help.stdout).contains("--config") {
        return Err(format!("{} has no `serve --config`", path.display()));
    }
    Ok(path)
}

pub fn missing(binary: &str, debian_package: &str) -> String {
    format!("{binary} not found (Debian package {debian_package})")
}

/// The program of this name. Looks beyond `PATH` too: servers are often in directories that only administrators have there.
pub fn on_path(binary: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let directories =
        env::split_paths(&path).chain(["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from));
    directories
        .map(|directory| directory.join(binary))
        .find(|candidate| candidate.is_file())
}

/// The version in what the program says about itself.
pub fn version_of(path: &Path, flag: &str) -> Option<String> {
    let output = Command::new(path).arg(flag).output().ok()?;
    let said = [output.stdout, output.stderr].concat();
    version_in(&String::from_utf8_lossy(&said))
}

/// The first word that is numbers with points between them, whatever it is glued to.
fn version_in(text: &str) -> Option<String> {
    let words = text.split(|char: char| char.is_whitespace() || "/-+".contains(char));
    let is_version = |word: &&str| {
        word.matches('.').count() >= 2 && word.split('.').all(|part| part.parse::<u32>().is_ok())
    };
    words.into_iter().find(is_version).map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_say() {
        let said = [
            ("nginx version: nginx/1.22.1", "1.22.1"),
            (
                "HAProxy version 2.6.12-1+deb12u2 2025/04/16 - https://haproxy.org/",
                "2.6.12",
            ),
            (
                "envoy  version: 8f4d1a9c/1.40.0/Clean/RELEASE/BoringSSL",
                "1.40.0",
            ),
            ("h2load nghttp2/1.52.0", "1.52.0"),
        ];
        for (text, version) in said {
            assert_eq!(version_in(text).as_deref(), Some(version), "{text}");
        }
        assert_eq!(version_in("no version, 2.6"), None);
    }

    #[test]
    fn a_program_that_cannot_serve_is_told_from_one_that_can() {
        let why = our_program(Some(Path::new("/bin/true"))).unwrap_err();
        assert_eq!(why, "/bin/true has no `serve --config`");
        let why = our_program(Some(Path::new("/no/such/program"))).unwrap_err();
        assert!(why.contains("is not built"), "{why}");
    }
}
