//! The key of a zone: variables of nginx as key parts, and `map` and `geo` as conditions.
//!
//! A request whose key is empty is not limited. So a `map` or `geo` that yields an empty text for
//! some requests is a list of exceptions, and one that yields it by default is a condition.

use std::net::IpAddr;

use ipnet::IpNet;

use super::places::server_hosts;
use super::syntax::Directive;
use crate::import::cover::Cover;
use crate::import::regex_path::regex_paths;

/// The key of a zone in our words.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ZoneKey {
    /// Key parts as the configuration writes them; empty is one counter for all.
    pub(super) parts: Vec<String>,
    pub(super) on_missing_key: Option<&'static str>,
    /// The requests that are limited, one of these covers; empty is all.
    pub(super) only: Vec<Cover>,
    /// Requests that are not limited.
    pub(super) except: Vec<Cover>,
    /// Networks that are not limited.
    pub(super) allow: Vec<IpNet>,
    pub(super) differences: Vec<String>,
}

/// A variable that is computed from another.
#[derive(Clone, Debug)]
struct Table {
    name: String,
    /// The text whose value is looked up, such as `$http_x_plan`.
    source: String,
    kind: TableKind,
    /// Patterns and their results.
    entries: Vec<(String, String)>,
    default: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum TableKind {
    Map,
    /// Patterns are networks.
    Geo,
}

/// The variables that a configuration computes.
#[derive(Debug, Default)]
pub(super) struct Variables {
    tables: Vec<Table>,
}

/// Tables of tables beyond this depth go round in a circle.
const DEPTH_MAX: usize = 8;

impl Variables {
    /// Reads every `map` and `geo`.
    pub(super) fn read(http: &[&Directive]) -> Self {
        let tables = http.iter().filter_map(|directive| {
            let words: Vec<&str> = directive
                .arguments()
                .iter()
                .map(|word| word.text.as_str())
                .collect();
            let (kind, source, name) = match (directive.name(), words.as_slice()) {
                ("map", [source, name]) => (TableKind::Map, *source, *name),
                ("geo", [name]) => (TableKind::Geo, "$remote_addr", *name),
                ("geo", [source, name]) => (TableKind::Geo, *source, *name),
                _ => return None,
            };
            let mut table = Table {
                name: name.trim_start_matches('$').to_owned(),
                source: source.to_owned(),
                kind,
                entries: Vec::new(),
                default: String::new(),
            };
            for entry in directive.inside() {
                match (entry.name(), entry.arguments()) {
                    ("default", [result]) => table.default.clone_from(&result.text),
                    (pattern, [result]) => {
                        table
                            .entries
                            .push((pattern.to_owned(), result.text.clone()));
                    }
                    _ => {}
                }
            }
            Some(table)
        });
        Self {
            tables: tables.collect(),
        }
    }

    /// The key of a zone, or the reason why it has no counterpart.
    pub(super) fn key(&self, text: &str) -> Result<ZoneKey, String> {
        self.key_at(text, 0)
    }

    fn key_at(&self, text: &str, depth: usize) -> Result<ZoneKey, String> {
        if depth > DEPTH_MAX {
            return Err(format!("the variables of {text} go round in a circle"));
        }
        let variables = variables_of(text);
        if let [only] = variables.as_slice()
            && let Some(table) = self.tables.iter().find(|table| table.name == *only)
        {
            return self.key_of_table(&self.composed(table, 0)?, depth);
        }
        let mut key = ZoneKey::default();
        for name in &variables {
            if self.tables.iter().any(|table| table.name == *name) {
                return Err(format!(
                    "${name} is computed, and stands beside other text in {text}"
                ));
            }
            let part = key_part(name).ok_or_else(|| format!("there is no key part for ${name}"))?;
            if let Some(difference) = part_difference(name) {
                key.differences.push(difference);
            }
            if !key.parts.contains(&part) {
                key.parts.push(part);
            }
        }
        let may_be_empty = |part: &&String| {
            let kinds = ["header:", "query:", "cookie:", "sni"];
            kinds.iter().any(|kind| part.starts_with(kind))
        };
        // An empty key is not counted; a key with another part is never empty.
        key.on_missing_key = match key.parts.iter().filter(may_be_empty).count() {
            0 => None,
            all if all == key.parts.len() => Some("skip"),
            _ if key.parts.iter().any(|part| part == "client_ip") => Some("client_ip"),
            _ => Some("shared"),
        };
        Ok(key)
    }

