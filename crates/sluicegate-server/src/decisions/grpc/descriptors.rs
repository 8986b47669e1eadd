//! The descriptors of a request become charges on the limits that name exactly their entries.
//!
//! [`DescriptorParts`] holds the slices of the question from which keys are made, and
//! [`DescriptorCharges`] borrows them: two types, because a charge borrows its key.

use sluicegate::{Charge, MissingKey, Policy, Subject};
use sluicegate_core::AdHoc;
use sluicegate_core::address;
use smallvec::SmallVec;
use tonic::Status;

use super::question::{DESCRIPTORS_MAX, Descriptor, ENTRIES_MAX, Question};
use super::units;

/// The parts of a request that charges point into.
pub(super) struct DescriptorParts<'a, 'm> {
    question: &'a Question<'m>,
    /// The keys of descriptors that bring their own limits: the domain, then names and values. Empty
    /// for the others, and as a whole where no descriptor has one, which is usual.
    wholes: Vec<SmallVec<[&'m [u8]; 8]>>,
}

impl<'a, 'm> DescriptorParts<'a, 'm> {
    /// Checks the message against the bounds of the protocol, before any limit is looked for.
    pub(super) fn of(question: &'a Question<'m>) -> Result<Self, Status> {
        let descriptors = &question.descriptors;
        if descriptors.len() > DESCRIPTORS_MAX {
            return Err(Status::invalid_argument(format!(
                "a request has at most {DESCRIPTORS_MAX} descriptors"
            )));
        }
        let is_in_bounds =
            |descriptor: &Descriptor<'_>| (1..=ENTRIES_MAX).contains(&descriptor.entries.len());
        if !descriptors.iter().all(is_in_bounds) {
            return Err(Status::invalid_argument(format!(
                "a descriptor has 1 to {ENTRIES_MAX} entries"
            )));
        }
        let has_limit = |descriptor: &Descriptor<'_>| descriptor.limit.is_some();
        let wholes = match descriptors.iter().any(has_limit) {
            true => descriptors
                .iter()
                .map(|descriptor| whole_key(question.domain, descriptor))
                .collect(),
            false => Vec::new(),
        };
        Ok(Self { question, wholes })
    }

    /// The caller that each descriptor describes.
    pub(super) fn subjects(&self) -> SmallVec<[Subject<'_>; 2]> {
        let mut subjects = SmallVec::new();
        for descriptor in &self.question.descriptors {
            subjects.push(Subject {
                client_ip: address_in(descriptor),
                domain: Some(self.question.domain),
                descriptors: &descriptor.entries,
                ..Subject::ANONYMOUS
            });
        }
        subjects
    }
}

/// The key of a descriptor with its own limit; empty for others.
fn whole_key<'a>(domain: &'a str, descriptor: &Descriptor<'a>) -> SmallVec<[&'a [u8]; 8]> {
    let mut whole = SmallVec::new();
    if descriptor.limit.is_some() {
        whole.push(domain.as_bytes());
        let entries = descriptor.entries.iter();
        whole.extend(entries.flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]));
    }
    whole
}

/// The client's address, where a descriptor has it.
fn address_in(descriptor: &Descriptor<'_>) -> Option<std::net::IpAddr> {
    let mut entries = descriptor.entries.iter();
    let (_, address) = entries.find(|(name, _)| *name == "remote_address")?;
    address::parse(address)
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
        parts: &'a DescriptorParts<'_, '_>,
        subjects: &'a [Subject<'a>],
    ) -> Result<Self, DescriptorError> {
        let mut charges = Self::default();
        let question = parts.question;
        // At least 1, as Envoy defines it.
        let usual_cost = u64::from(question.hits_addend.max(1));
        for (place, (descriptor, subject)) in question.descriptors.iter().zip(subjects).enumerate()
        {
            let cost = descriptor.hits_addend.unwrap_or(usual_cost);
            let own = policy.charges_for_descriptor(subject, cost);
            let own = own.map_err(DescriptorError::Unidentified)?;
            let quota = descriptor
                .limit
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
