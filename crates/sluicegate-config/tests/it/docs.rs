//! Every configuration in the documentation is accepted, or refused with the message shown.

use std::path::Path;

use sluicegate_config::Source;
use sluicegate_config::import::{Format, convert};

use crate::{good, schema, toml, try_load};

const CONFIGURATION: &str = include_str!("../../../../docs/configuration.md");
const EXAMPLE: &str = include_str!("../../../../docs/examples/sluicegate.yaml");

/// Blocks marked `yaml` or `toml`, each with the rest of its mark.
fn blocks(page: &str, language: &str) -> Vec<(String, String)> {
    let fence = format!("```{language}");
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(mark) = line.strip_prefix(&fence) else {
            continue;
        };
        let block: Vec<&str> = lines
            .by_ref()
            .take_while(|line| !line.starts_with("```"))
            .collect();
        blocks.push((mark.trim().to_owned(), block.join("\n") + "\n"));
    }
    blocks
}

/// README and everything below docs/.
fn pages() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut directories = vec![root.join("docs")];
    let mut pages = vec![root.join("README.md")];
    while let Some(directory) = directories.pop() {
        for path in std::fs::read_dir(directory)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
        {
            match path.extension() {
                _ if path.is_dir() => directories.push(path),
                Some(extension) if extension == "md" => pages.push(path),
                _ => {}
            }
        }
    }
    pages
        .iter()
        .filter_map(|page| std::fs::read_to_string(page).ok())
        .collect()
}

#[test]
fn every_block_is_loaded_or_refused_as_marked() {
    let blocks: Vec<(String, String)> = pages()
        .iter()
        .flat_map(|page| blocks(page, "yaml"))
        .collect();
    assert!(
        blocks.len() >= 30,
        "only {} blocks were found",
        blocks.len()
    );
    for (mark, text) in blocks {
        match mark.as_str() {
            "" => {
                good(&text);
                schema::accepts(&text).unwrap_or_else(|why| panic!("{why}\n{text}"));
            }
            "refused" => assert!(try_load(&text).is_err(), "was accepted:\n{text}"),
            // Files of other programs.
            "envoyproxy/ratelimit" => {
                let source = Source {
                    name: mark,
                    text,
                    ..Source::embedded()
                };
                convert(Format::EnvoyRatelimit, &source)
                    .unwrap_or_else(|mistakes| panic!("{mistakes}"));
            }
            "envoy" | "traefik" | "kong" | "edgequota" => {}
            other => panic!("unknown mark {other:?}"),
        }
    }
}

/// The example in TOML, as the documentation has it.
pub fn toml_example() -> String {
    let (example, _) = block(CONFIGURATION, "toml");
    example.to_owned()
}

#[test]
fn the_example_in_the_documentation_means_the_same_in_yaml_and_in_toml() {
    let config = toml::good(&toml_example());
    let yaml = good(EXAMPLE);
    assert_eq!(toml::everything(&config), toml::everything(&yaml));
    assert_eq!(config.changes_to(&yaml), []);
}

#[test]
fn every_block_of_toml_is_loaded() {
    let pages = pages();
    let blocks = pages.iter().flat_map(|page| blocks(page, "toml"));
    for (_, text) in blocks.filter(|(mark, _)| mark != "edgeguard") {
        toml::good(&text);
    }
}

