//! Cookies, in one reading.
//!
//! Cookies are read from all `Cookie` lines; HTTP/2 clients may send each cookie in a line of its
//! own. Lines are split at `;`, a name ends at its first `=`, and blanks around both do not count.
//! A value in double quotes is the same as without them. A cookie names a caller only if every
//! server reads the same value: a name that occurs twice, or a value with a comma, a quote or a
//! backslash in it, has none.

use crate::missing_key::MissingReason;
use crate::subject::Headers;

/// The value of the cookie `name`, or the reason why there is none.
pub(crate) fn cookie<'a>(
    headers: &'a (impl Headers + ?Sized),
    name: &str,
) -> Result<&'a [u8], MissingReason> {
    let mut found = Err(MissingReason::Missing);
    headers.each_line("cookie", &mut |line| {
        for pair in line.split(|byte| *byte == b';') {
            let end = pair.iter().position(|byte| *byte == b'=');
            let (own, value) = match end {
                Some(end) => (&pair[..end], &pair[end + 1..]),
                // Some servers read it as a cookie without a value, so it counts as one.
                None => (pair, &b""[..]),
            };
            if own.trim_ascii() != name.as_bytes() {
                continue;
            }
            found = match found {
                Err(MissingReason::Missing) => Ok(value.trim_ascii()),
                _ => Err(MissingReason::Repeated),
            };
        }
    });
    found.and_then(checked)
}

/// The value without its quotes, if every server reads it like that.
fn checked(value: &[u8]) -> Result<&[u8], MissingReason> {
    let value = match value {
        [b'"', inner @ .., b'"'] => inner.trim_ascii(),
        bare => bare,
    };
    if value.is_empty() {
        return Err(MissingReason::Empty);
    }
    if value.len() > MissingReason::VALUE_MAX {
        return Err(MissingReason::TooLong);
    }
    if !value.iter().all(|byte| matches!(byte, b' '..=b'~')) {
        return Err(MissingReason::NotText);
    }
    match value.iter().any(|byte| b"\",\\".contains(byte)) {
        true => Err(MissingReason::Ambiguous),
        false => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sid(lines: &[&str]) -> Result<String, MissingReason> {
        let headers: Vec<(&str, &str)> = lines.iter().map(|line| ("Cookie", *line)).collect();
        let value = cookie(&headers[..], "sid").map(<[u8]>::to_vec);
        value.map(|value| String::from_utf8(value).unwrap())
    }

    #[test]
    fn cookies_are_found_in_all_lines_and_between_others() {
        for lines in [
            &["sid=a7"][..],
            &["a=1; sid=a7; b=2"],
            &["a=1;sid=a7"],
            &["a=1", "sid=a7", "b=2"],
            &["sid = a7 "],
            &["sid=\"a7\""],
            &["sid=a7;"],
            &["; ;sid=a7"],
            &["Sid=x; sidx=y; xsid=z; sid=a7"],
        ] {
            assert_eq!(sid(lines).as_deref(), Ok("a7"), "{lines:?}");
        }
        assert_eq!(sid(&["sid=a=b=="]).as_deref(), Ok("a=b=="));
    }

    #[test]
    fn a_cookie_that_servers_read_differently_is_none() {
        for (lines, expected) in [
            (&["a=1"][..], MissingReason::Missing),
            (&[], MissingReason::Missing),
            (&["a=1, sid=a7"], MissingReason::Missing),
            (&["sid="], MissingReason::Empty),
            (&["sid"], MissingReason::Empty),
            (&["sid=\"\""], MissingReason::Empty),
            (&["sid=a; sid=b"], MissingReason::Repeated),
            (&["sid=a", "sid=a"], MissingReason::Repeated),
            (&["sid=a", "sid"], MissingReason::Repeated),
            (&["sid=a", "sid=b", "sid=c"], MissingReason::Repeated),
            (&["sid=a, sid=b"], MissingReason::Ambiguous),
            (&["sid=\"a;b\""], MissingReason::Ambiguous),
            (&["sid=\"a"], MissingReason::Ambiguous),
            (&["sid=a\\b"], MissingReason::Ambiguous),
            (&["sid=\u{e9}"], MissingReason::NotText),
            (&["sid=a\tb"], MissingReason::NotText),
        ] {
            assert_eq!(sid(lines), Err(expected), "{lines:?}");
        }
        let long = format!("sid={}", "a".repeat(MissingReason::VALUE_MAX + 1));
        assert_eq!(sid(&[&long]), Err(MissingReason::TooLong));
    }
}