    /// A table of a table as one table.
    fn composed(&self, table: &Table, depth: usize) -> Result<Table, String> {
        let variables = variables_of(&table.source);
        let [source] = variables.as_slice() else {
            return Err(format!(
                "${} is computed from {:?}",
                table.name, table.source
            ));
        };
        let Some(inner) = self.tables.iter().find(|other| other.name == *source) else {
            return Ok(table.clone());
        };
        if depth > DEPTH_MAX {
            return Err(format!("${} is computed from itself", table.name));
        }
        let inner = self.composed(inner, depth + 1)?;
        let entries = inner.entries.iter();
        Ok(Table {
            name: table.name.clone(),
            entries: entries
                .map(|(pattern, result)| (pattern.clone(), table.look_up(result)))
                .collect(),
            default: table.look_up(&inner.default),
            ..inner
        })
    }

    /// The key that a table yields, with its exceptions or its condition.
    fn key_of_table(&self, table: &Table, depth: usize) -> Result<ZoneKey, String> {
        let source = table
            .source
            .trim_start_matches('$')
            .trim_matches(['{', '}']);
        let is_address = matches!(source, "remote_addr" | "binary_remote_addr");
        let (empty, limited): (Vec<_>, Vec<_>) = table
            .entries
            .iter()
            .partition(|(_, result)| result.is_empty());
        if table.kind == TableKind::Geo && !is_address {
            return Err(format!("${} is looked up by {}", table.name, table.source));
        }
        if table.default.is_empty() && is_address {
            return Err(format!("${} limits some addresses only", table.name));
        }
        if table.default.is_empty() {
            return self.key_of_condition(table, source, &limited, depth);
        }
        let mut key = self.key_at(&table.default, depth + 1)?;
        for (pattern, result) in limited
            .iter()
            .filter(|(_, result)| *result != table.default)
        {
            key.differences.push(format!(
                "requests with {pattern:?} in {} are counted by {result} in nginx and like all others here",
                table.source
            ));
        }
        for (pattern, _) in empty {
            let network = pattern.parse::<IpNet>().ok();
            let network = network.or_else(|| pattern.parse::<IpAddr>().ok().map(IpNet::from));
            match (network.filter(|_| is_address), condition(source, pattern)) {
                (Some(network), _) => key.allow.push(network.trunc()),
                (None, Some(covers)) if !is_address => key.except.extend(covers),
                _ => key.differences.push(format!(
                    "requests with {pattern:?} in {} are not limited in nginx; here they are",
                    table.source
                )),
            }
        }
        key.except = joined(key.except);
        Ok(key)
    }

