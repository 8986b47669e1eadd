//! Trees of values written in both notations.

use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Map, Value, json};
use sluicegate_config::{Config, Mistakes, load};

use super::{everything, try_toml};
use crate::{docs, source};

/// A value that may stand anywhere, mostly where it is wrong.
fn any_value() -> impl Strategy<Value = Value> {
    let text = select(vec![
        "",
        "a",
        "10/s",
        "1m30s",
        "client_ip",
        "/api/",
        "off",
        "true",
        "12",
        "127.0.0.1:0",
        "${BURST}",
        "${",
        "$${a}",
        "ä\"'\\#\n\t=",
        "redis://a",
        "http://a",
        "2020-01-01",
        "nan",
        "1 MiB",
        "shadow",
        "\u{1}",
    ])
    .prop_map(Value::from);
    let leaf = prop_oneof![
        4 => text,
        1 => any::<bool>().prop_map(Value::from),
        1 => select(vec![0, 1, 7, 503, 100_000, u64::from(u32::MAX), u64::MAX]).prop_map(Value::from),
        1 => select(vec![-1, i64::MIN]).prop_map(Value::from),
        1 => select(vec![0.5, 1.0, -0.25, 1e30, 2.5e-7]).prop_map(Value::from),
        1 => Just(json!({})),
        1 => Just(json!([])),
    ];
    leaf.prop_recursive(2, 6, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::vec((any_key(), inner), 0..3)
                .prop_map(|entries| Value::from(Map::from_iter(entries))),
        ]
    })
}

fn any_key() -> impl Strategy<Value = String> {
    select(vec![
        "name", "key", "rate", "burst", "match", "path", "limits", "store", "redis", "url",
        "enabled", "odd key", "ä.\"b", "", "proxy", "listen", "kind",
    ])
    .prop_map(str::to_owned)
}

/// One change of a tree, at a place that the index picks.
#[derive(Clone, Debug)]
enum Damage {
    Replace(Index, Value),
    Remove(Index),
    Insert(Index, String, Value),
}

fn any_damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        (any::<Index>(), any_value()).prop_map(|(at, value)| Damage::Replace(at, value)),
        any::<Index>().prop_map(Damage::Remove),
        (any::<Index>(), any_key(), any_value())
            .prop_map(|(at, key, value)| Damage::Insert(at, key, value)),
    ]
}

impl Damage {
    fn apply(&self, tree: &mut Value) {
        let mut places = Vec::new();
        pointers(tree, &mut String::new(), &mut places);
        let (Self::Replace(at, _) | Self::Remove(at) | Self::Insert(at, ..)) = self;
        let pointer = at.get(&places);
        let (parent, last) = pointer.rsplit_once('/').unwrap_or_default();
        match self {
            Self::Replace(_, value) if !pointer.is_empty() => {
                *tree.pointer_mut(pointer).expect("it is there") = value.clone();
            }
            Self::Remove(_) if !pointer.is_empty() => {
                match tree.pointer_mut(parent).expect("it is there") {
                    Value::Object(map) => {
                        map.remove(&last.replace("~1", "/").replace("~0", "~"));
                    }
                    Value::Array(list) => {
                        list.remove(last.parse().expect("an index"));
                    }
                    _ => {}
                }
            }
            Self::Insert(_, key, value) => match tree.pointer_mut(pointer).expect("it is there") {
                Value::Object(map) => {
                    map.insert(key.clone(), value.clone());
                }
                Value::Array(list) => list.push(value.clone()),
                _ => {}
            },
            _ => {}
        }
    }
}

