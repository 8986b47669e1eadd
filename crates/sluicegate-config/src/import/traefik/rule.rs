//! Rules of Traefik's routers as covers: ``Host(`a`) && PathPrefix(`/api`)``.
//!
//! A rule becomes alternatives, each a list of matchers.

use crate::import::alternatives::{ALTERNATIVES_MAX, Alternatives, Negate, both, contrary};
use crate::import::cover::Cover;
use crate::import::regex_path::regex_paths;

/// The covers of a rule.
#[derive(Debug, Default, PartialEq)]
pub(super) struct RuleCovers {
    /// Any of these.
    pub(super) covers: Vec<Cover>,
    /// In which way they differ from the rule.
    pub(super) differences: Vec<String>,
    /// True when the covers have more requests than the rule.
    pub(super) is_wider: bool,
}

/// Reads a rule. An error says what is wrong with it.
pub(super) fn read(rule: &str) -> Result<RuleCovers, String> {
    let tokens = tokens(rule)?;
    let mut parser = Parser {
        tokens: &tokens,
        at: 0,
        depth: 0,
    };
    let alternatives = parser.any()?;
    if parser.at < tokens.len() {
        return Err(format!(
            "expected && or || before {}",
            tokens[parser.at].shown()
        ));
    }
    let mut read = RuleCovers::default();
    for list in alternatives {
        let mut covers = vec![Cover::default()];
        for matcher in &list {
            let found = matcher.covers(&mut read);
            let pairs = covers
                .iter()
                .flat_map(|one| found.iter().filter_map(|two| one.and(two)));
            covers = pairs.take(ALTERNATIVES_MAX).collect();
        }
        for cover in covers {
            if !read.covers.contains(&cover) {
                read.covers.push(cover);
            }
        }
    }
    Ok(read)
}

/// Deeper parentheses are refused.
const DEPTH_MAX: usize = 32;

#[derive(Clone, Debug, PartialEq)]
enum RuleToken {
    And,
    Or,
    Not,
    Open,
    Close,
    Comma,
    Name(String),
    Text(String),
}

impl RuleToken {
    fn shown(&self) -> String {
        match self {
            Self::And => "&&".to_owned(),
            Self::Or => "||".to_owned(),
            Self::Not => "!".to_owned(),
            Self::Open => "(".to_owned(),
            Self::Close => ")".to_owned(),
            Self::Comma => ",".to_owned(),
            Self::Name(text) | Self::Text(text) => format!("{text:?}"),
        }
    }
}

fn tokens(rule: &str) -> Result<Vec<RuleToken>, String> {
    let mut tokens = Vec::new();
    let mut rest = rule.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, length) = match first {
            '(' => (RuleToken::Open, 1),
            ')' => (RuleToken::Close, 1),
            ',' => (RuleToken::Comma, 1),
            '!' => (RuleToken::Not, 1),
            '&' if rest.starts_with("&&") => (RuleToken::And, 2),
            '|' if rest.starts_with("||") => (RuleToken::Or, 2),
            '`' | '"' | '\'' => {
                let Some(end) = rest[1..].find(first) else {
                    return Err("the quote is never closed".to_owned());
                };
                (RuleToken::Text(rest[1..=end].to_owned()), end + 2)
            }
            letter if letter.is_alphabetic() => {
                let end = rest
                    .find(|letter: char| !letter.is_alphanumeric())
                    .unwrap_or(rest.len());
                (RuleToken::Name(rest[..end].to_owned()), end)
            }
            other => return Err(format!("unexpected {other:?}")),
        };
        tokens.push(token);
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

/// A matcher with its arguments, or its contrary.
#[derive(Clone, Debug)]
struct Matcher {
    is_negated: bool,
    name: String,
    arguments: Vec<String>,
}

struct Parser<'a> {
    tokens: &'a [RuleToken],
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn next_is(&mut self, token: &RuleToken) -> bool {
        let is_next = self.tokens.get(self.at) == Some(token);
        self.at += usize::from(is_next);
        is_next
    }

    fn any(&mut self) -> Result<Alternatives<Matcher>, String> {
        let mut alternatives = self.all()?;
        while self.next_is(&RuleToken::Or) {
            alternatives.extend(self.all()?);
            alternatives.truncate(ALTERNATIVES_MAX);
        }
        Ok(alternatives)
    }

    fn all(&mut self) -> Result<Alternatives<Matcher>, String> {
        let mut all = self.one()?;
        while self.next_is(&RuleToken::And) {
            all = both(&all, &self.one()?);
        }
        Ok(all)
    }

    fn one(&mut self) -> Result<Alternatives<Matcher>, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("is nested too deeply".to_owned());
        }
        let read = if self.next_is(&RuleToken::Not) {
            contrary(&self.one()?)
        } else if self.next_is(&RuleToken::Open) {
            let inner = self.any()?;
            if !self.next_is(&RuleToken::Close) {
                return Err("expected )".to_owned());
            }
            inner
        } else {
            vec![vec![self.matcher()?]]
        };
        self.depth -= 1;
        Ok(read)
    }

    fn matcher(&mut self) -> Result<Matcher, String> {
        let Some(RuleToken::Name(name)) = self.tokens.get(self.at) else {
            let found = self
                .tokens
                .get(self.at)
                .map_or("the end".to_owned(), RuleToken::shown);
            return Err(format!(
                "expected a matcher such as Host(`a.example`) (got {found})"
            ));
        };
        self.at += 1;
        if !self.next_is(&RuleToken::Open) {
            return Err(format!("expected ( after {name}"));
        }
        let mut arguments = Vec::new();
        while !self.next_is(&RuleToken::Close) {
            match self.tokens.get(self.at) {
                Some(RuleToken::Text(text)) => arguments.push(text.clone()),
                Some(RuleToken::Comma) => {}
                _ => return Err(format!("expected ) after the arguments of {name}")),
            }
            self.at += 1;
        }
        Ok(Matcher {
            is_negated: false,
            name: name.clone(),
            arguments,
        })
    }
}

