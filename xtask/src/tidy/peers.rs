//! The sources of crates by others, as cargo has downloaded them.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::command::Command;

use super::Tree;
use super::tree::TextFile;

/// Crates of the same field that are known for how they read. All are dependencies of the workspace.
const PEERS: [&str; 4] = ["tower", "governor", "hyper", "rustls"];

/// A crate by others; its files lie below a directory of its name.
pub struct Peer {
    pub name: String,
    /// `None` when it was never downloaded.
    pub tree: Option<Tree>,
}

/// Reads them all. Nothing is downloaded.
pub fn read() -> Result<Vec<Peer>, String> {
    // Dependencies for other systems are not downloaded, and cargo would miss them.
    let compiler = Command::new("rustc", ["-vV"]).read_stdout()?;
    let host = compiler
        .lines()
        .find_map(|line| line.strip_prefix("host: "));
    let metadata = Command::cargo(["metadata", "--format-version", "1", "--offline"])
        .args(["--filter-platform", host.unwrap_or_default()])
        .read_stdout()?;
    let metadata: Value = serde_json::from_str(&metadata)
        .map_err(|error| format!("`cargo metadata` printed something else: {error}"))?;
    let peers = PEERS.iter().map(|name| Peer {
        name: (*name).to_string(),
        tree: directory_of(name, &metadata)
            .and_then(|directory| tree_of(name, Path::new(&directory))),
    });
    Ok(peers.collect())
}

/// Where the newest version of a package lies.
fn directory_of(name: &str, metadata: &Value) -> Option<String> {
    let packages = metadata["packages"].as_array()?;
    // Versions of one package are listed in ascending order.
    let package = packages.iter().rfind(|package| package["name"] == name)?;
    let manifest = package["manifest_path"].as_str()?;
    manifest.strip_suffix("/Cargo.toml").map(str::to_string)
}

fn tree_of(name: &str, directory: &Path) -> Option<Tree> {
    let mut files = Vec::new();
    collect(&directory.join("src"), &format!("{name}/src"), &mut files)?;
    Some(Tree::from_files(files))
}

fn collect(directory: &Path, shown_as: &str, files: &mut Vec<TextFile>) -> Option<()> {
    for entry in fs::read_dir(directory).ok()?.flatten() {
        let path = format!("{shown_as}/{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            collect(&entry.path(), &path, files)?;
        } else if let Ok(text) = fs::read_to_string(entry.path()) {
            files.push(TextFile { path, text });
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_of_a_package_is_taken() {
        let metadata = serde_json::json!({ "packages": [
            { "name": "tower", "manifest_path": "/r/tower-0.4.0/Cargo.toml" },
            { "name": "tower", "manifest_path": "/r/tower-0.5.3/Cargo.toml" },
            { "name": "tower-layer", "manifest_path": "/r/tower-layer-1/Cargo.toml" },
        ] });
        let directory = directory_of("tower", &metadata);
        assert_eq!(directory.as_deref(), Some("/r/tower-0.5.3"));
        assert_eq!(directory_of("governor", &metadata), None);
    }

    #[test]
    fn a_directory_that_is_not_there_is_no_tree() {
        assert!(tree_of("x", Path::new("/no/such/directory")).is_none());
        let here =
            tree_of("xtask", &crate::command::root().join("xtask")).expect("our own sources");
        assert!(here.file("xtask/src/main.rs").is_some());
    }
}
