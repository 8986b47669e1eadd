//! What a charge on a limit is made of, as far as it is the same for every request.

use std::hash::Hasher;
use std::net::{IpAddr, Ipv4Addr};

use crate::address::Prefixes;
use crate::charge::{Charge, Draw};
use crate::counting::Counting;
use crate::failure::FailurePolicy;
use crate::key::{Key, NameHash, PlainKey};
use crate::limit::{Cost, KeyPart, Limit, Mode};
use crate::quota::Quota;
use crate::subject::Subject;

use super::Policy;

/// The part of a limit's charges that is known when the policy is made, in the order in which a
/// request reads it.
#[derive(Debug)]
pub(super) struct PreparedLimit {
    /// True when the limit covers every request that reaches its path.
    pub(super) has_only_path: bool,
    /// The kind of charge that it makes.
    kind: ChargeKind,
    pub(super) name_hash: NameHash,
    /// The quota that its charges are made with; `None` when it makes none.
    pub(super) quota: Option<Quota>,
    /// The same where there is one: plain charges do not ask.
    plain_quota: Quota,
    /// The units for each unit of a request's cost; 1 where a header says them.
    number: u64,
    /// The bits of an IPv4 address that name a caller.
    mask_v4: Ipv4Addr,
    prefixes: Prefixes,
    enforced: bool,
    on_failure: Option<FailurePolicy>,
}

/// How much of a request has to be read to charge it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChargeKind {
    /// The client's address is the key, and the limit itself says all the rest.
    OfAddress,
    /// There is one counter for all requests, and the limit itself says all the rest.
    OfAll,
    /// Anything else.
    Other,
}

impl PreparedLimit {
    pub(super) fn new(limit: &Limit, quota: Option<Quota>) -> Self {
        let number = match limit.cost {
            Cost::Fixed(number) => Some(number),
            Cost::Header(_) => None,
        };
        let depends_on_request =
            number.is_none() || limit.factor.is_some() || limit.counting != Counting::Always;
        let kind = match limit.key[..] {
            _ if depends_on_request || quota.is_none() => ChargeKind::Other,
            [KeyPart::ClientIp] => ChargeKind::OfAddress,
            [KeyPart::Global] => ChargeKind::OfAll,
            _ => ChargeKind::Other,
        };
        Self {
            has_only_path: limit.matching.conditions() == 0,
            kind,
            name_hash: NameHash::of(&limit.name),
            quota,
            plain_quota: quota.unwrap_or(Quota::TokenBucket(Quota::per_second(1))),
            number: number.unwrap_or(1),
            mask_v4: limit.prefixes.mask_v4(),
            prefixes: limit.prefixes,
            enforced: limit.mode == Mode::Enforce,
            on_failure: limit.on_failure,
        }
    }

    /// The charge of a request where it needs nothing but its address; `None` where a rule has to be
    /// asked, or where the address is missing.
    #[inline(always)]
    pub(super) fn plain_charge(
        &self,
        limit_index: usize,
        subject: &Subject<'_>,
        cost: u64,
    ) -> Option<PlainCharge<'_>> {
        let key = match (self.kind, subject.client_ip) {
            (ChargeKind::OfAddress, Some(IpAddr::V4(v4))) => PlainKey::of_v4(v4 & self.mask_v4),
            (ChargeKind::OfAddress, Some(IpAddr::V6(v6))) => PlainKey::of_v6(v6, self.prefixes),
            (ChargeKind::OfAll, _) => PlainKey::ALL,
            _ => return None,
        };
        Some(PlainCharge {
            prepared: self,
            limit_index,
            key,
            units: cost.saturating_mul(self.number),
        })
    }

    /// A charge with what its limit says about mode and failure.
    #[inline(always)]
    pub(super) fn charge<'a>(
        &self,
        limit_index: usize,
        key: Key<'a>,
        quota: Quota,
        units: u64,
    ) -> Charge<'a> {
        Charge {
            key,
            quota,
            cost: units,
            limit_index,
            draw: Draw::Take,
            enforced: self.enforced,
            on_failure: self.on_failure,
        }
    }
}

/// A charge on a limit that counts by client address, or all requests together, and whose other rules
/// need nothing of the request.
///
/// It is a [`Charge`] in fewer words: most requests make nothing else, and each of them should cost
/// as little as it can. [`PlainCharge::to_charge`] makes the same charge in the usual form.
#[derive(Clone, Copy, Debug)]
pub struct PlainCharge<'a> {
    prepared: &'a PreparedLimit,
    limit_index: usize,
    key: PlainKey,
    units: u64,
}

/// The charges of a request that makes nothing but plain ones, in the order of their limits.
#[derive(Clone, Copy, Debug)]
pub enum PlainCharges<'a> {
    /// One limit covers it.
    One(PlainCharge<'a>),
    /// Two limits cover it.
    Two(PlainCharge<'a>, PlainCharge<'a>),
}

impl<'a> PlainCharge<'a> {
    /// Hashes its key, as [`Key`] would.
    #[inline(always)]
    pub fn hash_key<H: Hasher>(&self, state: &mut H) {
        self.key.hash(self.prepared.name_hash, state);
    }

    /// The numbers to enforce.
    #[inline(always)]
    pub fn quota(&self) -> &'a Quota {
        &self.prepared.plain_quota
    }

    /// Units to spend.
    #[inline(always)]
    pub fn cost(&self) -> u64 {
        self.units
    }

    /// Returns true when a denial stops the request.
    #[inline(always)]
    pub fn is_enforced(&self) -> bool {
        self.prepared.enforced
    }

    /// The limit's index in its policy.
    #[inline(always)]
    pub fn limit_index(&self) -> usize {
        self.limit_index
    }

    /// The same charge in the usual form; `policy` is the one that it comes from.
    pub fn to_charge(&self, policy: &'a Policy) -> Charge<'a> {
        let limit = policy.limit_at(self.limit_index);
        let name_hash = self.prepared.name_hash;
        let key = match self.key.address() {
            Some(address) => Key::of_masked(limit, name_hash, address),
            None => Key::of_all(limit, name_hash),
        };
        let quota = self.prepared.plain_quota;
        self.prepared
            .charge(self.limit_index, key, quota, self.units)
    }
}
