//! The cost of a request at a limit, in words.

use sluicegate_core::{Cost, Limit};

/// A sentence about a cost that is not one unit; `None` for the usual one.
pub(super) fn in_words(limit: &Limit) -> Option<String> {
    (limit.cost != Cost::default()).then(|| format!("at {}, {}", limit.name, of(&limit.cost)))
}

/// A cost in words, such as `each request costs 5 units`.
///
/// ```
/// use sluicegate_config::cost_in_words;
/// use sluicegate_core::Cost;
///
/// assert_eq!(cost_in_words(&Cost::Fixed(5)), "each request costs 5 units");
/// ```
pub fn of(cost: &Cost) -> String {
    match cost {
        Cost::Fixed(1) => "each request costs 1 unit".to_owned(),
        Cost::Fixed(units) => format!("each request costs {units} units"),
        Cost::Header(header) => {
            let most = header.max.map(|max| format!(" and at most {max}"));
            format!(
                "each request costs the units in the header {}, at least {}{}",
                header.name,
                header.default,
                most.unwrap_or_default()
            )
        }
    }
}
