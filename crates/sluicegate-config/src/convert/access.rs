//! `access`: callers that are never limited, and callers that are always rejected.

use crate::field::Field;
use crate::typed::{Access, AccessList};

/// Both lists; empty without the section.
pub(super) fn access(field: Option<&Field<'_>>) -> Access {
    let read = field.and_then(|field| {
        field.section(|section| Access {
            allow: section
                .subsection("allow")
                .map(|field| list(&field))
                .unwrap_or_default(),
            deny: section
                .subsection("deny")
                .map(|field| list(&field))
                .unwrap_or_default(),
        })
    });
    read.unwrap_or_default()
}

/// `{ cidrs, keys }`: networks of clients, and ids of principals.
fn list(field: &Field<'_>) -> AccessList {
    let read = field.section(|section| AccessList {
        cidrs: section.all("cidrs", Field::cidr),
        keys: section.all("keys", |key| key.text().map(str::to_owned)),
    });
    read.unwrap_or_default()
}
