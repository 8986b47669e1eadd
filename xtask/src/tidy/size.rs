//! Files and functions stay short enough to be read in one go.

use super::exceptions::{self, Exception};
use super::rust_source::RustSource;
use super::{Finding, Tree};

/// Finds what is too long and not excepted, and exceptions that are no longer needed.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let (exceptions, mut findings) = exceptions::read(tree);
    let too_long: Vec<TooLong> = tree.rust.iter().flat_map(too_long_in).collect();
    let is_excepted = |long: &&TooLong| {
        exceptions
            .iter()
            .any(|exception| exception.subject == long.subject)
    };
    findings.extend(
        too_long
            .iter()
            .filter(|long| !is_excepted(long))
            .map(TooLong::finding),
    );
    let is_needed = |exception: &&Exception| {
        too_long
            .iter()
            .any(|long| long.subject == exception.subject)
    };
    findings.extend(
        exceptions
            .iter()
            .filter(|exception| !is_needed(exception))
            .map(Exception::not_needed),
    );
    findings
}

const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 60;
/// A test may tell a longer story.
const TEST_FUNCTION_LINES_MAX: usize = 100;

/// A file or a function over its limit. The subject is spelled as in the list of exceptions.
struct TooLong {
    subject: String,
    path: String,
    line: usize,
    length: usize,
    max: usize,
}

impl TooLong {
    fn finding(&self) -> Finding {
        let fact = format!(
            "{} lines in `{}`, at most {}",
            self.length, self.subject, self.max
        );
        let way_out = format!(
            "split it by idea, or name `{}` with a reason in {}",
            self.subject,
            exceptions::PATH
        );
        Finding::new(&self.path, self.line, fact, way_out)
    }
}

fn too_long_in(source: &RustSource) -> Vec<TooLong> {
    let path = &source.path;
    let function_max = if source.is_in_tests_directory() {
        TEST_FUNCTION_LINES_MAX
    } else {
        FUNCTION_LINES_MAX
    };
    let file = TooLong {
        subject: path.clone(),
        path: path.clone(),
        line: 1,
        length: source.text.lines().count(),
        max: FILE_LINES_MAX,
    };
    let functions = source.functions().into_iter().map(|function| TooLong {
        subject: format!("{path}::{}", function.name),
        path: path.clone(),
        line: function.line,
        length: function.length,
        max: function_max,
    });
    functions
        .chain([file])
        .filter(|part| part.length > part.max)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    fn function(name: &str, lines: usize) -> String {
        format!("fn {name}() {{\n{}}}\n", "    x();\n".repeat(lines - 2))
    }

    #[test]
    fn files_over_the_limit_are_found() {
        let (fits, over) = ("//\n".repeat(500), "//\n".repeat(501));
        assert_eq!(
            found(
                check,
                &[
                    ("a/fits.rs", &fits),
                    ("a/over.rs", &over),
                    ("a/tests/over.rs", &over),
                    ("a/over.md", &over)
                ]
            ),
            [
                "a/over.rs:1: 501 lines in `a/over.rs`, at most 500",
                "a/tests/over.rs:1: 501 lines in `a/tests/over.rs`, at most 500"
            ]
        );
    }

    #[test]
    fn functions_over_the_limit_are_found_and_tests_may_be_longer() {
        let text = function("fits", 60) + &function("over", 61);
        let tests = function("fits", 100) + &function("over", 101);
        assert_eq!(
            found(check, &[("a/src/a.rs", &text), ("a/tests/a.rs", &tests)]),
            [
                "a/src/a.rs:61: 61 lines in `a/src/a.rs::over`, at most 60",
                "a/tests/a.rs:101: 101 lines in `a/tests/a.rs::over`, at most 100"
            ]
        );
    }

    #[test]
    fn an_exception_excuses_its_subject_and_nothing_else() {
        let text = function("long", 61) + &function("other", 61);
        let list = "# why\na.rs::long - one match over every command\n";
        assert_eq!(
            found(check, &[("a.rs", &text), (exceptions::PATH, list)]),
            ["a.rs:62: 61 lines in `a.rs::other`, at most 60"]
        );
    }

    #[test]
    fn an_exception_without_need_is_found() {
        let list = "a.rs::short - was long once\ngone.rs - was here once\n";
        assert_eq!(
            found(
                check,
                &[("a.rs", &function("short", 10)), (exceptions::PATH, list)]
            ),
            [
                "xtask/tidy-exceptions.txt:1: `a.rs::short` needs no exception",
                "xtask/tidy-exceptions.txt:2: `gone.rs` needs no exception"
            ]
        );
    }
}
