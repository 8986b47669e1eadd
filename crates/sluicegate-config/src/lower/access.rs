//! `access`: who passes unlimited, and who does not pass at all.

use crate::item::Item;
use crate::typed::{Access, AccessList};

pub(super) fn access(item: Option<&Item<'_>>) -> Access {
    let read = item.and_then(|item| {
        item.section(|section| Access {
            allow: section
                .sub("allow")
                .map(|item| list(&item))
                .unwrap_or_default(),
            deny: section
                .sub("deny")
                .map(|item| list(&item))
                .unwrap_or_default(),
        })
    });
    read.unwrap_or_default()
}

fn list(item: &Item<'_>) -> AccessList {
    let read = item.section(|section| AccessList {
        cidrs: section.all("cidrs", Item::cidr),
        keys: section.all("keys", |key| key.text().map(str::to_owned)),
    });
    read.unwrap_or_default()
}
