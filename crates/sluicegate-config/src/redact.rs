//! Redaction: secrets in the text of a file become stars before any of it is shown.
//!
//! It looks at lines and not at YAML or TOML, because the text that is shown is often one that could
//! not be parsed. It errs on the side of stars. Secret are the values of keys and headers whose names say
//! so, users and passwords in URLs, and parameters of URLs that look like credentials.

use std::ops::Range;

use crate::secret_names::{is_secret_header, is_secret_parameter};

/// The text with stars in place of everything that looks like a secret. Its length in bytes does
/// not change, so positions stay right.
pub(crate) fn redacted(text: &str) -> String {
    let mut hidden = Hidden::Nothing;
    let mut shown = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        if hidden.holds(line) {
            let whole = 0..line.len();
            push_starred(&mut shown, line, std::slice::from_ref(&whole));
            hidden = hidden.after(line);
            continue;
        }
        let secret_key = secret_key(line);
        hidden = secret_key.as_ref().map_or(Hidden::Nothing, |key| {
            Hidden::of(line[key.value_start..].trim(), key.column)
        });
        let value = secret_key.map(|key| key.value_start..line.len());
        let secrets: Vec<_> = value.into_iter().chain(secrets_of_urls(line)).collect();
        push_starred(&mut shown, line, &secrets);
    }
    shown
}

/// The lines below a secret key that belong to its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hidden {
    Nothing,
    /// The lines that are indented further than the key at this column.
    Deeper(usize),
    /// The same, unless the line is another key: then the secret key is a section.
    Below(usize),
    /// All lines up to one with these quotes.
    Until(&'static str),
}

impl Hidden {
    /// Decides from the value behind a secret key.
    fn of(value: &str, key_column: usize) -> Self {
        let quotes = ["\"\"\"", "'''", "\"", "'"];
        let opening = quotes.into_iter().find(|quotes| value.starts_with(quotes));
        match opening {
            Some(quotes) if !value[quotes.len()..].contains(quotes) => Self::Until(quotes),
            None if value.is_empty() || value.starts_with('#') => Self::Below(key_column),
            _ => Self::Deeper(key_column),
        }
    }

    fn holds(self, line: &str) -> bool {
        match self {
            Self::Nothing => false,
            Self::Deeper(key_column) => is_below(line, key_column),
            Self::Below(key_column) => is_below(line, key_column) && !looks_like_key(line),
            Self::Until(_) => true,
        }
    }

    /// What holds after a line that belonged to the value.
    fn after(self, line: &str) -> Self {
        match self {
            Self::Until(quotes) if line.contains(quotes) => Self::Nothing,
            // The first line of the value says how it goes on.
            Self::Below(key_column) if !line.trim().is_empty() => Self::of(line.trim(), key_column),
            same => same,
        }
    }
}

/// Returns true for `key:` and `key: value`.
fn looks_like_key(line: &str) -> bool {
    let line = line.trim();
    !line.starts_with(['-', '"', '\'']) && (line.contains(": ") || line.ends_with(':'))
}

/// A URL as it may be shown: the values of parameters that look like secrets are three stars.
pub(crate) fn shown_url(url: &str) -> String {
    let Some((before, query)) = url.split_once('?') else {
        return url.to_owned();
    };
    let parameters = query
        .split('&')
        .map(|parameter| match parameter.split_once('=') {
            Some((name, value)) if is_secret_parameter(name, value) => format!("{name}=***"),
            _ => parameter.to_owned(),
        });
    format!("{before}?{}", parameters.collect::<Vec<_>>().join("&"))
}

/// A condition on a header as it may be shown.
pub(crate) fn shown_header(name: &str, value: &str) -> String {
    match is_secret_header(name) {
        true => format!("{name}: ***"),
        false => format!("{name}: {value}"),
    }
}

