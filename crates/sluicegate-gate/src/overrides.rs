//! Bans and overrides: what operators have ordered for a while, and whom limits have banned.
//!
//! `order.rs` has an order as it is written down and given, `ban_record.rs` the bans of limits; here
//! is the set of those in force, made for looking up on a request's way. Most of the time there are
//! none, and a look costs one load.

mod ban_record;
mod order;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::{ArcSwap, Guard};
use sluicegate_config::{Access, AccessList};
use sluicegate_core::{Charge, Policy, Quota};

pub use self::ban_record::{
    AUTOMATIC_ID, BANS_MAX, BanRecord, BanRequest, BanTarget, add_ban, make_room,
};
pub use self::order::{AutomaticBan, Granted, Order, Override, OverrideRequest, What};
use crate::access::AccessLists;
use crate::telemetry::metrics::OrderCounts;

/// What operators have ordered, as requests look at it.
pub struct ActiveOverrides {
    current: ArcSwap<OverrideSet>,
    /// Most of the time there are none, and one look at these is all it costs.
    has_bans: AtomicBool,
    has_overrides: AtomicBool,
}

/// OverrideSet, by what they are about.
#[derive(Debug, Default)]
pub struct OverrideSet {
    /// Every unexpired order, also one that this policy has no limit for.
    pub all: Vec<Arc<Order>>,
    bans: AccessLists,
    automatic_bans: AccessLists,
    overrides: HashMap<String, LimitOverrides>,
}

/// Overrides of one limit.
#[derive(Debug, Default)]
struct LimitOverrides {
    every_key: Option<(Option<Quota>, Arc<Order>)>,
    by_key: HashMap<String, (Option<Quota>, Arc<Order>)>,
}

impl OverrideSet {
    /// The stored orders that are unexpired and apply to this policy.
    pub fn new(written: &[Order], policy: &Policy, now_ms: u64) -> Self {
        let all: Vec<Arc<Order>> = written
            .iter()
            .filter(|order| !order.is_over(now_ms))
            .cloned()
            .map(Arc::new)
            .collect();
        let mut overrides: HashMap<String, LimitOverrides> = HashMap::new();
        for order in &all {
            if let What::Override(wanted) = &order.what {
                note(wanted, order, policy, &mut overrides);
            }
        }
        Self {
            bans: banned(&all),
            automatic_bans: AccessLists::default(),
            all,
            overrides,
        }
    }

    /// The same set with the bans of limits that are in force.
    #[must_use]
    pub fn with_automatic_bans(mut self, records: &[BanRecord], now_ms: u64) -> Self {
        let in_force = records.iter().filter(|record| record.is_in_force(now_ms));
        let orders: Vec<Arc<Order>> = in_force.map(Order::of_record).map(Arc::new).collect();
        self.automatic_bans = banned(&orders);
        self.all.extend(orders);
        self
    }

    /// The override of a charge, and the order it comes from; the quota `None` is no limit.
    pub fn of_charge(&self, charge: &Charge<'_>) -> Option<(Option<Quota>, &Arc<Order>)> {
        let of_limit = self.overrides.get(&charge.key.limit().name)?;
        let by_key = match of_limit.by_key.is_empty() {
            true => None,
            false => of_limit.by_key.get(&charge.key.to_string()),
        };
        by_key
            .or(of_limit.every_key.as_ref())
            .map(|(quota, order)| (*quota, order))
    }

    /// How many bans and overrides there are.
    pub(crate) fn count(&self) -> OrderCounts {
        let mut counts = OrderCounts::default();
        for order in &self.all {
            match (order.kind(), &order.automatic) {
                ("ban", None) => counts.bans += 1,
                ("ban", Some(_)) => counts.automatic_bans += 1,
                _ => counts.overrides += 1,
            }
        }
        counts
    }

    /// The lists of those whom operators have banned.
    pub(crate) fn bans(&self) -> &AccessLists {
        &self.bans
    }

    /// The lists of those whom limits have banned.
    pub(crate) fn automatic_bans(&self) -> &AccessLists {
        &self.automatic_bans
    }

    /// The ban by an operator that meets an address or a principal.
    pub fn ban_of(
        &self,
        address: Option<std::net::IpAddr>,
        principal: Option<&str>,
    ) -> Option<&Arc<Order>> {
        let mut bans = self.all.iter().filter(|order| order.automatic.is_none());
        bans.find(|order| order.meets(address, principal))
    }

    /// The ban by a limit that meets an address or a principal.
    pub(crate) fn automatic_ban_of(
        &self,
        address: Option<std::net::IpAddr>,
        principal: Option<&str>,
    ) -> Option<&Arc<Order>> {
        let mut bans = self.all.iter().filter(|order| order.automatic.is_some());
        bans.find(|order| order.meets(address, principal))
    }
}

/// Those who are banned by these orders, made for looking up.
fn banned(orders: &[Arc<Order>]) -> AccessLists {
    let mut deny = AccessList::default();
    for order in orders {
        match &order.what {
            What::BanClients(net) => deny.cidrs.push(*net),
            What::BanPrincipal(principal) => deny.keys.push(principal.clone()),
            What::Override(_) => {}
        }
    }
    AccessLists::new(&Access {
        deny,
        ..Access::default()
    })
}

