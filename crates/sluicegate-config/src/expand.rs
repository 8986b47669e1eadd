//! References inside values: `${NAME}`, `${NAME:-default}` and `${file:path}`.
//!
//! Expansion happens once: a `${…}` in an expanded value is text, so the environment cannot name
//! files to read. Both the single value and the sum of all are bounded.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::message_text::quoted;
use crate::typed::ValueFile;

/// The origin of a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    /// True when the value contained a `${…}`: then a number may come as text.
    pub(crate) expanded: bool,
    /// The words that messages use instead of a value from outside.
    pub(crate) hidden: Option<&'static str>,
    /// The reference, when it was the whole value. Passwords must be given like this.
    pub(crate) whole: Option<Reference>,
}

/// The target of a `${…}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reference {
    /// A variable of the environment.
    Env(String),
    /// The first line of a file.
    File(PathBuf),
}

/// Fills in references, and counts the bytes that it has filled in.
pub(crate) struct Expander<'a> {
    env: &'a dyn Fn(&str) -> Option<String>,
    base_dir: &'a Path,
    /// Bytes that may still be filled in: a small file must not become a large one.
    left: usize,
    /// The files that values were filled in from, with the keys of those values.
    pub(crate) files: Vec<ValueFile>,
}

/// Messages show these words instead of values from outside.
const HIDDEN_ENV: &str = "value from the environment";
const HIDDEN_FILE: &str = "value from a file";

impl<'a> Expander<'a> {
    /// The longest value from outside, in bytes.
    const ONE_MAX: usize = 64 << 10;
    /// All values from outside together, in bytes.
    const ALL_MAX: usize = 4 << 20;

    pub(crate) fn new(env: &'a dyn Fn(&str) -> Option<String>, base_dir: &'a Path) -> Self {
        Self {
            env,
            base_dir,
            left: Self::ALL_MAX,
            files: Vec::new(),
        }
    }

    /// The text with its references filled in, or the reason why that is impossible. `$${` stands
    /// for `${`. `place` is the key of the text.
    pub(crate) fn expand(&mut self, text: String, place: &str) -> Result<(String, Origin), String> {
        if !text.contains("${") {
            return Ok((text, Origin::default()));
        }
        let mut origin = Origin {
            expanded: true,
            ..Origin::default()
        };
        let mut expanded = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some(start) = rest.find("${") {
            let (before, reference) = rest.split_at(start);
            if let Some(before) = before.strip_suffix('$') {
                expanded.push_str(before);
                expanded.push_str("${");
                rest = &reference[2..];
                continue;
            }
            expanded.push_str(before);
            let Some(end) = reference.find('}') else {
                return Err("expected a } after ${; write $${ for ${ itself".to_owned());
            };
            let inside = &reference[2..end];
            rest = &reference[end + 1..];
            let filled = self.fill(inside)?;
            if let Some(Reference::File(path)) = &filled.reference {
                self.files.push(ValueFile {
                    place: place.to_owned(),
                    path: path.clone(),
                });
            }
            origin.hidden = filled.hidden.or(origin.hidden);
            origin.whole = filled
                .reference
                .filter(|_| reference.len() == text.len() && rest.is_empty());
            expanded.push_str(&filled.text);
        }
        expanded.push_str(rest);
        Ok((expanded, origin))
    }

    /// The value of one reference, counted against the sum.
    fn fill(&mut self, inside: &str) -> Result<Filled, String> {
        let filled = match inside.strip_prefix("file:") {
            Some(path) => self.first_line(path)?,
            None => self.variable(inside)?,
        };
        self.left = self
            .left
            .checked_sub(filled.text.len())
            .ok_or("values from the environment and from files exceed 4 MiB in total")?;
        Ok(filled)
    }

    /// The value of `NAME` or `NAME:-default`.
    fn variable(&self, inside: &str) -> Result<Filled, String> {
        let (name, default) = inside
            .split_once(":-")
            .map_or((inside, None), |(name, text)| (name, Some(text)));
        let is_name = |name: &str| {
            name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        if !is_name(name) {
            let expected = "expected ${NAME}, ${NAME:-default} or ${file:path}";
            return Err(format!(
                "{expected} (got {})",
                quoted(&format!("${{{inside}}}"))
            ));
        }
        // As in a shell: where there is a default, it also replaces an empty variable.
        let value = (self.env)(name).filter(|value| !value.is_empty() || default.is_none());
        match (value, default) {
            (Some(value), _) if value.len() > Self::ONE_MAX => {
                Err(format!("{name} is longer than 64 KiB"))
            }
            (Some(text), _) => {
                let reference = Some(Reference::Env(name.to_owned()));
                Ok(Filled {
                    text,
                    hidden: Some(HIDDEN_ENV),
                    reference,
                })
            }
            (None, Some(default)) => Ok(Filled {
                text: default.to_owned(),
                hidden: None,
                reference: None,
            }),
            (None, None) => Err(format!(
                "there is no variable {name} in the environment; ${{{name}:-default}} gives it a default"
            )),
        }
    }

    /// The first line of a file, whose name is relative to the configuration's directory.
    fn first_line(&self, path: &str) -> Result<Filled, String> {
        let whole = self.base_dir.join(path);
        let line = read_first_line(&whole, Self::ONE_MAX);
        let text = line.map_err(|error| format!("cannot read {}: {error}", quoted(path)))?;
        Ok(Filled {
            text,
            hidden: Some(HIDDEN_FILE),
            reference: Some(Reference::File(whole)),
        })
    }
}

/// The value of one reference.
struct Filled {
    text: String,
    /// The words for messages; `None` for a default, which is in the file anyway.
    hidden: Option<&'static str>,
    /// Where the value came from; `None` for a default.
    reference: Option<Reference>,
}

/// The first line of a regular file, without its line end.
fn read_first_line(path: &Path, length_max: usize) -> io::Result<String> {
    // Reading a pipe or a device could block for ever.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?
        .take(length_max as u64 + 1)
        .read_to_end(&mut bytes)?;
    let line = bytes
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    if line.len() > length_max {
        return Err(io::Error::other("its first line is longer than 64 KiB"));
    }
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    // The line is not part of the message: it may be a secret.
    String::from_utf8(line.to_vec()).map_err(|_| io::Error::other("its first line is not UTF-8"))
}
