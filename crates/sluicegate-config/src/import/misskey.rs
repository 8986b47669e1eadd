//! Import from Misskey and Sharkey: the limits of endpoints, as JSON.
//!
//! Either `{ "notes/create": { … } }` or a list of endpoints with `name` and `limit`. A limit is a
//! leaky bucket (`size`, `dripRate`, `dripSize`) or the older `max`, `duration`, `minInterval`; both
//! exist here.

use super::cover::Cover;
use super::draft::{Draft, DraftLimit, DraftQuota, LimitLine};
use super::foreign_tree;
use crate::field::Field;
use crate::tree::Value;
use crate::{Mistakes, Source, Syntax};

/// Reads the definitions.
pub(super) fn draft(source: &Source) -> Result<Draft, Mistakes> {
    foreign_tree::read(source, Syntax::Yaml, |documents| {
        let file = documents.first()?;
        let mut draft = Draft::of_proxy(format!("The limits of {}, from Misskey.", source.name));
        let hint = "as Misskey counts callers without an account by /64, too";
        draft.line("client_ip", "ipv6_prefix: 64", &[hint.to_owned()]);
        let mut groups: Vec<(String, String)> = Vec::new();
        for (name, field) in definitions(file)? {
            let place = format!("{}:{}: {name}", source.name, field.line());
            add_limit(&name, &field, place, &mut groups, &mut draft);
        }
        Some(draft)
    })
}

/// The limits by the names of their endpoints; `None` when the file has another form.
fn definitions<'a>(file: &Field<'a>) -> Option<Vec<(String, Field<'a>)>> {
    let limit_of = |field: Field<'a>| field.child("limit").unwrap_or(field);
    match &file.node.value {
        Value::List(_) => {
            let mut found = Vec::new();
            for endpoint in file.list()? {
                match (endpoint.text_at("name"), endpoint.child("limit")) {
                    (Some(name), Some(limit)) => found.push((name, limit)),
                    // An endpoint without a limit.
                    (Some(_), None) => {}
                    (None, _) => endpoint.note("name is missing: the endpoint"),
                }
            }
            Some(found)
        }
        _ => {
            let entries = file.entries()?;
            Some(
                entries
                    .into_iter()
                    .map(|(name, field)| (name.to_owned(), limit_of(field)))
                    .collect(),
            )
        }
    }
}

fn add_limit(
    name: &str,
    field: &Field<'_>,
    place: String,
    groups: &mut Vec<(String, String)>,
    draft: &mut Draft,
) {
    let Some(quota) = quota(field) else {
        return;
    };
    let path = match name.starts_with('/') {
        true => name.to_owned(),
        false => format!("/api/{name}"),
    };
    let Some(cover) = Cover::of_path(&path) else {
        draft.not_carried_over(format!("{place}: a limit cannot match {path:?}"));
        return;
    };
    let mut limit = DraftLimit::new(draft.free_name(name), place, quota);
    limit.cover = cover;
    limit.key = vec!["principal".to_owned()];
    limit.on_missing_key = Some("client_ip");
    limit.differs(
        LimitLine::Key,
        "Misskey knows its accounts; here `principals` says who is asking, and until it is set the address is counted",
    );
    limit.differs(
        LimitLine::Quota,
        "a role's rateLimitFactor divides the limit in Misskey; here `factor` does, from a claim",
    );
    if let Some(group) = field.text_at("key") {
        match groups.iter().find(|(known, _)| *known == group) {
            Some((_, first)) => limit.differs(
                LimitLine::Name,
                format!("Misskey counts it together with {first} (key {group}); here it has its own counters"),
            ),
            None => groups.push((group, limit.name.clone())),
        }
    }
    draft.limits.push(limit);
}

/// The numbers of a limit; `None` when there are none or they are wrong, which is noted.
fn quota(field: &Field<'_>) -> Option<DraftQuota> {
    if !matches!(field.node.value, Value::Section(_)) {
        field.note_with_value(
            "expected a limit with size, or with max and duration, or with minInterval",
        );
        return None;
    }
    let number = |key: &str| {
        let field = field.child(key)?;
        field.whole_number(1..=u64::from(u32::MAX))
    };
    if field.child("size").is_some() || field.text_at("type").as_deref() == Some("bucket") {
        if field.child("size").is_none() {
            field.note("size is missing: how many requests fit into the bucket");
        }
        return Some(DraftQuota::Drips {
            size: number("size")?,
            drip_rate: number("dripRate").unwrap_or(1_000),
            drip_size: number("dripSize").unwrap_or(1),
        });
    }
    let (max, duration, min_interval) = (number("max"), number("duration"), number("minInterval"));
    let has = |key: &str| field.child(key).is_some();
    if has("max") != has("duration") || !(has("max") || has("minInterval")) {
        field.note("needs size, or max and duration, or minInterval");
        return None;
    }
    Some(DraftQuota::Spaced {
        max_in: max.zip(duration),
        min_interval,
    })
}
