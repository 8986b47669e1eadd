//! `access`: callers that are never limited, and callers that are always rejected.

use crate::field::Field;
use crate::typed::{Access, AccessList};

/// Both lists; empty without the section.
pub(super) fn access(field: Option<&Field<'_>>) -> Access {
    let read = field.and_then(|field| {
        field.section(|section| {
            let is_on = section.enabled();
            let mut one = |key| section.subsection(key).and_then(|field| list(&field));
            let access = Access {
                allow: one("allow").unwrap_or_default(),
                deny: one("deny").unwrap_or_default(),
            };
            is_on.then_some(access)
        })?
    });
    read.unwrap_or_default()
}

/// `{ enabled, cidrs, keys }`: networks of clients, and ids of principals; `None` when it is off.
fn list(field: &Field<'_>) -> Option<AccessList> {
    field.section(|section| {
        let is_on = section.enabled();
        let list = AccessList {
            cidrs: section.all("cidrs", Field::cidr),
            keys: section.all("keys", |key| key.text().map(str::to_owned)),
        };
        is_on.then_some(list)
    })?
}