/// An override of a limit that this policy does not have, or of a key that cannot be one, waits for a policy that does.
fn note(
    wanted: &Override,
    order: &Arc<Order>,
    policy: &Policy,
    overrides: &mut HashMap<String, LimitOverrides>,
) {
    let Ok(quota) = wanted.grant.quota() else {
        return;
    };
    let of_limit = overrides.entry(wanted.limit.clone()).or_default();
    let Some(key) = &wanted.key else {
        of_limit.every_key = Some((quota, Arc::clone(order)));
        return;
    };
    let parts: Vec<&str> = key.iter().map(String::as_str).collect();
    if let Ok(Some(charge)) = policy.charge_named(&wanted.limit, &parts, 0) {
        of_limit
            .by_key
            .insert(charge.key.to_string(), (quota, Arc::clone(order)));
    }
}

impl ActiveOverrides {
    /// Nothing is ordered yet.
    pub(crate) fn new() -> Self {
        Self {
            current: ArcSwap::from_pointee(OverrideSet::default()),
            has_bans: AtomicBool::new(false),
            has_overrides: AtomicBool::new(false),
        }
    }

    /// The set in force, as the admin API lists it.
    pub fn current(&self) -> Guard<Arc<OverrideSet>> {
        self.current.load()
    }

    /// Puts another set in force for the next request.
    pub fn set(&self, orders: OverrideSet) {
        let has_bans = !orders.bans.is_empty() || !orders.automatic_bans.is_empty();
        let has_overrides = !orders.overrides.is_empty();
        self.current.store(Arc::new(orders));
        self.has_bans.store(has_bans, Ordering::Release);
        self.has_overrides.store(has_overrides, Ordering::Release);
    }

    /// The orders, if anybody is banned.
    #[inline]
    pub(crate) fn with_bans(&self) -> Option<Guard<Arc<OverrideSet>>> {
        self.has_bans
            .load(Ordering::Acquire)
            .then(|| self.current())
    }

    /// The orders, if anybody has another quota.
    #[inline]
    pub(crate) fn with_overrides(&self) -> Option<Guard<Arc<OverrideSet>>> {
        self.has_overrides
            .load(Ordering::Acquire)
            .then(|| self.current())
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_core::{Limit, Subject};

    use super::order::Grant;
    use super::*;

    fn order(what: What, until_ms: u64) -> Order {
        Order {
            id: "x".into(),
            what,
            by: "ann".into(),
            reason: "test".into(),
            since_ms: 0,
            until_ms,
            automatic: None,
        }
    }

    fn for_key(key: Option<&str>, grant: Grant) -> What {
        What::Override(Override {
            limit: "per-ip".into(),
            key: key.map(|key| vec![key.into()]),
            grant,
        })
    }

    fn rate(rate: &str) -> Grant {
        Grant::Rate {
            rate: rate.into(),
            burst: None,
        }
    }

    fn policy() -> Policy {
        Policy::new([Limit::per_client("per-ip", Quota::per_second(1).burst(1))]).unwrap()
    }

    fn quota_of(orders: &OverrideSet, policy: &Policy, address: &str) -> Option<Option<Quota>> {
        let subject = Subject {
            client_ip: Some(address.parse().unwrap()),
            ..Subject::ANONYMOUS
        };
        let charges = policy.charges_for(&subject, 1).unwrap();
        orders.of_charge(&charges[0]).map(|(quota, _)| quota)
    }

    #[test]
    fn a_key_of_its_own_comes_before_all_keys_and_other_spellings_are_the_same_key() {
        let policy = policy();
        let written = [
            order(for_key(None, rate("5/s")), 10),
            order(for_key(Some("::ffff:203.0.113.7"), Grant::Unlimited), 10),
        ];
        let orders = OverrideSet::new(&written, &policy, 9);
        assert_eq!(quota_of(&orders, &policy, "203.0.113.7"), Some(None));
        assert_eq!(
            quota_of(&orders, &policy, "203.0.113.8"),
            Some(Some(
                Quota::new(5, sluicegate_core::Nanos::SECOND, 5).unwrap()
            ))
        );
    }

    #[test]
    fn what_is_over_or_about_nothing_here_does_not_hold() {
        let policy = policy();
        let net = "203.0.113.0/24".parse().unwrap();
        let written = [
            order(for_key(None, rate("5/s")), 10),
            order(What::BanClients(net), 10),
        ];
        let orders = OverrideSet::new(&written, &policy, 10);
        assert!(orders.all.is_empty() && orders.bans().is_empty());
        assert_eq!(quota_of(&orders, &policy, "203.0.113.8"), None);
        let elsewhere = [order(
            What::Override(Override {
                limit: "gone".into(),
                key: Some(vec!["a".into()]),
                grant: Grant::Unlimited,
            }),
            10,
        )];
        let orders = OverrideSet::new(&elsewhere, &policy, 1);
        assert_eq!(
            (orders.all.len(), quota_of(&orders, &policy, "203.0.113.8")),
            (1, None)
        );
    }

    #[test]
    fn who_is_banned_is_found_by_address_and_by_name() {
        let written = [
            order(What::BanClients("203.0.113.0/24".parse().unwrap()), 10),
            order(What::BanPrincipal("ann".into()), 10),
        ];
        let orders = OverrideSet::new(&written, &policy(), 1);
        let address = |text: &str| Some(text.parse().unwrap());
        assert!(orders.ban_of(address("203.0.113.200"), None).is_some());
        assert!(orders.ban_of(address("::ffff:203.0.113.1"), None).is_some());
        assert!(orders.ban_of(address("203.0.114.1"), Some("bob")).is_none());
        assert!(orders.ban_of(None, Some("ann")).is_some());
        assert!(
            orders
                .bans()
                .of_address("203.0.113.1".parse().unwrap())
                .is_some()
        );
    }
}
