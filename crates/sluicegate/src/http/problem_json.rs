//! Problem details in JSON (RFC 9457), member by member.
//!
//! A rejection under attack is the most frequent response of all, so its body is written straight
//! into one string, without a tree of values. The library needs no JSON dependency for it.

/// A JSON object under construction. Members come out in the order in which they are added.
pub(super) struct ProblemJson(String);

impl ProblemJson {
    /// The three members that every problem has. `problem_type` is the URI in `type`.
    pub(super) fn new(problem_type: &str, title: &str, status: u16) -> Self {
        let mut problem = Self("{".to_owned());
        problem.text("type", problem_type);
        problem.text("title", title);
        problem.number("status", status.into());
        problem
    }

    /// Adds a member that is a string.
    pub(super) fn text(&mut self, name: &str, value: &str) {
        self.name(name);
        self.string(value);
    }

    /// Adds a member that is a number.
    pub(super) fn number(&mut self, name: &str, value: u64) {
        self.name(name);
        self.0.push_str(&value.to_string());
    }

    /// Adds a member that is an array of strings.
    pub(super) fn texts<'a>(&mut self, name: &str, values: impl Iterator<Item = &'a str>) {
        self.name(name);
        self.0.push('[');
        for (index, value) in values.enumerate() {
            if index > 0 {
                self.0.push(',');
            }
            self.string(value);
        }
        self.0.push(']');
    }

    /// The whole object.
    pub(super) fn finish(mut self) -> String {
        self.0.push('}');
        self.0
    }

    fn name(&mut self, name: &str) {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        self.string(name);
        self.0.push(':');
    }

    /// Writes a string. RFC 8259 asks to escape the quote, the backslash and control characters;
    /// everything else may stand as it is.
    fn string(&mut self, text: &str) {
        self.0.push('"');
        for letter in text.chars() {
            match letter {
                '"' | '\\' => self.0.extend(['\\', letter]),
                '\0'..' ' => self.0.push_str(&format!("\\u{:04x}", u32::from(letter))),
                _ => self.0.push(letter),
            }
        }
        self.0.push('"');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_letter_survives_a_json_string() {
        let text: String = ('\0'..'\u{300}').collect();
        let mut problem = ProblemJson(String::new());
        problem.string(&text);
        assert_eq!(serde_json::from_str::<String>(&problem.0).unwrap(), text);
    }
}