/// The result of an import that a page shows is the result of the import.
#[test]
fn the_imports_in_the_documentation_are_what_is_imported() {
    for (page, fence, name, format) in [
        (
            include_str!("../../../../docs/migration.md"),
            "yaml envoyproxy/ratelimit",
            "a.yaml",
            Format::EnvoyRatelimit,
        ),
        (
            include_str!("../../../../docs/migration-haproxy.md"),
            "haproxy",
            "haproxy.cfg",
            Format::Haproxy,
        ),
        (
            include_str!("../../../../docs/migration-kong.md"),
            "yaml kong",
            "kong.yaml",
            Format::Kong,
        ),
        (
            include_str!("../../../../docs/migration-nginx.md"),
            "nginx",
            "nginx.conf",
            Format::Nginx,
        ),
        (
            include_str!("../../../../docs/migration-traefik.md"),
            "yaml traefik",
            "dynamic.yaml",
            Format::Traefik,
        ),
        (
            include_str!("../../../../docs/migration-edgequota.md"),
            "yaml edgequota",
            "config.yaml",
            Format::Edgequota,
        ),
        (
            include_str!("../../../../docs/migration-edgeguard.md"),
            "toml edgeguard",
            "edgeguard.toml",
            Format::Edgeguard,
        ),
        (
            include_str!("../../../../docs/migration-misskey.md"),
            "json misskey",
            "limits.json",
            Format::Misskey,
        ),
    ] {
        let (theirs, rest) = block(page, fence);
        let (ours, _) = block(rest, "yaml");
        let theirs = Source {
            name: name.to_owned(),
            text: theirs.to_owned(),
            ..Source::embedded()
        };
        let imported = convert(format, &theirs).unwrap();
        assert_eq!(
            good(ours).in_words(),
            good(&imported.yaml).in_words(),
            "{fence}: {}",
            imported.yaml
        );
    }
}

/// The first block behind this fence, and the text after it.
fn block<'a>(page: &'a str, fence: &str) -> (&'a str, &'a str) {
    page.split_once(&format!("```{fence}\n"))
        .and_then(|(_, rest)| rest.split_once("```"))
        .unwrap_or_else(|| panic!("no block {fence}"))
}

#[test]
fn messages_in_the_documentation_are_those_that_are_told() {
    let (refused, text) = CONFIGURATION.split_once("```yaml refused\n").unwrap();
    assert!(!refused.is_empty());
    let (text, rest) = text.split_once("```").unwrap();
    let reported = rest
        .split_once("```text\n")
        .and_then(|(_, rest)| rest.split_once("```"))
        .unwrap()
        .0;
    assert_eq!(try_load(text).unwrap_err().to_string(), reported.trim_end());
}

#[test]
fn the_example_is_loaded_and_has_every_kind_of_limit() {
    let config = good(EXAMPLE);
    schema::accepts(EXAMPLE).unwrap_or_else(|why| panic!("{why}"));
    let names: Vec<&str> = config
        .policy
        .limits()
        .iter()
        .map(|limit| limit.name.as_str())
        .collect();
    assert_eq!(names, ["per-ip", "api", "tenant", "sign-in", "legacy-api"]);
    assert!(config.external.is_some());
    assert!(
        config.proxy.is_some()
            && config.principals.jwt.is_some()
            && config.principals.api_keys.is_some()
    );
}

#[test]
fn the_example_of_a_limits_service_is_loaded() {
    const WITH_SERVICE: &str = include_str!("../../../../examples/limits-service/sluicegate.yaml");
    assert!(good(WITH_SERVICE).external.is_some());
    schema::accepts(WITH_SERVICE).unwrap_or_else(|why| panic!("{why}"));
}

#[test]
fn the_built_in_default_stands_in_the_documentation() {
    let has_default = blocks(CONFIGURATION, "yaml")
        .iter()
        .any(|(_, text)| good_lines(text) == good_lines(&Source::embedded().text));
    assert!(
        has_default,
        "docs/configuration.md does not show the built-in default"
    );
}

/// Every key of the schema is explained.
#[test]
fn every_key_is_in_the_documentation() {
    let schema = sluicegate_config::schema();
    let mut missing = Vec::new();
    keys(&schema, &mut |key| {
        let ways = [
            format!("`{key}`"),
            format!(".{key}`"),
            format!("\n## {key}\n"),
        ];
        if !ways.iter().any(|way| CONFIGURATION.contains(way)) {
            missing.push(key.to_owned());
        }
    });
    assert!(
        missing.is_empty(),
        "not in docs/configuration.md: {missing:?}"
    );
}

fn keys(value: &serde_json::Value, see: &mut impl FnMut(&str)) {
    match value {
        serde_json::Value::Object(map) => {
            if let Some(serde_json::Value::Object(properties)) = map.get("properties") {
                properties.keys().for_each(|key| see(key));
            }
            map.values().for_each(|value| keys(value, see));
        }
        serde_json::Value::Array(list) => list.iter().for_each(|value| keys(value, see)),
        _ => {}
    }
}

fn good_lines(text: &str) -> Vec<&str> {
    let lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim_end());
    lines.filter(|line| !line.is_empty()).collect()
}