/// Appends a line; each letter in one of the ranges becomes as many stars as it has bytes.
fn push_starred(shown: &mut String, line: &str, secrets: &[Range<usize>]) {
    let mut is_secret = vec![false; line.len()];
    for secret in secrets {
        is_secret[secret.clone()].fill(true);
    }
    for (at, letter) in line.char_indices() {
        match is_secret[at] && !letter.is_whitespace() {
            true => shown.extend(std::iter::repeat_n('*', letter.len_utf8())),
            false => shown.push(letter),
        }
    }
}

/// A key such as `password:` in a line.
struct SecretKey {
    /// Where it begins.
    column: usize,
    /// Where the rest of the line begins, which is its value.
    value_start: usize,
}

/// The first key of the line whose value is a secret. Keys that only name the place of a secret,
/// such as `password_file:`, are left alone.
fn secret_key(line: &str) -> Option<SecretKey> {
    let is_letter = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.');
    // A `=` in a URL belongs to a parameter. The line is walked once, because it may be very long.
    let mut is_in_url = false;
    for (at, letter) in line.char_indices() {
        match letter {
            ' ' | '\t' | '"' | '\'' => is_in_url = false,
            ':' if line[at..].starts_with("://") => is_in_url = true,
            _ => {}
        }
        if letter != ':' && (letter != '=' || is_in_url) {
            continue;
        }
        let before = line[..at].trim_end().trim_end_matches(['"', '\'']);
        let column = before.rfind(|letter| !is_letter(letter)).map_or(0, |end| {
            end + before[end..].chars().next().map_or(0, char::len_utf8)
        });
        if is_secret_key(&before[column..], line[at + 1..].trim_start()) {
            return Some(SecretKey {
                column,
                value_start: at + 1,
            });
        }
    }
    None
}

fn is_secret_key(key: &str, value: &str) -> bool {
    const WORDS: [&str; 4] = ["passw", "secret", "token", "credential"];
    let key = key.to_ascii_lowercase();
    let names_a_place = key.ends_with("_file") || key.ends_with("_env");
    // Sections and settings of ours, which hold no secrets.
    let is_ours = match key.as_str() {
        "jwt" => value.is_empty() || value.starts_with(['{', '#']),
        "credentials" => value.starts_with("verify_all") || value.starts_with("strip_unverified"),
        _ => false,
    };
    let is_secret = WORDS.iter().any(|word| key.contains(word)) || is_secret_header(&key);
    is_secret && !names_a_place && !is_ours
}

/// Returns true for a line that belongs to the value of a key in an earlier line: it is blank, or
/// indented further, or an item of a list below the key.
fn is_below(line: &str, key_column: usize) -> bool {
    let text = line.trim_start();
    let column = line.len() - text.len();
    text.is_empty() || column > key_column || column == key_column && text.starts_with("- ")
}

