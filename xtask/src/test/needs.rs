//! Tests that need something that not every machine has.
//!
//! They are marked `#[ignore = "needs …"]`, so that a plain `cargo test` leaves them out and says so. Here every
//! need that can be met is met, and the tests with it run like all others. The rest are left out by the
//! test runner's own filter: it counts them as skipped, never as passed, and we tell their names.

use crate::command::Command;
use crate::npm;
use crate::pypi;
use crate::tidy::IgnoredTest;

/// How the ignored tests are run on this machine.
#[derive(Debug, Default)]
pub struct NeedsPlan {
    /// Variables that tell the tests where programs are.
    environment: Vec<(&'static str, String)>,
    skipped: Vec<SkippedTest>,
}

/// A test that does not run here.
#[derive(Clone, Debug, PartialEq)]
pub struct SkippedTest {
    pub package: String,
    pub name: String,
    pub reason: String,
}

impl NeedsPlan {
    /// Finds out what can be met. The error names a need that nobody knows how to meet.
    pub fn make(tests: Vec<IgnoredTest>) -> Result<Self, String> {
        let parts = pypi::FOR_TESTS.iter().map(|part| {
            let program = part.program().map(|path| path.display().to_string());
            (part.name, program.map(|path| Some((part.variable, path))))
        });
        let packages = npm::FOR_TESTS.iter().map(|part| {
            let place = part.directory().map(|path| path.display().to_string());
            (part.name, place.map(|path| Some((part.variable, path))))
        });
        let kernel = NAMESPACES.iter().map(|(name, probe)| {
            let granted = Command::new("unshare", probe.iter().copied()).read_stdout();
            (*name, granted.map(|_| None))
        });
        Self::from_needs(tests, parts.chain(packages).chain(kernel).collect())
    }

    fn from_needs(tests: Vec<IgnoredTest>, needs: Vec<ProbedNeed>) -> Result<Self, String> {
        let mut plan = Self::default();
        for test in tests {
            let need = test.reason.strip_prefix("needs ");
            let met = match need {
                // Another command runs it, and its reason says which.
                None => Err(test.reason.clone()),
                Some(need) => known(need, &needs)
                    .ok_or_else(|| {
                        format!(
                            "`{}` of {} needs `{need}`, which {THIS_FILE} does not know",
                            test.name, test.package
                        )
                    })?
                    .map_err(|failure| format!("needs {need}: {failure}")),
            };
            if let Err(reason) = met {
                plan.skipped.push(SkippedTest {
                    package: test.package,
                    name: test.name,
                    reason,
                });
            }
        }
        let variables = needs.into_iter().filter_map(|(_, met)| met.ok().flatten());
        plan.environment = variables.collect();
        Ok(plan)
    }

    /// The tests that the runner will report as skipped.
    pub fn skipped(self) -> Vec<SkippedTest> {
        self.skipped
    }

    /// Makes nextest run every ignored test but those.
    pub fn with_nextest(&self, command: Command) -> Command {
        let command = self
            .with_environment(command)
            .args(["--run-ignored", "all"]);
        if self.skipped.is_empty() {
            return command;
        }
        let each: Vec<String> = self
            .skipped
            .iter()
            .map(|test| {
                format!(
                    "(package(={}) & test(/(^|::){}$/))",
                    test.package, test.name
                )
            })
            .collect();
        command.args(["-E".to_string(), format!("not ({})", each.join(" | "))])
    }

    /// The same for the runner that comes with cargo.
    pub fn with_libtest(&self, command: Command) -> Command {
        let command = self
            .with_environment(command)
            .args(["--", "--include-ignored"]);
        self.skipped.iter().fold(command, |command, test| {
            command.args(["--skip", test.name.as_str()])
        })
    }

    fn with_environment(&self, command: Command) -> Command {
        let add = |command: Command, (name, value): &(&'static str, String)| {
            command.env(name, value.clone())
        };
        self.environment.iter().fold(command, add)
    }
}

const THIS_FILE: &str = "xtask/src/test/needs.rs";

/// The name of a need, and the variable that goes with it where it could be met.
type ProbedNeed = (&'static str, Result<Option<(&'static str, String)>, String>);

