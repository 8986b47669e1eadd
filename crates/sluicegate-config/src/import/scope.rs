//! Scopes: programs such as nginx send each request to one place (a location, a router, a route),
//! and the limits of that place apply and no others. Our limits apply wherever they match, unless
//! one replaces another. This module finds the replacements.
//!
//! The idea: scopes are ordered from wide to narrow. A scope inherits what is in force in the
//! scopes around it, and only what is different there is written: a limit of its own that replaces
//! an inherited one, or an exception that lifts it. Where two scopes overlap and neither lies
//! within the other, their intersection becomes a scope too, with the limits of the one that the
//! program prefers.
//!
//! The invariant: for every scope, each group of limits with one base (the limit at the end of
//! their `replaces`) has one winner, because the policy charges one limit of a base. So a scope
//! that inherits two limits of one base always writes one of its own, which is narrower than both.

mod merging;

use super::cover::Cover;
use super::draft::{Draft, DraftLimit, DraftQuota, LimitLine};
use merging::{merge_equal, merge_hosts, with_overlaps};

/// Requests that the other program treats alike.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    pub(super) cover: Cover,
    /// The place in the original, for messages.
    pub(super) label: String,
    /// Of scopes that cover a request the one with the highest preference gets it.
    pub(super) preference: (i64, usize),
    pub(super) limits: Vec<ScopedLimit>,
}

/// A limit of a scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScopedLimit {
    /// Limits of one family take each other's place first.
    pub(super) family: String,
    /// True when the program keeps one counter for the whole family.
    pub(super) is_shared: bool,
    /// The limit; its cover narrows the scope's further.
    pub(super) limit: DraftLimit,
    /// Requests of the scope that the limit leaves out.
    pub(super) except: Vec<Cover>,
}

/// More scopes than this are refused; finding the overlaps takes quadratic time.
pub(super) const SCOPES_MAX: usize = 400;

/// Writes the limits of all scopes into the draft.
pub(super) fn lay_out(scopes: Vec<Scope>, draft: &mut Draft) {
    let scopes = with_overlaps(merge_equal(merge_hosts(scopes), draft));
    let mut placed: Vec<PlacedScope> = Vec::new();
    let mut written: Vec<(String, usize)> = Vec::new();
    for scope in scopes {
        let around: Vec<&PlacedScope> = placed
            .iter()
            .filter(|other| other.cover.contains(&scope.cover))
            .collect();
        let is_nearest = |candidate: &&&PlacedScope| {
            !around.iter().any(|other| {
                candidate.cover != other.cover && candidate.cover.contains(&other.cover)
            })
        };
        let mut groups: Vec<BaseGroup> = Vec::new();
        for active in around
            .iter()
            .filter(is_nearest)
            .flat_map(|near| &near.active)
        {
            match groups.iter_mut().find(|group| group.base == active.base) {
                Some(group) if group.members.contains(active) => {}
                Some(group) => group.members.push(active.clone()),
                None => groups.push(BaseGroup {
                    base: active.base.clone(),
                    members: vec![active.clone()],
                }),
            }
        }
        let active = Placement {
            draft,
            written: &mut written,
            scope: &scope,
        }
        .place(groups);
        placed.push(PlacedScope {
            cover: scope.cover,
            active,
        });
    }
    note_split_counters(draft, &written);
}

/// A scope whose limits are written, and what is in force there.
struct PlacedScope {
    cover: Cover,
    active: Vec<ActiveLimit>,
}

/// A limit or an exception that is in force in a scope.
#[derive(Clone, Debug, PartialEq)]
struct ActiveLimit {
    /// The name in our configuration.
    name: String,
    /// The limit at the end of its replacements.
    base: String,
    /// `None` for an exception.
    like: Option<ScopedLimit>,
}

/// Limits of one base, of which the policy charges one.
struct BaseGroup {
    base: String,
    members: Vec<ActiveLimit>,
}

/// The writing of one scope.
struct Placement<'a> {
    draft: &'a mut Draft,
    /// Family and index of every limit that shares its counter in the original.
    written: &'a mut Vec<(String, usize)>,
    scope: &'a Scope,
}

