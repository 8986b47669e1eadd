//! `factor` of a limit: the claim of the caller that divides the quota.

use std::collections::BTreeMap;

use sluicegate_core::{Factor, FactorRule, ScaledPart};

use crate::field::Field;

/// The parts of a quota that are divided, by name.
const PARTS: [(&str, ScaledPart); 3] = [
    ("size", ScaledPart::Size),
    ("rate", ScaledPart::Rate),
    ("both", ScaledPart::Both),
];

/// `{ claim, map, default, applies_to }`; `None` when it is off.
pub(super) fn factor(field: &Field<'_>) -> Option<FactorRule> {
    field.section(|section| {
        let is_on = section.enabled();
        let claim = section
            .need("claim", "the claim that holds the factor")
            .and_then(|field| field.text());
        let rule = FactorRule {
            claim: claim.unwrap_or_default().to_owned(),
            roles: section.optional("map", roles).unwrap_or_default(),
            default: section.read("default", Factor::ONE, number),
            applies_to: section.read("applies_to", ScaledPart::default(), |field| {
                field.word(&PARTS)
            }),
        };
        is_on.then_some(rule)
    })?
}

/// `role: factor` for each value of the claim; at least one.
fn roles(field: &Field<'_>) -> Option<BTreeMap<String, Factor>> {
    let entries = field.entries()?;
    if entries.is_empty() {
        field.note("must name at least one value of the claim, as in { gold: 0.5 }");
    }
    let mut roles = BTreeMap::new();
    for (role, field) in entries {
        // Claims with several roles separate them with commas, and are trimmed.
        if role.is_empty() || role.contains(',') || role.trim() != role {
            field.note("a role must not be empty, nor have commas or blanks around it");
        }
        roles.extend(number(&field).map(|factor| (role.to_owned(), factor)));
    }
    Some(roles)
}

/// A factor as a number.
fn number(field: &Field<'_>) -> Option<Factor> {
    Factor::new(field.number()?)
        .map_err(|_| {
            field.note_with_value("must be a finite number of at least 0, where 0 is unlimited")
        })
        .ok()
}