/// Rights that a kernel grants or does not, and the arguments of `unshare` that try them.
const NAMESPACES: [(&str, &[&str]); 3] = [
    (
        "network namespaces",
        &["-rnpf", "--kill-child", "ip", "link", "set", "lo", "up"],
    ),
    (
        "user namespaces",
        &[
            "-rnpf",
            "--kill-child",
            "unshare",
            "--map-user=65532",
            "--map-group=65532",
            "true",
        ],
    ),
    (
        "mount namespaces",
        &["-rnm", "ip", "link", "set", "lo", "up"],
    ),
];

/// `None` for a need that is not in the list; a failure is cut to its first line.
fn known(need: &str, needs: &[ProbedNeed]) -> Option<Result<(), String>> {
    let (_, met) = needs.iter().find(|(name, _)| *name == need)?;
    Some(match met {
        Ok(_) => Ok(()),
        Err(failure) => Err(failure.lines().next().unwrap_or_default().to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::{Tree, ignored_tests};

    fn ignored(name: &str, reason: &str) -> IgnoredTest {
        IgnoredTest {
            package: "x".to_string(),
            name: name.to_string(),
            reason: reason.to_string(),
        }
    }

    fn plan(tests: &[(&str, &str)]) -> Result<NeedsPlan, String> {
        let tests = tests.iter().map(|(name, reason)| ignored(name, reason));
        let needs: Vec<ProbedNeed> = vec![
            ("Envoy", Ok(Some(("ENVOY", "bin/envoy".to_string())))),
            ("Caddy", Err("no network\nand more".to_string())),
            ("namespaces", Ok(None)),
        ];
        NeedsPlan::from_needs(tests.collect(), needs)
    }

    #[test]
    fn a_test_runs_when_its_need_is_met_and_is_skipped_by_name_otherwise() {
        let tests = [
            ("one", "needs Envoy"),
            ("two", "needs Caddy"),
            ("three", "needs namespaces"),
            ("four", "run by `cargo xtask chaos`"),
        ];
        let plan = plan(&tests).expect("every need is known");
        let shown: Vec<String> = plan
            .skipped
            .iter()
            .map(|test| format!("{}: {}", test.name, test.reason))
            .collect();
        assert_eq!(
            shown,
            [
                "two: needs Caddy: no network",
                "four: run by `cargo xtask chaos`"
            ]
        );
        let nextest = plan.with_nextest(Command::cargo(["nextest", "run"]));
        assert_eq!(
            nextest.to_string(),
            "ENVOY=bin/envoy cargo nextest run --run-ignored all -E \
             'not ((package(=x) & test(/(^|::)two$/)) | (package(=x) & test(/(^|::)four$/)))'"
        );
        let libtest = plan.with_libtest(Command::cargo(["test"]));
        assert_eq!(
            libtest.to_string(),
            "ENVOY=bin/envoy cargo test -- --include-ignored --skip two --skip four"
        );
    }

    #[test]
    fn without_skipped_tests_there_is_no_filter() {
        let plan = plan(&[("one", "needs Envoy")]).expect("every need is known");
        let nextest = plan.with_nextest(Command::cargo(["nextest", "run"]));
        assert!(
            nextest.to_string().ends_with("--run-ignored all"),
            "{nextest}"
        );
        assert_eq!(plan.skipped(), []);
    }

    #[test]
    fn an_unknown_need_fails_before_anything_runs() {
        let failure = plan(&[("one", "needs magic")]).expect_err("nobody has magic");
        assert_eq!(
            failure,
            "`one` of x needs `magic`, which xtask/src/test/needs.rs does not know"
        );
    }

    #[test]
    fn every_need_in_this_repository_is_known() {
        let names: Vec<&str> = pypi::FOR_TESTS
            .iter()
            .map(|part| part.name)
            .chain(npm::FOR_TESTS.iter().map(|part| part.name))
            .chain(NAMESPACES.iter().map(|(name, _)| *name))
            .collect();
        let tree = Tree::read().expect("the tests run in a clone");
        for test in ignored_tests(&tree) {
            if let Some(need) = test.reason.strip_prefix("needs ") {
                assert!(names.contains(&need), "{test:?}");
            }
        }
    }
}
