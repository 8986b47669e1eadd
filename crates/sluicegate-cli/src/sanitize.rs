//! Makes text from callers safe to print: a key is whatever a client sent, and a terminal obeys escape
//! sequences.

/// Writes every invisible character as `\u{…}`: control characters, characters that reverse the direction
/// of the line, and characters without width.
pub fn sanitize(text: &str) -> String {
    let escape = |character: char| {
        let is_invisible = character.is_control()
            || matches!(character, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}');
        if is_invisible {
            character.escape_unicode().to_string()
        } else {
            character.to_string()
        }
    };
    text.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_act_on_a_terminal_is_spelled_out() {
        assert_eq!(
            sanitize("per-client:203.0.113.7 ü ✓"),
            "per-client:203.0.113.7 ü ✓"
        );
        assert_eq!(
            sanitize("\u{1b}]0;x\u{7}\r\n\u{9b}2J"),
            "\\u{1b}]0;x\\u{7}\\u{d}\\u{a}\\u{9b}2J"
        );
        assert_eq!(sanitize("a\u{202e}b\u{200b}"), "a\\u{202e}b\\u{200b}");
    }
}
