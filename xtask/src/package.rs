//! `cargo xtask package`: a package for Debian, made in one go.

use std::fs;
use std::path::{Path, PathBuf};

use crate::command::{Command, root, target_dir};
use crate::crates::CARGO_DEB;

/// Makes the package and returns where it is; an error when something is missing from it.
pub fn make() -> Result<PathBuf, String> {
    Command::cargo(["build", "--release", "-p", "sluicegate-cli"]).run()?;
    let target = root().join(target_dir());
    write_pages(
        &target.join("release").join("sluicegate"),
        &target.join("deb"),
    )?;
    let output = target.join("debian");
    let deb = CARGO_DEB.install_if_missing()?;
    let output_text = output.to_string_lossy();
    deb.args([
        "-p",
        "sluicegate-cli",
        "--no-build",
        "--output",
        &*output_text,
    ])
    .run()?;
    let package = newest(&output)?;
    let contents =
        Command::new("dpkg-deb", ["--contents", &*package.to_string_lossy()]).read_stdout()?;
    match MUST_HOLD
        .iter()
        .find(|path| !contents.lines().any(|line| line.ends_with(**path)))
    {
        None => Ok(package),
        Some(missing) => Err(format!("{} lacks {missing}", package.display())),
    }
}

/// Files that somebody who installs the package looks for.
const MUST_HOLD: [&str; 8] = [
    "/usr/bin/sluicegate",
    "/etc/sluicegate/sluicegate.yaml",
    "/usr/lib/systemd/system/sluicegate.service",
    "/usr/lib/systemd/system/sluicegate.socket",
    "/usr/share/man/man1/sluicegate.1.gz",
    "/usr/share/man/man1/sluicegate-explain.1.gz",
    "/usr/share/bash-completion/completions/sluicegate",
    "/usr/share/doc/sluicegate/prometheus/rules.yml",
];

/// Manual pages and completions, written by the program itself.
fn write_pages(program: &Path, directory: &Path) -> Result<(), String> {
    let program = program.to_string_lossy();
    Command::new(
        &program,
        ["man", "--dir", &*directory.join("man").to_string_lossy()],
    )
    .run()?;
    let completions = directory.join("completions");
    let in_words = |error: std::io::Error| format!("{}: {error}", completions.display());
    fs::create_dir_all(&completions).map_err(in_words)?;
    for (shell, file) in [
        ("bash", "sluicegate.bash"),
        ("zsh", "_sluicegate"),
        ("fish", "sluicegate.fish"),
    ] {
        let text = Command::new(&program, ["completions", shell]).read_stdout()?;
        fs::write(completions.join(file), text).map_err(in_words)?;
    }
    Ok(())
}

fn newest(directory: &Path) -> Result<PathBuf, String> {
    let in_words = |error: std::io::Error| format!("{}: {error}", directory.display());
    let entries = fs::read_dir(directory)
        .map_err(in_words)?
        .filter_map(Result::ok)
        .map(|entry| entry.path());
    let packages =
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "deb"));
    let age = |path: &PathBuf| {
        fs::metadata(path)
            .and_then(|metadata| metadata.modified())
            .ok()
    };
    packages
        .max_by_key(age)
        .ok_or_else(|| format!("{}: no package was written", directory.display()))
}