    /// The key of a table that is empty by default: a condition.
    fn key_of_condition(
        &self,
        table: &Table,
        source: &str,
        limited: &[&(String, String)],
        depth: usize,
    ) -> Result<ZoneKey, String> {
        let Some((_, first)) = limited.first() else {
            return Err(format!("${} is always empty", table.name));
        };
        let mut key = self.key_at(first, depth + 1)?;
        let is_first = |entry: &&(String, String)| entry.1 == *first;
        for (pattern, result) in limited.iter().filter(|entry| !is_first(entry)) {
            let difference = format!(
                "requests with {pattern:?} in {} are counted by {result} in nginx and not at all here",
                table.source
            );
            key.differences.push(difference);
        }
        let covers = limited
            .iter()
            .copied()
            .filter(is_first)
            .map(|(pattern, _)| {
                condition(source, pattern)
                    .ok_or_else(|| format!("a limit cannot match {pattern:?} in {}", table.source))
            });
        key.only = joined(covers.collect::<Result<Vec<_>, _>>()?.concat());
        Ok(key)
    }
}

impl Table {
    /// The result for a value of another table.
    fn look_up(&self, value: &str) -> String {
        let found = self.entries.iter().find(|(pattern, _)| {
            self.kind == TableKind::Map && pattern.eq_ignore_ascii_case(value)
        });
        found.map_or(&self.default, |(_, result)| result).clone()
    }
}

/// The names of the variables in a text, `$a` or `${a}`.
fn variables_of(text: &str) -> Vec<String> {
    let parts = text.split('$').skip(1).map(|part| {
        let part = part.strip_prefix('{').unwrap_or(part);
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        part.chars()
            .take_while(|letter| is_name(*letter))
            .collect::<String>()
    });
    parts.filter(|name| !name.is_empty()).collect()
}

/// The key part of a variable; `None` when there is none.
fn key_part(variable: &str) -> Option<String> {
    let part = match variable {
        "binary_remote_addr" | "remote_addr" => "client_ip",
        "host" | "http_host" | "server_name" => "host",
        "uri" | "document_uri" | "request_uri" => "path",
        "request_method" => "method",
        "ssl_server_name" => "sni",
        _ => {
            let (kind, name) = variable.split_once('_')?;
            return match (kind, name) {
                (_, "") => None,
                ("http", header) => Some(format!("header:{}", header.replace('_', "-"))),
                ("arg", name) => Some(format!("query:{name}")),
                ("cookie", name) => Some(format!("cookie:{name}")),
                _ => None,
            };
        }
    };
    Some(part.to_owned())
}

/// The way in which a key part differs from its variable.
fn part_difference(variable: &str) -> Option<String> {
    match variable {
        "server_name" => Some(
            "$server_name is the first name of the server; here each host is counted on its own"
                .to_owned(),
        ),
        "request_uri" => {
            Some("$request_uri has the query in it; here the path is counted without it".to_owned())
        }
        name if name.starts_with("arg_") => Some(format!(
            "nginx takes the first of several ${name} as it was sent, with a name in either case; here it is decoded, the name is compared by case, and one that occurs twice is missing"
        )),
        name if name.starts_with("cookie_") => Some(format!(
            "nginx takes the first of several ${name}, with a name in either case; here the name is compared by case, and one that occurs twice is missing"
        )),
        _ => None,
    }
}

/// The covers of the requests in which a variable has a value; `None` when a limit cannot match it.
fn condition(variable: &str, pattern: &str) -> Option<Vec<Cover>> {
    let is_regex = pattern.starts_with('~');
    match variable {
        "request_method" if !is_regex => Some(vec![Cover {
            methods: vec![pattern.to_ascii_uppercase()],
            ..Cover::default()
        }]),
        "host" | "http_host" | "server_name" if !is_regex => {
            let found = server_hosts(std::iter::once(pattern));
            (found.unusable.is_empty() && !found.is_any).then(|| {
                vec![Cover {
                    hosts: found.hosts,
                    ..Cover::default()
                }]
            })
        }
        "uri" | "document_uri" | "request_uri" => {
            let paths = match is_regex {
                true => regex_paths(pattern.trim_start_matches(['~', '*']))?,
                false => vec![pattern.to_owned()],
            };
            paths.iter().map(|path| Cover::of_path(path)).collect()
        }
        _ => {
            let (kind, name) = variable.split_once('_')?;
            let value = match pattern {
                "~." | "~.+" | "~*.+" | "~^.+$" => "*",
                "" => return None,
                value if is_regex || value.contains('*') => return None,
                value => value,
            };
            let mut cover = Cover::default();
            let value = value.to_owned();
            match kind {
                "http" => cover.headers.push((name.replace('_', "-"), value)),
                "arg" => cover.query.push((name.to_owned(), value)),
                _ => return None,
            }
            Some(vec![cover])
        }
    }
}

/// Joins covers that differ in one list only, so that one limit does for all of them.
fn joined(covers: Vec<Cover>) -> Vec<Cover> {
    let mut joined: Vec<Cover> = Vec::new();
    for cover in covers {
        let is_methods = |one: &Cover| !one.methods.is_empty();
        let is_hosts = |one: &Cover| !one.hosts.is_empty();
        match joined.last_mut() {
            Some(last) if is_methods(last) && is_methods(&cover) => {
                last.methods.extend(cover.methods)
            }
            Some(last) if is_hosts(last) && is_hosts(&cover) => last.hosts.extend(cover.hosts),
            _ => joined.push(cover),
        }
    }
    joined
}