/// The JSON pointer of every value of a tree.
fn pointers(value: &Value, path: &mut String, places: &mut Vec<String>) {
    places.push(path.clone());
    let length = path.len();
    let mut visit = |step: String, child: &Value| {
        path.push('/');
        path.push_str(&step.replace('~', "~0").replace('/', "~1"));
        pointers(child, path, places);
        path.truncate(length);
    };
    match value {
        Value::Object(map) => map
            .iter()
            .for_each(|(key, child)| visit(key.clone(), child)),
        Value::Array(list) => list
            .iter()
            .enumerate()
            .for_each(|(index, child)| visit(index.to_string(), child)),
        _ => {}
    }
}

/// Writes a tree as TOML: sections as headers down to a depth, deeper ones in braces.
struct TomlWriter {
    headers_to: usize,
    dots: bool,
    text: String,
}

impl TomlWriter {
    fn section(&mut self, path: &str, depth: usize, map: &Map<String, Value>) {
        let is_below = |value: &Value| match value {
            Value::Object(_) => true,
            Value::Array(list) => !list.is_empty() && list.iter().all(Value::is_object),
            _ => false,
        };
        let by_header = |value: &Value| depth < self.headers_to && is_below(value);
        let (below, here): (Vec<_>, Vec<_>) = map.iter().partition(|(_, value)| by_header(value));
        for (key, value) in here {
            let key = text(key);
            let line = match value {
                Value::Object(inner) if self.dots && inner.len() == 1 => {
                    let (inner_key, value) = inner.iter().next().expect("one entry");
                    format!("{key} . {} = {}\n", text(inner_key), inline(value))
                }
                value => format!("{key}={}\n", inline(value)),
            };
            self.text.push_str(&line);
        }
        for (key, value) in below {
            let dot = if path.is_empty() { "" } else { "." };
            let path = format!("{path}{dot}{}", text(key));
            let (sections, header) = match value {
                Value::Array(list) => (list.iter().collect(), format!("[[{path}]]")),
                value => (vec![value], format!("[{path}]")),
            };
            for section in sections {
                self.text.push_str(&format!("\n{header} # ü\n"));
                self.section(&path, depth + 1, section.as_object().expect("a section"));
            }
        }
    }
}

fn inline(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let entry =
                |(key, value): (&String, &Value)| format!("{}={}", text(key), inline(value));
            let entries: Vec<String> = map.iter().map(entry).collect();
            format!("{{{}}}", entries.join(", "))
        }
        Value::Array(list) => {
            let items: Vec<String> = list.iter().map(inline).collect();
            format!("[{}]", items.join(",\n"))
        }
        Value::String(value) => text(value),
        value => value.to_string(),
    }
}

/// A text or a key in quotes.
fn text(value: &str) -> String {
    let escaped = value.chars().map(|letter| match letter {
        '"' | '\\' => format!("\\{letter}"),
        letter if letter.is_control() => format!("\\u{:04x}", u32::from(letter)),
        letter => letter.to_string(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

/// The configuration, or its mistakes without their places.
fn meaning(loaded: Result<Config, Mistakes>) -> String {
    match loaded {
        Ok(config) => everything(&config),
        Err(mistakes) => {
            assert!(mistakes.iter().all(|mistake| mistake.place().is_some()));
            let mut lines: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
            lines.sort();
            lines.join("\n")
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// The example with a few values changed, removed and added, written in both notations.
    #[test]
    fn the_same_tree_in_yaml_and_in_toml_means_the_same(
        damages in proptest::collection::vec(any_damage(), 0..4),
        headers_to in 0_usize..4,
        dots in any::<bool>(),
    ) {
        let mut tree: Value = ::toml::from_str(&docs::toml_example()).unwrap();
        damages.iter().for_each(|damage| damage.apply(&mut tree));
        let mut writer = TomlWriter { headers_to, dots, text: String::new() };
        writer.section("", 0, tree.as_object().unwrap());
        let env = |name: &str| (name == "BURST").then(|| "7".to_owned());
        let yaml = load(&source(&tree.to_string()), &env);
        prop_assert_eq!(meaning(yaml), meaning(try_toml(&writer.text)), "{}", writer.text);
    }
}
