//! Configurations in YAML.

use sluicegate_config::{Source, Syntax, load, without_secrets};

/// The input is a file.
pub fn run(data: &[u8]) {
    check(data, Syntax::Yaml);
}

/// A value that stands for every variable of the environment.
const FROM_ENVIRONMENT: &str = "q7-value-of-a-variable";

/// A configuration is valid, or every mistake in it has a place and tells no secret.
pub(crate) fn check(data: &[u8], syntax: Syntax) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    // A fuzzer sees what is compared, and writes the value of the variable itself.
    if may_read_devices(text) || text.contains(FROM_ENVIRONMENT) {
        return;
    }
    let source = Source {
        name: "fuzz".to_owned(),
        text: text.to_owned(),
        syntax,
        base_dir: "/nonexistent".into(),
    };
    match load(&source, &|_| Some(FROM_ENVIRONMENT.to_owned())) {
        Ok(config) => {
            assert!(config.changes_to(&config).is_empty());
            assert!(!config.in_words().is_empty());
        }
        Err(mistakes) => {
            // A line of YAML may end with either.
            let lines = text.split(['\n', '\r']).count() as u64;
            assert!(mistakes.iter().len() > 0);
            for mistake in mistakes.iter() {
                if let Some((line, column)) = mistake.place() {
                    assert!(line <= lines + 1);
                    assert!(column >= 1);
                }
                assert!(!mistake.message().is_empty());
            }
            let told = mistakes.to_string();
            assert!(!told.contains(FROM_ENVIRONMENT), "{told}");
            assert!(!mistakes.render(false).contains(FROM_ENVIRONMENT));
        }
    }
    let hidden = without_secrets(text);
    let line_count = |text: &str| text.lines().count();
    assert_eq!(line_count(&hidden), line_count(text));
}

/// Files that a configuration includes are read, and a device has no end.
pub(crate) fn may_read_devices(text: &str) -> bool {
    ["/dev", "/proc", "/sys", ".."]
        .iter()
        .any(|folder| text.contains(folder))
}
