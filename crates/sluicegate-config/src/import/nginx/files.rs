//! The files of a configuration of nginx: the one that is given, and those that it includes.

use std::path::{Path, PathBuf};

use super::syntax::{Directive, parse};
use crate::import::foreign_text::{ForeignText, Word};
use crate::{Mistakes, Source};

/// All files that were read.
#[derive(Debug)]
pub(super) struct NginxFiles {
    pub(super) texts: Vec<ForeignText>,
    /// The directory that names in `include` start from, in every file.
    base_dir: PathBuf,
    /// Includes that could not be read, each with its place.
    pub(super) unread: Vec<String>,
}

/// Includes of includes beyond this depth go round in a circle.
const DEPTH_MAX: usize = 10;
/// More files are more than a configuration has.
const FILES_MAX: usize = 1_000;

impl NginxFiles {
    /// Reads a file and all that it includes, each in place of its `include`.
    pub(super) fn read(source: &Source) -> Result<(Self, Vec<Directive>), Mistakes> {
        let mut files = Self {
            texts: vec![ForeignText::new(&source.name, &source.text)],
            base_dir: source.base_dir.clone(),
            unread: Vec::new(),
        };
        let directives = parse(&mut files.texts[0], 0);
        let directives = files.with_includes(directives, 0);
        files.check()?;
        Ok((files, directives))
    }

    /// The mistakes of the first file that has any.
    pub(super) fn check(&mut self) -> Result<(), Mistakes> {
        match self.texts.iter_mut().find_map(ForeignText::mistakes) {
            Some(mistakes) => Err(mistakes),
            None => Ok(()),
        }
    }

    /// Notes a mistake at a word of a statement.
    pub(super) fn mistake(&mut self, directive: &Directive, word: Option<&Word>, message: String) {
        if let Some(word) = word.or(directive.words.first()) {
            self.texts[directive.file].mistake(&word.at, message);
        }
    }

    /// `nginx.conf:12` for notes.
    pub(super) fn place(&self, directive: &Directive) -> String {
        let at = directive.words.first().map(|word| &word.at);
        at.map(|at| self.texts[directive.file].place(at))
            .unwrap_or_default()
    }

    fn with_includes(&mut self, directives: Vec<Directive>, depth: usize) -> Vec<Directive> {
        let mut expanded = Vec::new();
        for mut directive in directives {
            if directive.name() == "include" && directive.block.is_none() {
                expanded.extend(self.include(&directive, depth));
                continue;
            }
            directive.block = directive
                .block
                .map(|block| self.with_includes(block, depth));
            expanded.push(directive);
        }
        expanded
    }

    /// The statements of the files that an `include` names.
    fn include(&mut self, directive: &Directive, depth: usize) -> Vec<Directive> {
        let [pattern] = directive.arguments() else {
            let message = "include: expected one file name or pattern".to_owned();
            self.mistake(directive, None, message);
            return Vec::new();
        };
        if depth >= DEPTH_MAX {
            let message = format!("include: more than {DEPTH_MAX} files deep, perhaps in a circle");
            self.mistake(directive, Some(pattern), message);
            return Vec::new();
        }
        let is_pattern = pattern.text.contains(['*', '?']);
        let whole = self.base_dir.join(&pattern.text);
        let paths = if is_pattern {
            matching_files(&whole)
        } else {
            vec![whole]
        };
        let mut included = Vec::new();
        for path in paths {
            if self.texts.len() >= FILES_MAX {
                self.mistake(
                    directive,
                    Some(pattern),
                    "include: too many files".to_owned(),
                );
                break;
            }
            // Names are shown as they are written: from the directory of the first file.
            let name = path.strip_prefix(&self.base_dir).unwrap_or(&path);
            let name = name.display().to_string();
            // Reading a pipe could wait for ever.
            if path.exists() && !path.is_file() {
                let place = self.place(directive);
                self.unread
                    .push(format!("{place}: include {name}: is not a regular file"));
                continue;
            }
            match Source::read(&path) {
                Ok(source) => {
                    let index = self.texts.len();
                    self.texts.push(ForeignText::new(&name, &source.text));
                    let directives = parse(&mut self.texts[index], index);
                    included.extend(self.with_includes(directives, depth + 1));
                }
                Err(mistakes) => {
                    let place = self.place(directive);
                    let reasons = mistakes.iter().map(|mistake| mistake.message().to_owned());
                    let reason = reasons.collect::<Vec<_>>().join(", ");
                    self.unread
                        .push(format!("{place}: include {name}: {reason}"));
                }
            }
        }
        included
    }
}

/// The files that a pattern with `*` and `?` matches, in the order of their names.
fn matching_files(pattern: &Path) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::new()];
    for component in pattern.components() {
        let part = component.as_os_str().to_string_lossy();
        if !part.contains(['*', '?']) {
            found.iter_mut().for_each(|path| path.push(component));
            continue;
        }
        let mut next = Vec::new();
        for directory in &found {
            let here = if directory.as_os_str().is_empty() {
                Path::new(".")
            } else {
                directory
            };
            let names = std::fs::read_dir(here).into_iter().flatten().flatten();
            for name in names.map(|entry| entry.file_name()) {
                let shown = name.to_string_lossy();
                if !shown.starts_with('.') && fits(&part, &shown) {
                    next.push(directory.join(&name));
                }
            }
        }
        next.sort();
        found = next;
    }
    found.retain(|path| path.is_file());
    found
}

/// Returns true when a name fits a pattern: `*` is any text, `?` any letter. When the rest does not
/// fit, the last `*` takes one letter more.
fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut read) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while read < name.len() {
        match pattern.get(at) {
            Some('*') => {
                retry = Some((at, read));
                at += 1;
            }
            Some(letter) if *letter == '?' || *letter == name[read] => {
                at += 1;
                read += 1;
            }
            _ => match retry {
                Some((star, taken)) => {
                    (at, read) = (star + 1, taken + 1);
                    retry = Some((star, taken + 1));
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|letter| *letter == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_patterns() {
        for (pattern, name) in [
            ("*", "a"),
            ("*.conf", "a.conf"),
            ("a*b*c", "aXbYbZc"),
            ("site-?", "site-1"),
        ] {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("*.conf", "a.conf.bak"), ("?", ""), ("a*b", "a"), ("", "a")] {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
    }
}
