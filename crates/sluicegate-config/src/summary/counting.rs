//! Limits that count by the answer, in words.

use sluicegate_core::{Counting, Limit};

/// What is unusual about when a limit counts; `None` when nothing is.
pub(super) fn in_words(limit: &Limit) -> Option<String> {
    let name = &limit.name;
    match limit.counting {
        Counting::Always => None,
        Counting::When(_) => Some(format!(
            "{name} counts {}, and only looks at others",
            counted(&limit.counting)
        )),
        Counting::RefundWhen(_) => Some(format!("{name} counts {}", counted(&limit.counting))),
    }
}

/// The requests that a limit counts.
pub fn counted(counting: &Counting) -> String {
    match counting {
        Counting::Always => "every request".to_owned(),
        Counting::When(answers) => format!("requests that are answered with {answers}"),
        Counting::RefundWhen(answers) => {
            format!("every request, and gives back those that are answered with {answers}")
        }
    }
}
