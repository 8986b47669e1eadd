//! The result of a check for programs: JSON, and workflow commands of GitHub Actions.

use serde_json::{Value, json};
use sluicegate_config::{Config, Mistake, Mistakes};

use crate::sanitize::sanitize;

/// A configuration without mistakes.
pub struct CheckedConfig {
    pub config: Config,
    /// What was not checked about it.
    pub unchecked: Vec<String>,
    /// What should be changed about its files.
    pub warnings: Vec<String>,
}

impl CheckedConfig {
    /// What it enforces and what was not checked, one line each whatever its values hold.
    pub fn sentences(&self) -> impl Iterator<Item = String> {
        self.words().into_iter().map(|sentence| sanitize(&sentence))
    }

    fn words(&self) -> Vec<String> {
        let enforced = self.config.in_words().into_iter();
        enforced.chain(self.unchecked.iter().cloned()).collect()
    }
}

/// `{ ok, file, sentences, warnings, mistakes }`
pub fn json(file: &str, read: Result<&CheckedConfig, &Mistakes>) -> Value {
    let warnings = read.map_or(&[][..], |checked| &checked.warnings);
    json!({
        "ok": read.is_ok(),
        "file": file,
        "sentences": read.map_or_else(|_| Vec::new(), CheckedConfig::words),
        "warnings": warnings,
        "mistakes": read.err().map(mistakes_as_json).unwrap_or_default(),
    })
}

/// Each mistake with its place: file, line, column, key and message.
pub fn mistakes_as_json(mistakes: &Mistakes) -> Vec<Value> {
    let one = |mistake: &Mistake| {
        let (line, column) = mistake.place().unzip();
        json!({
            "file": mistakes.source_name(),
            "line": line,
            "column": column,
            "key": mistake.path(),
            "message": mistake.message(),
        })
    };
    mistakes.iter().map(one).collect()
}

/// One line for each mistake: `::error file=a.yaml,line=3,col=21::proxy.listen: …`.
pub fn github(mistakes: &Mistakes) -> String {
    let file = escaped_property(mistakes.source_name());
    let one = |mistake: &Mistake| {
        let place = mistake
            .place()
            .map(|(line, column)| format!(",line={line},col={column}"))
            .unwrap_or_default();
        let message = escaped(&mistake.to_string());
        format!("::error file={file}{place}::{message}\n")
    };
    mistakes.iter().map(one).collect()
}

/// One line for each warning: `::warning::proxy.tls.key: …`.
pub fn github_warnings(warnings: &[String]) -> String {
    let one = |warning: &String| format!("::warning::{}\n", escaped(warning));
    warnings.iter().map(one).collect()
}

/// The text of a workflow command: line ends would end it.
fn escaped(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

/// A property of a workflow command: colons and commas would end it too.
fn escaped_property(text: &str) -> String {
    escaped(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use sluicegate_config::{Source, load};

    use super::*;

    fn mistakes(name: &str, text: &str) -> Mistakes {
        let source = Source {
            name: name.to_owned(),
            text: text.to_owned(),
            ..Source::embedded()
        };
        load(&source, &|_| None).err().unwrap()
    }

    #[test]
    fn workflow_commands_are_one_line_each_whatever_names_and_messages_hold() {
        let told = github(&mistakes(
            "a,b:50%\n.yaml",
            "limits: 1\nproxy: { listen: \"a%0Ab\" }\n",
        ));
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(
            lines,
            [
                "::error file=a%2Cb%3A50%25%0A.yaml,line=1,col=9::limits: expected a list (got 1)",
                "::error file=a%2Cb%3A50%25%0A.yaml,line=2,col=18::proxy.listen: expected an IP address and port, \
                 such as 127.0.0.1:8080 (got \"a%250Ab\")",
            ]
        );
    }

    #[test]
    fn a_mistake_about_the_whole_file_has_no_line() {
        let whole = Source::read("/nowhere/a.yaml").err().unwrap();
        assert!(github(&whole).starts_with("::error file=/nowhere/a.yaml::cannot be read: "));
        let json = mistakes_as_json(&whole);
        assert_eq!(json[0]["line"], Value::Null);
        assert_eq!(json[0]["key"], "");
    }
}
