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
        .map(|entry| entry.expect("the directory is read").path())
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
    let mut source = Source::read(path).expect("the file is read");
    // The same on every machine.
    source.name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    convert(format, &source)
}

fn compare(path: &Path, text: &str) {
    let mut expected = path.as_os_str().to_owned();
    expected.push(".expected");
    if std::env::var_os("SLUICEGATE_UPDATE").is_some() {
        fs::write(&expected, text).expect("the result is written");
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

#[test]
fn files_of_edgequota_become_what_stands_beside_them() {
    files_become_what_stands_beside_them(Format::Edgequota, "edgequota");
}

#[test]
fn broken_files_of_edgequota_are_refused_with_their_lines() {
    broken_files_are_refused_with_their_lines(Format::Edgequota, "edgequota");
}

#[test]
fn files_of_edgeguard_become_what_stands_beside_them() {
    files_become_what_stands_beside_them(Format::Edgeguard, "edgeguard");
}

#[test]
fn broken_files_of_edgeguard_are_refused_with_their_lines() {
    broken_files_are_refused_with_their_lines(Format::Edgeguard, "edgeguard");
}

#[test]
fn files_of_misskey_become_what_stands_beside_them() {
    files_become_what_stands_beside_them(Format::Misskey, "misskey");
}

#[test]
fn broken_files_of_misskey_are_refused_with_their_lines() {
    broken_files_are_refused_with_their_lines(Format::Misskey, "misskey");
}

const FORMATS: [Format; 8] = [
    Format::Edgeguard,
    Format::Edgequota,
    Format::Misskey,
    Format::EnvoyRatelimit,
    Format::Haproxy,
    Format::Kong,
    Format::Nginx,
    Format::Traefik,
];

/// Words that mean something to one of the programs, and some that mean nothing to any.
const WORDS: [&str; 44] = [
    "http",
    "server",
    "location",
    "/a",
    "=",
    "~",
    "^/(a|b)$",
    "{",
    "}",
    ";",
    "(",
    ")",
    "\"",
    "'",
    "`",
    "\\",
    "limit_req_zone",
    "limit_req",
    "$binary_remote_addr",
    "$x",
    "map",
    "geo",
    "zone=z:1m",
    "rate=1r/s",
    "frontend",
    "stick-table",
    "type",
    "ip",
    "store",
    "http_req_rate(1s)",
    "acl",
    "if",
    "sc0_http_req_rate",
    "gt",
    "http:",
    "rateLimit:",
    "average:",
    "_format_version:",
    "plugins:",
    "- name:",
    "\n",
    "\n  ",
    "#",
    "é",
];

proptest::proptest! {
    /// Whatever a file holds, it is converted or refused.
    #[test]
    fn no_text_makes_an_importer_panic(
        picked in proptest::collection::vec(0..WORDS.len(), 0..60),
        noise in ".{0,20}",
    ) {
        let words: Vec<&str> = picked.iter().map(|at| WORDS[*at]).collect();
        for text in [words.join(" "), words.concat() + &noise, noise.clone()] {
            for format in FORMATS {
                for name in ["file.yaml", "file.toml"] {
                    let source = Source { name: name.to_owned(), text: text.clone(), ..Source::embedded() };
                    let _ = convert(format, &source);
                }
            }
        }
    }
}

/// The files of the tests with a few letters taken out or doubled.
#[test]
fn damaged_files_are_converted_or_refused() {
    for (format, directory) in [
        (Format::Nginx, "nginx"),
        (Format::Haproxy, "haproxy"),
        (Format::Traefik, "traefik"),
        (Format::Kong, "kong"),
        (Format::Edgequota, "edgequota"),
        (Format::Edgeguard, "edgeguard"),
        (Format::Misskey, "misskey"),
    ] {
        for path in files(directory) {
            let source = Source::read(&path).expect("the file is read");
            let letters: Vec<char> = source.text.chars().collect();
            for at in (0..letters.len()).step_by(29) {
                let without = letters[..at].iter().chain(&letters[at + 1..]).collect();
                let ends = letters[..at].iter().collect();
                for text in [without, ends] {
                    let _ = convert(
                        format,
                        &Source {
                            text,
                            ..source.clone()
                        },
                    );
                }
            }
        }
    }
}

#[test]
fn deep_nesting_is_refused_by_every_importer() {
    for format in FORMATS {
        for text in [
            "a {".repeat(100_000),
            "[".repeat(100_000),
            "{ a: ".repeat(50_000),
        ] {
            let source = Source {
                text,
                ..Source::embedded()
            };
            assert!(convert(format, &source).is_err(), "{format:?}");
        }
    }
}

/// A pipe that nobody writes to would be read for ever.
#[test]
fn files_that_are_named_and_are_not_regular_are_told_and_not_read() {
    for (format, text) in [
        (Format::Nginx, "include /dev;\ninclude /dev/zero;\n"),
        (
            Format::Haproxy,
            "frontend a\n    acl x src -f /dev/zero\n    http-request deny if x\n",
        ),
    ] {
        let source = Source {
            text: text.to_owned(),
            ..Source::embedded()
        };
        let imported = convert(format, &source).expect("it is converted");
        let told = imported.not_carried_over.join("\n");
        assert!(
            format == Format::Haproxy || told.contains("/dev/zero: is not a regular file"),
            "{told}"
        );
    }
}