impl Negate for Matcher {
    fn negated(&self) -> Self {
        Self {
            is_negated: !self.is_negated,
            ..self.clone()
        }
    }
}

impl Matcher {
    /// Any of these covers. A matcher that cannot be expressed covers everything, and is told.
    fn covers(&self, read: &mut RuleCovers) -> Vec<Cover> {
        let mut note = |difference: String| {
            if !read.differences.contains(&difference) {
                read.differences.push(difference);
            }
        };
        let is_expressed = !self.is_negated;
        if let Some(covers) = is_expressed.then(|| self.expressed(&mut note)).flatten() {
            return covers;
        }
        read.is_wider = true;
        let not = if self.is_negated { "!" } else { "" };
        note(format!(
            "the rule's {not}{}({}) is not looked at, so that more requests are covered",
            self.name,
            self.arguments.join(", ")
        ));
        vec![Cover::default()]
    }

    fn expressed(&self, note: &mut impl FnMut(String)) -> Option<Vec<Cover>> {
        let arguments = &self.arguments;
        match self.name.to_ascii_lowercase().as_str() {
            "host" | "hostheader" => {
                let covers: Option<Vec<Cover>> =
                    arguments.iter().map(|host| Cover::of_host(host)).collect();
                Some(vec![Cover {
                    hosts: covers?.into_iter().flat_map(|cover| cover.hosts).collect(),
                    ..Cover::default()
                }])
            }
            "pathprefix" => {
                if arguments.iter().any(|path| !path.ends_with('/')) {
                    note(
                        "Traefik compares letters in PathPrefix; here whole segments match"
                            .to_owned(),
                    );
                }
                arguments.iter().map(|path| Cover::of_path(path)).collect()
            }
            "path" => {
                note(
                    "Traefik compares the whole path in Path; here paths below it match too"
                        .to_owned(),
                );
                let cover =
                    |path: &String| Cover::of_path(path).filter(|cover| cover.path.is_some());
                arguments.iter().map(cover).collect()
            }
            "pathregexp" => {
                let paths: Option<Vec<_>> =
                    arguments.iter().map(|regex| regex_paths(regex)).collect();
                let paths = paths?.concat();
                note("Traefik compares a regular expression in PathRegexp; here the path and all below it match".to_owned());
                paths.iter().map(|path| Cover::of_path(path)).collect()
            }
            "method" => Some(vec![Cover {
                methods: arguments
                    .iter()
                    .map(|method| method.to_ascii_uppercase())
                    .collect(),
                ..Cover::default()
            }]),
            "header" | "headers" => match arguments.as_slice() {
                [name, value] => Some(vec![Cover {
                    headers: vec![(name.to_ascii_lowercase(), value.clone())],
                    ..Cover::default()
                }]),
                _ => None,
            },
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(rule: &str) -> Vec<String> {
        let read = read(rule).unwrap();
        read.covers
            .iter()
            .map(|cover| cover.in_yaml().unwrap_or_default())
            .collect()
    }

    #[test]
    fn rules_become_covers() {
        assert_eq!(
            shown(
                "Host(`a.example`, `b.example`) && (PathPrefix(`/x`) || Path(`/y`)) && Method(`POST`)"
            ),
            [
                r#"{ hosts: ["a.example", "b.example"], path: "/x", methods: ["POST"] }"#,
                r#"{ hosts: ["a.example", "b.example"], path: "/y", methods: ["POST"] }"#
            ]
        );
        assert_eq!(shown("PathPrefix(`/`)"), [""]);
        assert_eq!(shown("!Path(`/y`) && Host(`a`)"), [r#"{ hosts: ["a"] }"#]);
    }

    #[test]
    fn broken_rules_are_refused() {
        for rule in [
            "",
            "Host(`a`",
            "Host(`a`) Host(`b`)",
            "&& Host(`a`)",
            "Host `a`",
            "(Host(`a`)",
            "Host(`a) ",
        ] {
            assert!(read(rule).is_err(), "{rule}");
        }
        assert!(read(&"(".repeat(100_000)).is_err());
    }
}
