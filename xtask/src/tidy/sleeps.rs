//! Tests wait for something to happen, not for time to pass.

use super::rust_source::RustSource;
use super::{Finding, Tree};

/// Finds calls of `sleep` in test code without the excuse above them.
pub fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust.iter().flat_map(sleeps_in).collect()
}

/// The comment that allows a sleep on the line below it, as in a loop with a deadline.
const EXCUSE: &str = "// bounded wait:";

fn sleeps_in(source: &RustSource) -> impl Iterator<Item = Finding> {
    let in_tests = source.mentions("sleep(").filter(|at| source.is_test(*at));
    let calls = in_tests.filter(|at| !source.code[..*at].ends_with("fn "));
    calls.map(|at| source.line_at(at)).filter(|line| !is_excused(source, *line)).map(|line| {
        let way_out = format!(
            "use `ManualClock` or wait for an event; in a loop with a deadline write `{EXCUSE} …` on the line above"
        );
        Finding::new(&source.path, line, "a test sleeps", way_out)
    })
}

fn is_excused(source: &RustSource, line: usize) -> bool {
    let above = line
        .checked_sub(2)
        .and_then(|index| source.text.lines().nth(index));
    above.is_some_and(|above| above.trim_start().starts_with(EXCUSE))
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    const SLEEP: &str = "fn f() {\n    std::thread::sleep(SHORT);\n}\n";

    #[test]
    fn sleeps_in_test_code_are_found() {
        let module = format!("#[cfg(test)]\nmod tests {{\n{SLEEP}}}\n");
        let files = [
            ("a/tests/b.rs", SLEEP),
            ("a/src/c.rs", &module),
            ("a/src/lib.rs", "#[cfg(test)]\nmod d;\n"),
            ("a/src/d.rs", SLEEP),
            ("a/src/d/deep.rs", SLEEP),
        ];
        let places = [
            "a/src/c.rs:4",
            "a/src/d.rs:2",
            "a/src/d/deep.rs:2",
            "a/tests/b.rs:2",
        ];
        assert_eq!(
            found(check, &files),
            places.map(|place| format!("{place}: a test sleeps"))
        );
    }

    #[test]
    fn sleeps_elsewhere_or_with_the_excuse_are_left_alone() {
        let excused =
            "fn f() {\n    // bounded wait: until the deadline above\n    sleep(SHORT);\n}\n";
        let files = [
            ("a/src/b.rs", SLEEP),
            ("a/tests/c.rs", excused),
            (
                "a/tests/d.rs",
                "// sleep(1)\nfn sleep(x: u8) { asleep(x) }\n",
            ),
        ];
        assert_eq!(found(check, &files), [""; 0]);
    }
}
