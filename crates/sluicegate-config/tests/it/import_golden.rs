//! Files of other programs as they are written in practice, each beside what it becomes; and broken
//! ones, each beside its mistakes. `SLUICEGATE_UPDATE=1` writes the results anew.

use std::fs;
use std::path::{Path, PathBuf};

use sluicegate_config::import::{Format, Imported, convert};
use sluicegate_config::{Mistakes, Source, load};

/// The files of a directory below `tests/import`, without results and without included files.
fn files(directory: &str) -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/import")
        .join(directory);
    let mut files: Vec<PathBuf> = fs::read_dir(&directory)
        .unwrap_or_else(|error| panic!("{}: {error}", directory.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.is_file()
                && path
                    .extension()
                    .is_none_or(|end| end != "expected" && end != "inc")
        })
        .collect();
    files.sort();
    files
}

fn converted(format: Format, path: &Path) -> Result<Imported, Mistakes> {
    let mut source = Source::read(path).unwrap();
    // The same on every machine.
    source.name = path.file_name().unwrap().to_string_lossy().into_owned();
    convert(format, &source)
}

fn compare(path: &Path, text: &str) {
    let mut expected = path.as_os_str().to_owned();
    expected.push(".expected");
    if std::env::var_os("SLUICEGATE_UPDATE").is_some() {
        fs::write(&expected, text).unwrap();
    }
    let expected = fs::read_to_string(&expected).unwrap_or_default();
    assert_eq!(text, expected, "{}", path.display());
}

/// Every file becomes what stands beside it, and that is a configuration of ours.
fn files_become_what_stands_beside_them(format: Format, directory: &str) {
    let files = files(directory);
    assert!(
        files.len() >= 10,
        "only {} files in {directory}",
        files.len()
    );
    for path in files {
        let imported = converted(format, &path)
            .unwrap_or_else(|mistakes| panic!("{}: {mistakes}", path.display()));
        compare(&path, &imported.yaml);
        let ours = Source {
            text: imported.yaml.clone(),
            ..Source::embedded()
        };
        load(&ours, &|_| None).unwrap_or_else(|mistakes| panic!("{}: {mistakes}", path.display()));
        for difference in &imported.differences {
            // The names of the limits before it stand at the limits themselves.
            let sentence = difference
                .split_once(": ")
                .map_or(difference.as_str(), |(_, rest)| rest);
            assert!(
                imported.yaml.contains(sentence),
                "no comment says {difference}"
            );
        }
    }
}

/// Every broken file is refused, and each mistake has the name of the file and the line.
fn broken_files_are_refused_with_their_lines(format: Format, directory: &str) {
    let files = files(&format!("{directory}/broken"));
    assert!(
        files.len() >= 4,
        "only {} broken files of {directory}",
        files.len()
    );
    for path in files {
        let mistakes = converted(format, &path).expect_err(&path.display().to_string());
        for line in mistakes.to_string().lines() {
            let mut parts = line.splitn(3, ':');
            let (_, number) = (parts.next(), parts.next());
            let is_line = number.is_some_and(|number| number.parse::<u64>().is_ok());
            assert!(is_line, "{}: {line}", path.display());
        }
        compare(&path, &format!("{mistakes}\n"));
    }
}

#[test]
fn files_of_nginx_become_what_stands_beside_them() {
    files_become_what_stands_beside_them(Format::Nginx, "nginx");
}

#[test]
fn broken_files_of_nginx_are_refused_with_their_lines() {
    broken_files_are_refused_with_their_lines(Format::Nginx, "nginx");
}

#[test]
fn files_of_haproxy_become_what_stands_beside_them() {
    files_become_what_stands_beside_them(Format::Haproxy, "haproxy");
}

#[test]
fn broken_files_of_haproxy_are_refused_with_their_lines() {
    broken_files_are_refused_with_their_lines(Format::Haproxy, "haproxy");
}

#[test]
fn files_of_traefik_become_what_stands_beside_them() {
    files_become_what_stands_beside_them(Format::Traefik, "traefik");
}

#[test]
fn broken_files_of_traefik_are_refused_with_their_lines() {
    broken_files_are_refused_with_their_lines(Format::Traefik, "traefik");
}

#[test]
fn files_of_kong_become_what_stands_beside_them() {
    files_become_what_stands_beside_them(Format::Kong, "kong");
}

#[test]
fn broken_files_of_kong_are_refused_with_their_lines() {
    broken_files_are_refused_with_their_lines(Format::Kong, "kong");
}
