//! The charges that a request makes at the limits that cover it.

use super::Policy;
use super::prepared::{PlainCharge, PlainCharges};
use crate::charge::{Charge, Draw};
use crate::counting::Counting;
use crate::key::{Key, NameHash};
use crate::limit::{Limit, OnMissingKey};
use crate::list::List;
use crate::missing_key::MissingKey;
use crate::subject::Subject;

impl Policy {
    /// The charges of the limits at these indices.
    #[inline(always)]
    pub(super) fn charges_of<'a>(
        &'a self,
        indices: &[usize],
        subject: &'a Subject<'a>,
        cost: u64,
    ) -> Result<List<Charge<'a>>, MissingKey> {
        // Most requests meet one limit or two, and those need nothing but the address.
        match self.plain_charges_of(indices, subject, cost) {
            Some(PlainCharges::One(only)) => Ok(List::One(only.to_charge(self))),
            Some(PlainCharges::Two(first, second)) => {
                Ok(List::Two([first.to_charge(self), second.to_charge(self)]))
            }
            None => self.other_charges_of(indices, subject, cost),
        }
    }

    /// The charges of a request that is covered by one limit or two, and makes nothing but plain
    /// charges; `None` for every other request, which is charged by
    /// [`charges_for`](Policy::charges_for).
    ///
    /// ```
    /// use sluicegate_core::{Limit, PlainCharges, Policy, Quota, Subject};
    ///
    /// let policy = Policy::new([Limit::per_client("per-ip", Quota::per_second(10))])?;
    /// let client_ip = Some("203.0.113.7".parse()?);
    /// let subject = Subject { client_ip, ..Subject::ANONYMOUS };
    /// let Some(PlainCharges::One(plain)) = policy.plain_charges(&subject, 1) else {
    ///     panic!("one limit covers the request, by its address");
    /// };
    /// assert_eq!(plain.to_charge(&policy).key.to_string(), "per-ip:203.0.113.7");
    /// assert!(policy.plain_charges(&Subject::ANONYMOUS, 1).is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn plain_charges(&self, subject: &Subject<'_>, cost: u64) -> Option<PlainCharges<'_>> {
        self.plain_charges_of(self.index.charged(subject.path)?, subject, cost)
    }

    #[inline(always)]
    fn plain_charges_of(
        &self,
        indices: &[usize],
        subject: &Subject<'_>,
        cost: u64,
    ) -> Option<PlainCharges<'_>> {
        match *indices {
            [only] => Some(PlainCharges::One(self.plain_charge(only, subject, cost)?)),
            [first, second] => Some(PlainCharges::Two(
                self.plain_charge(first, subject, cost)?,
                self.plain_charge(second, subject, cost)?,
            )),
            _ => None,
        }
    }

    #[inline(always)]
    fn plain_charge(
        &self,
        index: usize,
        subject: &Subject<'_>,
        cost: u64,
    ) -> Option<PlainCharge<'_>> {
        self.prepared[index].plain_charge(index, subject, cost)
    }

    /// The same for any number of limits of any kind.
    #[inline(never)]
    fn other_charges_of<'a>(
        &'a self,
        indices: &[usize],
        subject: &'a Subject<'a>,
        cost: u64,
    ) -> Result<List<Charge<'a>>, MissingKey> {
        let mut charges = List::Empty;
        for &index in indices {
            self.charge_for(index, subject, cost, &mut charges)?;
        }
        Ok(charges)
    }

    /// The key that a request is charged to at one limit; `None` when a part is missing and the rule
    /// is to skip the limit.
    pub(super) fn key_of<'a>(
        &'a self,
        index: usize,
        subject: &'a Subject<'a>,
    ) -> Result<Option<Key<'a>>, MissingKey> {
        self.limits[index].key_for(self.prepared[index].name_hash, subject)
    }

    /// Adds the charge of one limit that covers the request. Adds none when the limit is unlimited
    /// for this caller, or when a part of the key is missing and the rule is to skip it.
    fn charge_for<'a>(
        &'a self,
        index: usize,
        subject: &'a Subject<'a>,
        cost: u64,
        charges: &mut List<Charge<'a>>,
    ) -> Result<(), MissingKey> {
        let limit = &self.limits[index];
        let prepared = &self.prepared[index];
        let own = prepared.quota;
        let quota = match &limit.factor {
            Some(rule) => own.and_then(|quota| rule.quota_of(subject.principal, quota)),
            None => own,
        };
        let Some(quota) = quota else {
            return Ok(());
        };
        let Some(key) = limit.key_for(prepared.name_hash, subject)? else {
            return Ok(());
        };
        // Only a request is looked at until it is answered; whoever names a limit charges it.
        let draw = match limit.counting {
            Counting::When(_) => Draw::Look,
            Counting::Always | Counting::RefundWhen(_) => Draw::Take,
        };
        let units = limit.units_of_request(subject, cost)?;
        charges.push(Charge {
            draw,
            ..prepared.charge(index, key, quota, units)
        });
        Ok(())
    }
}

impl Limit {
    /// The key that a request is charged to; `None` when a part is missing and the rule is to skip
    /// the limit.
    #[inline]
    fn key_for<'a>(
        &'a self,
        name_hash: NameHash,
        subject: &'a Subject<'a>,
    ) -> Result<Option<Key<'a>>, MissingKey> {
        match Key::of_request(self, name_hash, subject) {
            Ok(key) => Ok(Some(key)),
            Err(missing) => self.key_without_part(name_hash, subject, missing),
        }
    }

    /// The key of a request that lacks a part, by the rule of the limit.
    #[cold]
    fn key_without_part<'a>(
        &'a self,
        name_hash: NameHash,
        subject: &'a Subject<'a>,
        missing: MissingKey,
    ) -> Result<Option<Key<'a>>, MissingKey> {
        match self.missing_key_rule() {
            OnMissingKey::Skip => Ok(None),
            OnMissingKey::Shared => Ok(Some(Key::shared(self, name_hash))),
            OnMissingKey::ClientIp => Key::address_instead(self, name_hash, subject)
                .ok_or(missing)
                .map(Some),
            OnMissingKey::Reject => Err(missing),
        }
    }
}
