//! Regular expressions on paths that a list of paths can express.

/// The paths that a simple regular expression begins with: `^/(login|register)$`. `None` for any
/// that is not simple.
pub(super) fn regex_paths(regex: &str) -> Option<Vec<String>> {
    const ENDS: [&str; 11] = [
        "(/.*)?$", "(/|$)", "(?:/|$)", "/?$", "/.*$", "(.*)$", ".*$", "/.*", "(.*)", ".*", "$",
    ];
    let mut rest = regex.strip_prefix('^')?;
    while let Some(shorter) = ENDS.iter().find_map(|end| rest.strip_suffix(end)) {
        rest = shorter;
    }
    let Some((before, group)) = rest.split_once('(') else {
        return Some(vec![literal(rest)?]);
    };
    let (group, after) = group.split_once(')')?;
    let before = literal(before)?;
    let after = literal(after)?;
    let group = group.strip_prefix("?:").unwrap_or(group);
    group
        .split('|')
        .map(|part| Some(format!("{before}{}{after}", literal(part)?)))
        .collect()
}

/// The text that a part of a regular expression stands for, if it has no operators.
fn literal(part: &str) -> Option<String> {
    let mut text = String::new();
    let mut letters = part.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next()? {
                escaped if escaped.is_ascii_alphanumeric() => return None,
                escaped => text.push(escaped),
            },
            '.' | '*' | '+' | '?' | '[' | ']' | '{' | '}' | '(' | ')' | '|' | '^' | '$' => {
                return None;
            }
            other => text.push(other),
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simple_regular_expressions_are_paths() {
        for (regex, paths) in [
            ("^/api/", Some(vec!["/api/"])),
            ("^/(login|register)$", Some(vec!["/login", "/register"])),
            ("^/v1/(?:a|b)/c/?$", Some(vec!["/v1/a/c", "/v1/b/c"])),
            (r"^/wp\-login\.php$", Some(vec!["/wp-login.php"])),
            (r"\.php$", None),
            ("^/[a-z]+/x", None),
            (r"^/\d+", None),
            ("^/api(/|$)(.*)", Some(vec!["/api"])),
            ("^/a((b))", None),
        ] {
            let paths = paths.map(|paths| paths.iter().map(ToString::to_string).collect());
            assert_eq!(regex_paths(regex), paths, "{regex}");
        }
    }
}
