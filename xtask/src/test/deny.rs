//! Licences, banned crates, sources and advisories, looked at by cargo-deny.

use crate::command::Command;
use crate::crates::CARGO_DENY;

use super::{StepOutcome, StepResult};

/// The step: skips with a note when cargo-deny is absent, because building it takes over ten minutes on two cores.
pub fn run() -> StepResult {
    let Some(deny) = CARGO_DENY.installed() else {
        let why =
            "cargo-deny is not installed (`cargo xtask audit` builds it under target)".to_string();
        println!("{why}");
        return Ok(StepOutcome::Skipped { why });
    };
    check_policy(&deny)?;
    // Fetched apart from the check, so that no network and a bad crate do not look alike.
    if fetch_advisories(&deny).is_err() {
        let note = "advisories skipped: the advisory database could not be fetched";
        return Ok(StepOutcome::Passed {
            tests: 0,
            skipped: Vec::new(),
            note: Some(note.to_string()),
        });
    }
    check_advisories(&deny)?;
    Ok(StepOutcome::WITHOUT_REMARK)
}

/// Every check: builds cargo-deny if need be, and fails when advisories cannot be looked at.
pub fn audit() -> Result<(), String> {
    let deny = CARGO_DENY.install_if_missing()?;
    check_policy(&deny)?;
    fetch_advisories(&deny)
        .map_err(|failure| format!("advisories were not looked at: {failure}"))?;
    check_advisories(&deny)
}

fn check_policy(deny: &Command) -> Result<(), String> {
    deny.clone()
        .args([
            "check",
            "--hide-inclusion-graph",
            "bans",
            "licenses",
            "sources",
        ])
        .run()
}

fn fetch_advisories(deny: &Command) -> Result<(), String> {
    deny.clone().args(["fetch", "db"]).run()
}

fn check_advisories(deny: &Command) -> Result<(), String> {
    deny.clone().args(["check", "advisories"]).run()
}

/// Checks that need no cargo-deny, so that they run everywhere.
#[cfg(test)]
mod tests {
    use serde_json::Value;
    use toml::Table;

    use super::*;
    use crate::command::root;

    fn policy() -> Table {
        let text = std::fs::read_to_string(root().join("deny.toml")).expect("the policy is there");
        text.parse().expect("the policy is TOML")
    }

    fn allowed_licences() -> Vec<String> {
        let policy = policy();
        let allowed = policy["licenses"]["allow"].as_array().expect("a list");
        allowed
            .iter()
            .map(|licence| licence.as_str().expect("a name").to_string())
            .collect()
    }

    #[test]
    fn the_policy_takes_crates_from_one_place_and_no_copyleft() {
        let policy = policy();
        let sources = policy["sources"].as_table().expect("a section");
        assert_eq!(
            (
                sources["unknown-registry"].as_str(),
                sources["unknown-git"].as_str()
            ),
            (Some("deny"), Some("deny"))
        );
        assert_eq!(sources["allow-git"].as_array().map(Vec::len), Some(0));
        let registries = sources["allow-registry"].as_array().expect("a list");
        assert!(
            matches!(&registries[..], [only] if only.as_str().is_some_and(|url| url.ends_with("crates.io-index")))
        );
        assert_eq!(policy["bans"]["wildcards"].as_str(), Some("deny"));
        let allowed = allowed_licences();
        assert!(
            ["Apache-2.0", "MIT"]
                .iter()
                .all(|ours| allowed.iter().any(|licence| licence == ours))
        );
        assert!(!allowed.iter().any(|licence| licence.contains("GPL")));
    }

    #[test]
    fn every_dependency_comes_from_crates_io_under_a_licence_that_is_allowed() {
        // Only dependencies that are compiled here: those have been downloaded already.
        let compiler = Command::new("rustc", ["-vV"])
            .read_stdout()
            .expect("the compiler says what it is");
        let host = compiler
            .lines()
            .find_map(|line| line.strip_prefix("host: "))
            .expect("it compiles for a host");
        let words = [
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--all-features",
            "--filter-platform",
            host,
        ];
        let metadata: Value = serde_json::from_str(
            &Command::cargo(words)
                .read_stdout()
                .expect("cargo metadata works here"),
        )
        .expect("it prints JSON");
        let allowed = allowed_licences();
        let packages = metadata["packages"].as_array().expect("a list");
        assert!(packages.len() > 100, "the whole tree");
        for package in packages {
            let (name, source) = (&package["name"], &package["source"]);
            let is_ours = source.is_null();
            let is_from_crates_io =
                source == "registry+https://github.com/rust-lang/crates.io-index";
            assert!(is_ours || is_from_crates_io, "{name} comes from {source}");
            let licence = package["license"].as_str().unwrap_or_default();
            assert!(is_allowed(licence, &allowed), "{name} is under {licence:?}");
        }
    }

    /// Understands `A OR B AND (C OR D WITH E)`; older manifests write `A/B`.
    fn is_allowed(expression: &str, allowed: &[String]) -> bool {
        let spaced = expression
            .replace('/', " OR ")
            .replace('(', " ( ")
            .replace(')', " ) ");
        let words: Vec<&str> = spaced.split_whitespace().collect();
        let (is_allowed, rest) = any_of(&words, allowed);
        is_allowed && rest.is_empty()
    }

    fn any_of<'a, 'b>(words: &'a [&'b str], allowed: &[String]) -> (bool, &'a [&'b str]) {
        let (mut is_allowed, mut rest) = all_of(words, allowed);
        while let ["OR", others @ ..] = rest {
            let (other, after) = all_of(others, allowed);
            (is_allowed, rest) = (is_allowed | other, after);
        }
        (is_allowed, rest)
    }

    fn all_of<'a, 'b>(words: &'a [&'b str], allowed: &[String]) -> (bool, &'a [&'b str]) {
        let (mut is_allowed, mut rest) = one(words, allowed);
        while let ["AND", others @ ..] = rest {
            let (other, after) = one(others, allowed);
            (is_allowed, rest) = (is_allowed & other, after);
        }
        (is_allowed, rest)
    }

    fn one<'a, 'b>(words: &'a [&'b str], allowed: &[String]) -> (bool, &'a [&'b str]) {
        let is_known = |licence: &str| allowed.iter().any(|known| known == licence);
        match words {
            ["(", inner @ ..] => match any_of(inner, allowed) {
                (is_allowed, [")", rest @ ..]) => (is_allowed, rest),
                (_, rest) => (false, rest),
            },
            [licence, "WITH", exception, rest @ ..] => (
                is_known(licence) || is_known(&format!("{licence} WITH {exception}")),
                rest,
            ),
            [licence, rest @ ..] => (is_known(licence), rest),
            [] => (false, &[]),
        }
    }

    #[test]
    fn expressions_of_licences_are_understood() {
        let allowed = ["MIT", "Apache-2.0", "Zlib WITH x"].map(str::to_string);
        for good in [
            "MIT",
            "GPL-3.0 OR MIT",
            "MIT/Apache-2.0",
            "(MIT OR GPL-3.0) AND Apache-2.0",
            "Zlib WITH x",
            "MIT WITH y",
        ] {
            assert!(is_allowed(good, &allowed), "{good}");
        }
        for bad in [
            "",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "Zlib",
            "Zlib WITH y",
            "(MIT",
            "MIT GPL-3.0",
            "GPL-3.0 AND (MIT OR MIT)",
        ] {
            assert!(!is_allowed(bad, &allowed), "{bad}");
        }
    }
}
