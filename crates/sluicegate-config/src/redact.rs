//! Redaction: passwords in the text of a file become stars before any of it is shown.
//!
//! It looks at lines and not at YAML or TOML, because the text that is shown is often one that could
//! not be parsed. It errs on the side of stars.

use std::borrow::Cow;

/// The text with stars in place of everything that looks like a password. Its length in bytes does
/// not change, so positions stay right.
pub(crate) fn redacted(text: &str) -> String {
    let mut rest = Rest::None;
    let line = |line| {
        let (line, next) = match rest.holds(line) {
            true => (starred(line, &[(0, line.len())]), rest.after(line)),
            false => redacted_line(line),
        };
        rest = next;
        line
    };
    text.split_inclusive('\n').map(line).collect()
}

/// The lines below a secret key that belong to its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    None,
    /// The lines that are indented deeper than the key: YAML's `password: |`.
    Deeper {
        indent: usize,
    },
    /// The next line, if it is indented deeper and is no key: YAML's `password:` with the value below.
    Below {
        indent: usize,
    },
    /// All lines up to one with these quotes.
    Until(&'static str),
}

impl Rest {
    /// Decides from the value behind a secret key, on a line with this indentation.
    fn of(value: &str, indent: usize) -> Self {
        let quotes = ["\"\"\"", "'''", "\"", "'"];
        let opening = quotes.into_iter().find(|quotes| value.starts_with(quotes));
        match (opening, value.chars().next()) {
            (Some(quotes), _) if !value[quotes.len()..].contains(quotes) => Self::Until(quotes),
            (Some(_), _) => Self::None,
            (None, Some('|' | '>')) => Self::Deeper { indent },
            (None, None | Some('#')) => Self::Below { indent },
            // Text without quotes goes on in deeper lines too.
            (None, Some(_)) => Self::Deeper { indent },
        }
    }

    fn holds(self, line: &str) -> bool {
        let is_deeper = |indent| line.trim().is_empty() || indent_of(line) > indent;
        match self {
            Self::None => false,
            Self::Deeper { indent } => is_deeper(indent),
            Self::Below { indent } => is_deeper(indent) && !looks_like_key(line),
            Self::Until(_) => true,
        }
    }

    /// What holds after a line that belonged to the value.
    fn after(self, line: &str) -> Self {
        match self {
            Self::Until(quotes) if line.contains(quotes) => Self::None,
            // The first line of the value says how it goes on.
            Self::Below { indent } if !line.trim().is_empty() => Self::of(line.trim(), indent),
            rest => rest,
        }
    }
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Returns true for `key:`, `key: value` and `- item`.
fn looks_like_key(line: &str) -> bool {
    let line = line.trim();
    line.contains(": ") || line.ends_with(':') || line.starts_with("- ")
}

/// One line with its secrets as stars, and what follows from it for the lines below.
fn redacted_line(line: &str) -> (Cow<'_, str>, Rest) {
    let after_key = after_secret_key(line);
    let rest = match after_key {
        Some((start, end)) => Rest::of(line[start..end].trim(), indent_of(line)),
        None => Rest::None,
    };
    let secrets: Vec<(usize, usize)> = after_key.into_iter().chain(user_of_url(line)).collect();
    (starred(line, &secrets), rest)
}

/// A line with stars in these places. A character becomes as many stars as it has bytes, so that
/// positions stay right.
fn starred<'a>(line: &'a str, secrets: &[(usize, usize)]) -> Cow<'a, str> {
    if secrets.is_empty() {
        return Cow::Borrowed(line);
    }
    let star = |(at, letter): (usize, char)| match secrets
        .iter()
        .any(|(start, end)| (*start..*end).contains(&at))
    {
        true if !letter.is_whitespace() => "*".repeat(letter.len_utf8()),
        _ => letter.to_string(),
    };
    line.char_indices().map(star).collect()
}

/// The rest of the line after a key such as `password:` or `password =`. Keys that only name the
/// place of a secret, such as `password_file:`, are left alone.
fn after_secret_key(line: &str) -> Option<(usize, usize)> {
    const WORDS: [&str; 4] = ["passw", "secret", "token", "credential"];
    let lower = line.to_ascii_lowercase();
    let key_of = |(at, _): (usize, &str)| {
        let end = at + lower[at..].find([':', '='])?;
        let key = lower[at..end].trim_end_matches(['"', '\'', ' ']);
        // In `{ algorithm: token_bucket, burst: 1 }` the word is a value.
        let is_place = key.ends_with("_file") || key.ends_with("_env");
        (!is_place && !key.contains([',', '}', ']'])).then_some((end + 1, line.len()))
    };
    WORDS
        .iter()
        .flat_map(|word| lower.match_indices(word))
        .filter_map(key_of)
        .min()
}

/// The user and password of a URL: the text between `://` and the last `@`.
fn user_of_url(line: &str) -> Option<(usize, usize)> {
    let start = line.find("://")? + 3;
    let end = start + line[start..].rfind('@')?;
    Some((start, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_stars_and_everything_else_stays_in_its_place() {
        for (line, shown) in [
            ("  password: hunter2 # old\n", "  password: ******* * ***\n"),
            (
                "{ \"password\": \"hünter\", burst: 1 }",
                "{ \"password\": ********** ****** * *",
            ),
            ("  Passwrod: x\n", "  Passwrod: *\n"),
            ("  password_file: redis.pw\n", "  password_file: redis.pw\n"),
            (
                "  password_env: REDIS_PASSWORD\n",
                "  password_env: REDIS_PASSWORD\n",
            ),
            (
                "  url: redis://ann:p@ss@rl-0:6379\n",
                "  url: redis://********@rl-0:6379\n",
            ),
            (
                "store.redis.password = \"hunter2\"\n",
                "store.redis.password = *********\n",
            ),
            ("redis = { Password= 'x' }\n", "redis = { Password= *** *\n"),
            (
                "password_file = \"redis.pw\"\n",
                "password_file = \"redis.pw\"\n",
            ),
            (
                "{ algorithm: token_bucket, burst: 1 }",
                "{ algorithm: token_bucket, burst: 1 }",
            ),
            ("  rate: 10/s\r\n", "  rate: 10/s\r\n"),
        ] {
            assert_eq!(redacted(line), shown);
            assert_eq!(redacted(line).len(), line.len());
        }
    }

    /// The passwords are three letters, which nothing else in the texts has.
    #[test]
    fn passwords_on_the_lines_below_their_key_are_stars_too() {
        for text in [
            "redis:\n  password: |\n    xyz\n\n    xyz: xyz\n  url: a\n",
            "redis:\n  password: >-\n    xyz\n  url: a\n",
            "redis:\n  password:\n    xyz\n    xyz\n  url: a\n",
            "redis:\n  password: # old\n    'xyz\n xyz'\n  url: a\n",
            "redis:\n  password: xyz\n    xyz\n  url: a\n",
            "redis:\n  password: \"xyz\n    xyz\"\n  url: a\n",
            "[redis]\npassword = \"\"\"\nxyz\nxyz\"\"\"\nurl = \"a\"\n",
            "[redis]\npassword = '''xyz\nxyz = xyz'''\nurl = \"a\"\n",
        ] {
            let shown = redacted(text);
            assert!(!shown.contains("xyz"), "{shown}");
            assert!(
                shown.contains("\n  url: a\n") || shown.contains("\nurl = \"a\"\n"),
                "{shown}"
            );
            assert_eq!(shown.len(), text.len());
        }
        let section = "credentials:\n  file: a.pem\n";
        assert_eq!(redacted(section), section);
    }
}
