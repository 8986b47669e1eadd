//! The checks of a list of limits: names, keys and replacements.

use std::collections::HashMap;

use super::error::PolicyError;
use crate::limit::{Cost, Limit, QuotaSource};

/// Notes the mistakes of a limit that show without the others.
pub(super) fn check_alone(index: usize, limit: &Limit, mistakes: &mut Vec<PolicyError>) {
    /// Bytes; names are part of every key and of metrics.
    const NAME_MAX: usize = 64;
    let is_name = (1..=NAME_MAX).contains(&limit.name.len())
        && limit
            .name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    if !is_name {
        let message = format!(
            "must be 1 to {NAME_MAX} letters, digits, '.', '_' and '-' (got {:?})",
            limit.name
        );
        mistakes.push(PolicyError::new(index, "name", message));
    }
    check_cost(index, limit, mistakes);
    if limit.key.is_empty() {
        mistakes.push(PolicyError::new(
            index,
            "key",
            "must have at least one part; use global for one counter".into(),
        ));
    }
}

/// Notes a cost with which no request would pass, or every one.
fn check_cost(index: usize, limit: &Limit, mistakes: &mut Vec<PolicyError>) {
    let least = limit.cost.least();
    // Factors and the limits service may give a caller more than the limit itself has.
    let is_fixed = limit.factor.is_none() && limit.quota_from == QuotaSource::Limit;
    let holds = limit.quota.filter(|_| is_fixed).map(|quota| quota.limit());
    let message = match (&limit.cost, holds) {
        _ if least == 0 => {
            "must be at least 1 (got 0): a request that costs nothing is not limited".to_owned()
        }
        (Cost::Header(header), _) if header.max.is_some_and(|max| max < least) => {
            format!("max must be at least {least}, the cost of a request without the header")
        }
        (_, Some(holds)) if least > holds => format!(
            "must be at most {holds}, all that the limit ever holds (got {least}): no request would ever pass"
        ),
        _ => return,
    };
    mistakes.push(PolicyError::new(index, "cost", message));
}

/// The indices of the limits that `index` replaces, nearest first. An unknown name is a mistake of
/// the limit that has it, a circle of every limit in it; a chain that runs into a circle ends
/// there.
pub(super) fn chain(
    index: usize,
    limits: &[Limit],
    by_name: &HashMap<&str, usize>,
    mistakes: &mut Vec<PolicyError>,
) -> Vec<usize> {
    let mut chain = Vec::new();
    let mut current = index;
    while let Some(name) = &limits[current].replaces {
        let Some(&next) = by_name.get(name.as_str()) else {
            if current == index {
                mistakes.push(PolicyError::new(
                    index,
                    "replaces",
                    format!("there is no limit named {name:?}"),
                ));
            }
            break;
        };
        if next == index {
            let message = format!("{:?} replaces this limit in turn", limits[current].name);
            mistakes.push(PolicyError::new(index, "replaces", message));
            break;
        }
        if chain.contains(&next) {
            break;
        }
        chain.push(next);
        current = next;
    }
    chain
}