impl Placement<'_> {
    /// Writes what is different in this scope; returns what is in force in it.
    fn place(mut self, mut groups: Vec<BaseGroup>) -> Vec<ActiveLimit> {
        let mut active = Vec::new();
        let mut wanted = Vec::new();
        for limit in &self.scope.limits {
            let is_same = |group: &BaseGroup| match group.members.as_slice() {
                [only] => only.like.as_ref().is_some_and(|like| is_same(like, limit)),
                _ => false,
            };
            match groups.iter().position(is_same) {
                Some(at) => active.extend(groups.remove(at).members),
                None => wanted.push(limit.clone()),
            }
        }
        // Those of the same family first, then whatever is left, so that no group stays in force.
        let (kin, others): (Vec<_>, Vec<_>) = wanted
            .into_iter()
            .partition(|limit| groups.iter().any(|group| group.has_family(&limit.family)));
        for limit in kin.into_iter().chain(others) {
            let at = groups
                .iter()
                .position(|group| group.has_family(&limit.family))
                .or_else(|| groups.iter().position(BaseGroup::is_limited))
                .or_else(|| (!groups.is_empty()).then_some(0));
            let replaced = at.map(|at| groups.remove(at));
            active.extend(self.write_limit(limit, replaced));
        }
        for group in groups {
            match group.members.as_slice() {
                [only] if only.like.is_none() => active.push(only.clone()),
                members if members.iter().all(|member| member.like.is_none()) => {
                    active.extend(members.first().cloned());
                }
                _ => active.extend(self.write_exception(&group)),
            }
        }
        active
    }

    /// Writes a limit of this scope in place of a group, and its exceptions.
    fn write_limit(
        &mut self,
        scoped: ScopedLimit,
        replaced: Option<BaseGroup>,
    ) -> Option<ActiveLimit> {
        let cover = self.scope.cover.and(&scoped.limit.cover)?;
        let mut limit = scoped.limit.clone();
        let wanted = match self.is_taken(&limit.name) {
            true => format!("{}-{}", limit.name, cover.words()),
            false => limit.name.clone(),
        };
        // A limit that covers less than its scope leaves the rest to an exception, and so does one
        // that is skipped for some requests.
        let is_skipped = limit.on_missing_key == Some("skip");
        let narrower = (cover != self.scope.cover || is_skipped) && replaced.is_some();
        let mut replaces = replaced.as_ref().map(BaseGroup::top_name);
        if let (true, Some(group)) = (narrower, &replaced) {
            replaces = self.write_exception(group).map(|active| active.name);
        }
        limit.name = self.draft.free_name(&wanted);
        limit.cover = cover;
        limit.replaces = replaces;
        let name = limit.name.clone();
        if scoped.is_shared {
            self.written
                .push((scoped.family.clone(), self.draft.limits.len()));
        }
        let (cover, key, origin) = (limit.cover.clone(), limit.key.clone(), limit.origin.clone());
        self.draft.limits.push(limit);
        for except in &scoped.except {
            let Some(cover) = cover.and(except) else {
                continue;
            };
            let wanted = format!("{name}-except-{}", except.words());
            let mut exception = DraftLimit::new(
                self.draft.free_name(&wanted),
                &origin,
                DraftQuota::Unlimited,
            );
            (exception.cover, exception.key) = (cover, key.clone());
            exception.replaces = Some(name.clone());
            self.draft.limits.push(exception);
        }
        let base = replaced.map_or_else(|| name.clone(), |group| group.base);
        Some(ActiveLimit {
            name,
            base,
            like: Some(scoped),
        })
    }

    /// Writes an exception that lifts a group in this scope.
    fn write_exception(&mut self, group: &BaseGroup) -> Option<ActiveLimit> {
        let lifted = group
            .members
            .iter()
            .find_map(|member| member.like.as_ref())?;
        let wanted = format!("{}-off-{}", lifted.limit.name, self.scope.cover.words());
        let origin = format!("{}: not limited by {}", self.scope.label, lifted.family);
        let mut exception =
            DraftLimit::new(self.draft.free_name(&wanted), origin, DraftQuota::Unlimited);
        exception.cover = self.scope.cover.clone();
        exception.key = lifted.limit.key.clone();
        exception.replaces = Some(group.top_name());
        let name = exception.name.clone();
        self.draft.limits.push(exception);
        Some(ActiveLimit {
            name,
            base: group.base.clone(),
            like: None,
        })
    }

    fn is_taken(&self, name: &str) -> bool {
        self.draft.limits.iter().any(|limit| limit.name == name)
    }
}

impl BaseGroup {
    fn has_family(&self, family: &str) -> bool {
        let of_family = |member: &ActiveLimit| {
            member
                .like
                .as_ref()
                .is_some_and(|like| like.family == family)
        };
        self.members.iter().any(of_family)
    }

    /// Returns true when the group holds a limit and not only exceptions.
    fn is_limited(&self) -> bool {
        self.members.iter().any(|member| member.like.is_some())
    }

    /// The member that a new limit replaces; the others share its base.
    fn top_name(&self) -> String {
        self.members
            .last()
            .map(|member| member.name.clone())
            .unwrap_or_default()
    }
}

