//! Scopes brought into order: those that are alike are joined, and overlaps become scopes too.

use super::{SCOPES_MAX, Scope, is_same};
use crate::import::cover::Cover;
use crate::import::draft::Draft;

/// Joins scopes that differ in their hosts only, as of servers with the same locations.
pub(super) fn merge_hosts(scopes: Vec<Scope>) -> Vec<Scope> {
    let mut merged: Vec<Scope> = Vec::new();
    for scope in scopes {
        let is_alike = |other: &&mut Scope| {
            let rest = |cover: &Cover| Cover {
                hosts: Vec::new(),
                ..cover.clone()
            };
            let has_hosts = !other.cover.hosts.is_empty() && !scope.cover.hosts.is_empty();
            let is_equal = other.limits.len() == scope.limits.len()
                && other
                    .limits
                    .iter()
                    .zip(&scope.limits)
                    .all(|(one, two)| one.is_shared && is_same(one, two));
            has_hosts
                && is_equal
                && other.preference == scope.preference
                && rest(&other.cover) == rest(&scope.cover)
        };
        match merged.iter_mut().find(is_alike) {
            Some(other) => {
                for host in scope.cover.hosts {
                    if !other.cover.hosts.contains(&host) {
                        other.cover.hosts.push(host);
                    }
                }
            }
            None => merged.push(scope),
        }
    }
    merged
}

/// Joins scopes that cover the same requests here, though not in the original: by port or by a
/// regular expression, for instance. The limits of both apply.
pub(super) fn merge_equal(scopes: Vec<Scope>, draft: &mut Draft) -> Vec<Scope> {
    let mut merged: Vec<Scope> = Vec::new();
    for scope in scopes {
        let Some(other) = merged.iter_mut().find(|other| other.cover == scope.cover) else {
            merged.push(scope);
            continue;
        };
        let before = other.limits.len();
        for limit in &scope.limits {
            if !other.limits.iter().any(|own| is_same(own, limit)) {
                other.limits.push(limit.clone());
            }
        }
        if other.limits.len() != before || before != scope.limits.len() {
            draft.differs(format!(
                "{} and {} cover the same requests here, so the limits of both apply to them",
                other.label, scope.label
            ));
        }
        other.preference = other.preference.max(scope.preference);
    }
    merged
}

/// All scopes and their overlaps, wide ones first, each with the limits of the preferred scope
/// among those that cover it.
pub(super) fn with_overlaps(scopes: Vec<Scope>) -> Vec<Scope> {
    let mut all: Vec<Scope> = scopes.clone();
    for (at, one) in scopes.iter().enumerate() {
        for two in &scopes[at + 1..] {
            let is_nested = one.cover.contains(&two.cover) || two.cover.contains(&one.cover);
            let Some(cover) = one.cover.and(&two.cover).filter(|_| !is_nested) else {
                continue;
            };
            if all.len() < SCOPES_MAX * 2 && !all.iter().any(|scope| scope.cover == cover) {
                all.push(Scope {
                    cover,
                    ..one.clone()
                });
            }
        }
    }
    for scope in &mut all {
        let preferred = scopes
            .iter()
            .filter(|other| other.cover.contains(&scope.cover))
            .max_by_key(|other| other.preference);
        if let Some(preferred) = preferred {
            scope.label.clone_from(&preferred.label);
            scope.limits.clone_from(&preferred.limits);
        }
    }
    let width = |scope: &Scope| {
        all.iter()
            .filter(|other| other.cover != scope.cover && other.cover.contains(&scope.cover))
            .count()
    };
    let widths: Vec<usize> = all.iter().map(width).collect();
    let mut ordered: Vec<(usize, Scope)> = widths.into_iter().zip(all).collect();
    ordered.sort_by_key(|(around, _)| *around);
    ordered.into_iter().map(|(_, scope)| scope).collect()
}
