//! docs/reference/configuration.md says what the schema says. It is written from the schema:
//! `SLUICEGATE_UPDATE=1 cargo test -p sluicegate-config --test it reference`.

use std::fs;
use std::path::Path;

use serde_json::Value;
use sluicegate_config::schema;

#[test]
fn the_reference_is_what_the_schema_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/configuration.md");
    let page = Page::of(&schema());
    if std::env::var_os("SLUICEGATE_UPDATE").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    let how = "SLUICEGATE_UPDATE=1 cargo test -p sluicegate-config --test it reference";
    assert!(
        written == page,
        "docs/reference/configuration.md is not what the schema says; to write it anew: {how}"
    );
}

#[test]
fn every_key_of_the_schema_has_a_row_with_a_meaning() {
    let page = Page::of(&schema());
    for row in [
        "| `proxy.listen` | address, or a list | required |",
        "| `proxy.timeouts.drain` | duration | `30s` |",
        "| `proxy.routes[].upstream` |",
        "| `admin.listen` | address | `127.0.0.1:9090` |",
        "| `store.on_failure.status` | number from 400 to 599 | `503` |",
        "| `access.deny.cidrs` |",
        "| `limits[].match.path` |",
        "| `external.cache_redis` | as `store.redis` |",
        "| `log.access` | `true` or `false` | `false` |",
    ] {
        assert!(page.contains(row), "{row} in {page}");
    }
    let empty: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("| `") && line.ends_with("|  |"))
        .collect();
    assert!(empty.is_empty(), "without a meaning: {empty:#?}");
}

/// The page that is being written.
struct Page<'a> {
    schema: &'a Value,
    text: String,
}

const INTRODUCTION: &str = "\
# Every key of the configuration

This list is made from the schema that `sluicegate schema` prints, by a test of `sluicegate-config`. [configuration.md](../configuration.md) says the
same with examples and reasons. In place of any value, `${NAME}` takes it from the environment and `${file:path}` from a file.
";

impl<'a> Page<'a> {
    fn of(schema: &'a Value) -> String {
        let mut page = Page {
            schema,
            text: INTRODUCTION.to_owned(),
        };
        for (name, section) in properties(schema) {
            page.text += &format!("\n## {name}\n\n{}\n\n", meaning(section));
            page.text += "| key | kind | default | meaning |\n|---|---|---|---|\n";
            page.rows(name, section);
        }
        page.text
    }

    /// A row for each key of a section, and for the keys below it.
    fn rows(&mut self, path: &str, section: &Value) {
        let (path, section) = match section.get("items") {
            Some(items) => (format!("{path}[]"), self.resolved(items)),
            None => (path.to_owned(), section),
        };
        // Some sections may be a word instead.
        let forms = section["anyOf"].as_array().into_iter().flatten();
        for form in std::iter::once(section).chain(forms) {
            for (name, value) in properties(form) {
                let path = format!("{path}.{name}");
                // A section with a switch needs its keys only while it is on.
                let is_required = [&form["required"], &form["else"]["required"]]
                    .iter()
                    .filter_map(|names| names.as_array())
                    .any(|names| names.contains(&name.into()));
                let default = match value.get("default") {
                    Some(Value::String(text)) => format!("`{text}`"),
                    Some(other) => format!("`{other}`"),
                    None if is_required => "required".to_owned(),
                    None => "–".to_owned(),
                };
                let kind = self.kind(value);
                self.text += &format!("| `{path}` | {kind} | {default} | {} |\n", meaning(value));
                if !kind.starts_with("as ") {
                    self.rows(&path, self.resolved(value));
                }
            }
        }
    }

    fn kind(&self, value: &Value) -> String {
        if let Some(reference) = value["$ref"].as_str() {
            return match reference.rsplit('/').next().unwrap_or_default() {
                "socket" => "address".to_owned(),
                "cidr" => "addresses".to_owned(),
                "switch" => "`true` or `false`".to_owned(),
                "token" => "word".to_owned(),
                "key_part" => "key part".to_owned(),
                "failure_word" => "`open`, `closed` or `local`".to_owned(),
                "upstream" => "URL".to_owned(),
                "redis" => "as `store.redis`".to_owned(),
                "duration" | "rate" | "path" | "reference" => {
                    reference.rsplit('/').next().unwrap_or_default().to_owned()
                }
                _ => self.kind(self.resolved(value)),
            };
        }
        if let Some(words) = value["enum"].as_array() {
            // `false` and `"false"` look the same in YAML.
            return words
                .iter()
                .filter(|word| word.is_string())
                .map(|word| format!("`{}`", text_of(word)))
                .collect::<Vec<_>>()
                .join(", ");
        }
        let forms: Vec<String> = value["anyOf"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|form| self.kind(form))
            .collect();
        let mut forms: Vec<String> = forms
            .into_iter()
            .filter(|form| form != "reference")
            .collect();
        forms.dedup();
        match (value["type"].as_str(), forms.as_slice()) {
            (None, [one, list]) if *list == format!("list of {one}") => format!("{one}, or a list"),
            (None, [_, ..]) => forms.join(" or "),
            (Some("array"), _) => match &value["items"] {
                items if items["properties"].is_object() || items["$ref"] == "#/$defs/limit" => {
                    "list of sections".to_owned()
                }
                items => format!("list of {}", self.kind(items)),
            },
            (Some("integer" | "number"), _) => match (value.get("minimum"), value.get("maximum")) {
                (Some(least), Some(most)) => format!("number from {least} to {most}"),
                (Some(least), None) => format!("number, at least {least}"),
                _ => "number".to_owned(),
            },
            (Some("boolean"), _) => "`true` or `false`".to_owned(),
            (Some("string"), _) => "text".to_owned(),
            _ => "section".to_owned(),
        }
    }

    fn resolved(&self, value: &'a Value) -> &'a Value {
        let reference = value["$ref"]
            .as_str()
            .and_then(|reference| reference.strip_prefix('#'));
        reference.map_or(value, |pointer| {
            self.schema
                .pointer(pointer)
                .expect("the schema holds what it refers to")
        })
    }
}

/// In alphabetical order: not every build keeps the order of the file.
fn properties(section: &Value) -> Vec<(&str, &Value)> {
    let mut properties: Vec<(&str, &Value)> = section["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.as_str(), value))
        .collect();
    properties.sort_by_key(|(name, _)| *name);
    properties
}

fn meaning(value: &Value) -> String {
    text_of(&value["description"]).replace('|', "\\|")
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
