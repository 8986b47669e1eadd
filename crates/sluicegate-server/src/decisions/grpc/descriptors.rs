//! The descriptors of a request become charges on the limits that name exactly their entries.
//!
//! [`DescriptorParts`] holds the slices of the message from which keys are made, and
//! [`DescriptorCharges`] borrows them: two types, because a charge borrows its key.

use sluicegate::{Charge, MissingKey, Policy, Subject};
use sluicegate_core::AdHoc;
use sluicegate_core::address;
use smallvec::SmallVec;
use tonic::Status;

use super::messages::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use super::messages::envoy::service::ratelimit::v3::RateLimitRequest;
use super::units;

/// The most descriptors of one request.
const DESCRIPTORS_MAX: usize = 64;
/// The most entries of one descriptor.
const ENTRIES_MAX: usize = 32;

/// The parts of a request that charges point into.
pub(super) struct DescriptorParts<'a> {
    domain: &'a str,
    descriptors: &'a [RateLimitDescriptor],
    /// The hits of a descriptor that names none; at least 1, as Envoy defines it.
    cost: u64,
    entries: SmallVec<[DescriptorEntries<'a>; 2]>,
    /// The key of each descriptor that brings its own limit: its domain, then names and
    /// values. Empty for the others.
    wholes: SmallVec<[SmallVec<[&'a [u8]; 8]>; 2]>,
}

type DescriptorEntries<'a> = SmallVec<[(&'a str, &'a str); 4]>;

impl<'a> DescriptorParts<'a> {
    /// Checks the message against the bounds of the protocol, before any limit is looked for.
    pub(super) fn of(request: &'a RateLimitRequest) -> Result<Self, Status> {
        if request.descriptors.len() > DESCRIPTORS_MAX {
            return Err(Status::invalid_argument(format!(
                "a request has at most {DESCRIPTORS_MAX} descriptors"
            )));
        }
        let mut parts = Self {
            domain: &request.domain,
            descriptors: &request.descriptors,
            cost: u64::from(request.hits_addend.max(1)),
            entries: SmallVec::new(),
            wholes: SmallVec::new(),
        };
        for descriptor in &request.descriptors {
            if !(1..=ENTRIES_MAX).contains(&descriptor.entries.len()) {
                return Err(Status::invalid_argument(format!(
                    "a descriptor has 1 to {ENTRIES_MAX} entries"
                )));
            }
            parts.entries.push(
                descriptor
                    .entries
                    .iter()
                    .map(|own| (own.key.as_str(), own.value.as_str()))
                    .collect(),
            );
            let mut whole = SmallVec::new();
            if descriptor.limit.is_some() {
                whole.push(request.domain.as_bytes());
                whole.extend(
                    descriptor
                        .entries
                        .iter()
                        .flat_map(|own| [own.key.as_bytes(), own.value.as_bytes()]),
                );
            }
            parts.wholes.push(whole);
        }
        Ok(parts)
    }

    /// The caller that each descriptor describes.
    pub(super) fn subjects(&self) -> SmallVec<[Subject<'_>; 2]> {
        let address_in = |entries: &DescriptorEntries<'_>| {
            let (_, address) = entries.iter().find(|(name, _)| *name == "remote_address")?;
            address::parse(address)
        };
        let mut subjects = SmallVec::new();
        for entries in &self.entries {
            subjects.push(Subject {
                client_ip: address_in(entries),
                domain: Some(self.domain),
                descriptors: entries,
                ..Subject::ANONYMOUS
            });
        }
        subjects
    }
}

/// The charges to take, those to give back, and the descriptor that each belongs to.
#[derive(Default)]
pub(super) struct DescriptorCharges<'a> {
    pub(super) take: SmallVec<[Charge<'a>; 2]>,
    pub(super) give: SmallVec<[Charge<'a>; 2]>,
    /// The index of a descriptor, and that of one of its charges.
    pub(super) shares: SmallVec<[(usize, ChargeIndex); 2]>,
}

/// The reason why a message cannot be decided.
#[derive(Debug)]
pub(super) enum DescriptorError {
    /// It breaks a rule of the protocol.
    Invalid(Status),
    /// A descriptor lacks a part of a limit's key.
    Unidentified(MissingKey),
}

/// The index of a charge, in the list it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChargeIndex {
    Take(usize),
    Give(usize),
}

impl<'a> DescriptorCharges<'a> {
    /// Finds the limits. Charges of two descriptors on one counter become one.
    pub(super) fn of(
        policy: &'a Policy,
        parts: &'a DescriptorParts<'_>,
        subjects: &'a [Subject<'a>],
    ) -> Result<Self, DescriptorError> {
        let mut charges = Self::default();
        for (place, (descriptor, subject)) in parts.descriptors.iter().zip(subjects).enumerate() {
            let cost = descriptor.hits_addend.unwrap_or(parts.cost);
            let own = policy.charges_for_descriptor(subject, cost);
            let own = own.map_err(DescriptorError::Unidentified)?;
            let quota = descriptor
                .limit
                .as_ref()
                .and_then(|own| units::quota_of(own.requests_per_unit, own.unit));
            let Some(quota) = quota else {
                own.iter()
                    .for_each(|charge| charges.add(place, *charge, descriptor.is_negative_hits));
                continue;
            };
            let quota = quota.map_err(|error| {
                DescriptorError::Invalid(Status::invalid_argument(format!("limit: {error}")))
            })?;
            let mut charge =
                policy.charge_ad_hoc(AdHoc::Override, &parts.wholes[place], quota, cost);
            // A limit of the gateway is only observed where all configured ones are.
            charge.enforced = own.is_empty() || own.iter().any(|charge| charge.enforced);
            charges.add(place, charge, descriptor.is_negative_hits);
        }
        Ok(charges)
    }

    /// Adds a charge, or its cost to the same charge of another descriptor: a store decides each
    /// counter once.
    fn add(&mut self, descriptor: usize, charge: Charge<'a>, is_given: bool) {
        let list = if is_given {
            &mut self.give
        } else {
            &mut self.take
        };
        let is_same = |own: &Charge<'_>| {
            own.limit_index == charge.limit_index
                && own.quota == charge.quota
                && own.key.parts().eq(charge.key.parts())
        };
        let place = match list.iter().position(is_same) {
            Some(place) => {
                list[place].cost = list[place].cost.saturating_add(charge.cost);
                place
            }
            None => {
                list.push(charge);
                list.len() - 1
            }
        };
        self.shares.push((
            descriptor,
            if is_given {
                ChargeIndex::Give(place)
            } else {
                ChargeIndex::Take(place)
            },
        ));
    }
}