/// The secrets of all URLs in a line: everything from the first `://` to the last `@`, which
/// includes users and passwords, and the values of parameters.
fn secrets_of_urls(line: &str) -> Vec<Range<usize>> {
    let mut secrets = Vec::new();
    if let (Some(start), Some(end)) = (line.find("://"), line.rfind('@'))
        && start + 3 <= end
    {
        secrets.push(start + 3..end);
    }
    let mut url_end = 0;
    for (at, mark) in line.match_indices("://") {
        let start = at + mark.len();
        if start < url_end {
            continue;
        }
        let url = &line[start..];
        let end = url
            .find([' ', '\t', '\r', '\n', '"', '\'', '}', ']'])
            .unwrap_or(url.len());
        url_end = start + end;
        let Some(query) = url[..end].find('?') else {
            continue;
        };
        let mut parameter_start = start + query + 1;
        for parameter in url[query + 1..end].split('&') {
            if let Some((name, value)) = parameter.split_once('=')
                && is_secret_parameter(name, value)
            {
                let value_start = parameter_start + name.len() + 1;
                secrets.push(value_start..value_start + value.len());
            }
            parameter_start += parameter.len() + 1;
        }
    }
    secrets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn is_shown(text: &str, shown: &str) {
        assert_eq!(redacted(text), shown);
        assert_eq!(redacted(text).len(), text.len());
    }

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
            ("password = \"hunter2\"\n", "password = *********\n"),
            ("{ password=\"a\" }", "{ password=*** *"),
        ] {
            is_shown(line, shown);
        }
    }

    #[test]
    fn values_of_secret_headers_are_stars() {
        for (line, shown) in [
            (
                "match: { headers: { x-api-key: hunter2 } }",
                "match: { headers: { x-api-key: ******* * *",
            ),
            ("  Authorization: Bearer x\n", "  Authorization: ****** *\n"),
            ("  \"X-Vault-Token\" : s.x\n", "  \"X-Vault-Token\" : ***\n"),
            ("  cookie: 'a=b'\n", "  cookie: *****\n"),
            ("  headers: { jwt: abc }\n", "  headers: { jwt: *** *\n"),
            ("  X-Gitlab-Token: glpat\n", "  X-Gitlab-Token: *****\n"),
            ("  x-session-token: abc\n", "  x-session-token: ***\n"),
            ("  x-goog-api-key: abc\n", "  x-goog-api-key: ***\n"),
            (
                "  X-Forwarded-Access-Token: abc\n",
                "  X-Forwarded-Access-Token: ***\n",
            ),
            (
                "  Cf-Access-Jwt-Assertion: abc\n",
                "  Cf-Access-Jwt-Assertion: ***\n",
            ),
            ("  X_Vault_Token: abc\n", "  X_Vault_Token: ***\n"),
        ] {
            is_shown(line, shown);
        }
        for line in [
            "  headers: { x-plan: gold }\n",
            "  api_keys: { header: X-Api-Key, file: keys.yaml }\n",
            "  jwt: { header: Authorization, jwks_file: jwks.json }\n",
            "  jwt:\n    issuer: a\n",
            "  credentials: strip_unverified\n",
            "  - { name: a, key: \"header:X-Tenant\", algorithm: token_bucket, rate: 1/s }\n",
            "  admin: { token_file: admin.token }\n",
        ] {
            is_shown(line, line);
        }
    }

    #[test]
    fn parameters_of_urls_that_look_like_secrets_are_stars() {
        for (line, shown) in [
            (
                "url: https://a/b?v=1&api_key=hunter2&format=json\n",
                "url: https://a/b?v=1&api_key=*******&format=json\n",
            ),
            (
                "{ url: \"http://a?token=x\", other: \"http://b?sig=y&z=1\" }\n",
                "{ url: \"http://a?token=*\", other: \"http://b?sig=*&z=1\" }\n",
            ),
            (
                "url: http://a?v=9f86d081884c7d659a2f\n",
                "url: http://a?v=********************\n",
            ),
            ("url: http://a?password=x1\n", "url: http://a?password=**\n"),
            ("url: http://a?PWD=x1\n", "url: http://a?PWD=**\n"),
            ("url: http://a?access=x1\n", "url: http://a?access=**\n"),
            (
                "url: http://a?client_secret=x1\n",
                "url: http://a?client_secret=**\n",
            ),
            (
                "url: http://a?Signature=x1\n",
                "url: http://a?Signature=**\n",
            ),
            ("url: http://a?jwt=x1&v=2\n", "url: http://a?jwt=**&v=2\n"),
            ("url: http://a?v=2&auth=x1\n", "url: http://a?v=2&auth=**\n"),
            (
                "url: http://a?sessionid=x1\n",
                "url: http://a?sessionid=**\n",
            ),
        ] {
            is_shown(line, shown);
        }
        assert_eq!(
            shown_url("https://a/b?v=1&api_key=hunter2&x"),
            "https://a/b?v=1&api_key=***&x"
        );
        assert_eq!(shown_url("https://a/b"), "https://a/b");
    }

    #[test]
    fn a_secret_over_several_lines_is_hidden_to_its_end() {
        is_shown(
            "a:\n  password: |\n    hunter2\n\n    more\n  rate: 1/s\n",
            "a:\n  password: *\n    *******\n\n    ****\n  rate: 1/s\n",
        );
        is_shown(
            "headers:\n  authorization:\n  - Bearer x\n  x-plan: gold\n",
            "headers:\n  authorization:\n  * ****** *\n  x-plan: gold\n",
        );
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
