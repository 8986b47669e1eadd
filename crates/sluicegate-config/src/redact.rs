//! Redaction: passwords in the text of a file become stars before any of it is shown.
//!
//! It looks at lines and not at YAML, because the text that is shown is often one that could not be
//! parsed. It errs on the side of stars.

use std::borrow::Cow;

/// The text with stars in place of everything that looks like a password. Its length in bytes does
/// not change, so positions stay right.
pub(crate) fn redacted(text: &str) -> String {
    text.split_inclusive('\n').map(redacted_line).collect()
}

/// One line with its secrets as stars.
fn redacted_line(line: &str) -> Cow<'_, str> {
    let secrets: Vec<(usize, usize)> = after_secret_key(line)
        .into_iter()
        .chain(user_of_url(line))
        .collect();
    if secrets.is_empty() {
        return Cow::Borrowed(line);
    }
    // A character becomes as many stars as it has bytes, so that positions stay right.
    let starred = |(at, letter): (usize, char)| match secrets
        .iter()
        .any(|(start, end)| (*start..*end).contains(&at))
    {
        true if !letter.is_whitespace() => "*".repeat(letter.len_utf8()),
        _ => letter.to_string(),
    };
    line.char_indices().map(starred).collect()
}

/// The rest of the line after a key such as `password:`. Keys that only name the place of a secret,
/// such as `password_file:`, are left alone.
fn after_secret_key(line: &str) -> Option<(usize, usize)> {
    const WORDS: [&str; 4] = ["passw", "secret", "token", "credential"];
    let lower = line.to_ascii_lowercase();
    let key_of = |(at, _): (usize, &str)| {
        let colon = at + lower[at..].find(':')?;
        let key = lower[at..colon].trim_end_matches(['"', '\'', ' ']);
        (!key.ends_with("_file") && !key.ends_with("_env")).then_some((colon + 1, line.len()))
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
            ("  rate: 10/s\r\n", "  rate: 10/s\r\n"),
        ] {
            assert_eq!(redacted(line), shown);
            assert_eq!(redacted(line).len(), line.len());
        }
    }
}