/// Returns true when a scope that inherits the first limit needs not write the second.
fn is_same(inherited: &ScopedLimit, limit: &ScopedLimit) -> bool {
    let (one, two) = (&inherited.limit, &limit.limit);
    inherited.family == limit.family
        && inherited.except == limit.except
        && (&one.cover, &one.key, &one.quota) == (&two.cover, &two.key, &two.quota)
        && (one.is_shadow, one.on_missing_key) == (two.is_shadow, two.on_missing_key)
}

/// Notes every limit that has a counter of its own here and shares one in the original.
fn note_split_counters(draft: &mut Draft, written: &[(String, usize)]) {
    for (at, (family, index)) in written.iter().enumerate() {
        let Some((_, first)) = written[..at].iter().find(|(other, _)| other == family) else {
            continue;
        };
        let first = draft.limits[*first].name.clone();
        draft.limits[*index].differs(
            LimitLine::Name,
            format!("the original counts it together with {first}; here it has its own counters"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(name: &str) -> ScopedLimit {
        let quota = DraftQuota::Bucket {
            count: 1,
            period: "s".to_owned(),
            burst: 1,
        };
        ScopedLimit {
            family: name.to_owned(),
            is_shared: true,
            limit: DraftLimit::new(name, "", quota),
            except: Vec::new(),
        }
    }

    fn scope(host: &str, path: &str, rank: i64, limits: &[&str]) -> Scope {
        let mut cover = Cover::of_path(path).unwrap();
        cover.hosts = (!host.is_empty())
            .then(|| host.to_owned())
            .into_iter()
            .collect();
        Scope {
            label: format!("{host}{path}"),
            preference: (rank, cover.narrowness()),
            cover,
            limits: limits.iter().map(|name| limit(name)).collect(),
        }
    }

    /// Each limit as `name<replaced`, with `!` for exceptions.
    fn laid_out(scopes: Vec<Scope>) -> Vec<String> {
        let mut draft = Draft::of_proxy(String::new());
        lay_out(scopes, &mut draft);
        let shown = |limit: &DraftLimit| {
            let lifted = if limit.quota == DraftQuota::Unlimited {
                "!"
            } else {
                ""
            };
            let replaces = limit.replaces.as_ref().map(|name| format!("<{name}"));
            format!("{lifted}{}{}", limit.name, replaces.unwrap_or_default())
        };
        draft.limits.iter().map(shown).collect()
    }

    #[test]
    fn a_place_inside_another_writes_only_what_is_different() {
        let scopes = vec![
            scope("", "/", 0, &["site", "all"]),
            scope("", "/login", 0, &["login", "all"]),
            scope("", "/static", 0, &[]),
            scope("", "/same", 0, &["site", "all"]),
        ];
        assert_eq!(
            laid_out(scopes),
            [
                "site",
                "all",
                "login<site",
                "!site-off-static<site",
                "!all-off-static<all"
            ]
        );
    }

    #[test]
    fn overlapping_places_get_the_limits_of_the_preferred_one() {
        let scopes = vec![
            scope("", "/login", 0, &["login"]),
            scope("a.example", "/", 1, &["site"]),
        ];
        assert_eq!(
            laid_out(scopes),
            ["login", "site", "!login-off-a.example-login<login"]
        );
    }

    #[test]
    fn two_limits_of_one_base_give_way_to_one_of_the_overlap() {
        let scopes = vec![
            scope("", "/", 0, &["all"]),
            scope("", "/login", 0, &["login"]),
            scope("a.example", "/", 1, &["site"]),
        ];
        assert_eq!(
            laid_out(scopes),
            ["all", "login<all", "site<all", "site-a.example-login<site"]
        );
    }

    /// Here the limit that is wanted is inherited, but the other one would win by its longer path.
    #[test]
    fn a_limit_of_one_base_is_written_again_where_another_would_win() {
        let scopes = vec![
            scope("", "/", 0, &["all"]),
            scope("a.example", "/", 1, &["site"]),
            scope("", "/login", 0, &["login"]),
        ];
        assert_eq!(
            laid_out(scopes),
            ["all", "site<all", "login<all", "site-a.example-login<login"]
        );
    }

    #[test]
    fn an_exception_can_be_lifted_again_inside_it() {
        let scopes = vec![
            scope("", "/", 0, &["site"]),
            scope("", "/static", 0, &[]),
            scope("", "/static/big", 0, &["site"]),
        ];
        assert_eq!(
            laid_out(scopes),
            [
                "site",
                "!site-off-static<site",
                "site-static-big<site-off-static"
            ]
        );
    }
}
