//! Descriptors without a connection, for the targets in `fuzz/`.

use sluicegate::{Charge, Policy};

use super::descriptors::{ChargeIndex, DescriptorCharges, DescriptorParts};
use super::question::Question;
use super::units;

/// The charges that the descriptors of a message become.
#[derive(Debug, PartialEq, Eq)]
pub struct ChargedDescriptors {
    /// Counter and cost of each charge that is taken.
    pub taken: Vec<(String, u64)>,
    /// Counter and cost of each charge that is given back.
    pub given: Vec<(String, u64)>,
    /// For each descriptor and charge: the descriptor, whether it is taken, and its index.
    pub shares: Vec<(usize, bool, usize)>,
    /// The rate that is told for each charge that is taken.
    pub rates: Vec<u32>,
}

/// Finds the charges; `None` when the message is refused.
pub fn charge_descriptors(policy: &Policy, message: &[u8]) -> Option<ChargedDescriptors> {
    let question = Question::decode(message).ok()?;
    let parts = DescriptorParts::of(&question).ok()?;
    let subjects = parts.subjects();
    let charges = DescriptorCharges::of(policy, &parts, &subjects).ok()?;
    let share = |(descriptor, index): &(usize, ChargeIndex)| match *index {
        ChargeIndex::Take(index) => (*descriptor, true, index),
        ChargeIndex::Give(index) => (*descriptor, false, index),
    };
    Some(ChargedDescriptors {
        taken: charges.take.iter().map(named).collect(),
        given: charges.give.iter().map(named).collect(),
        shares: charges.shares.iter().map(share).collect(),
        rates: charges
            .take
            .iter()
            .map(|charge| units::rate_of(&charge.quota).0)
            .collect(),
    })
}

/// The counter of a charge in full, and its cost.
fn named(charge: &Charge<'_>) -> (String, u64) {
    let parts: Vec<String> = charge.key.parts().map(|part| format!("{part:?}")).collect();
    let counter = format!("{:?} {:?} {parts:?}", charge.limit_index, charge.quota);
    (counter, charge.cost)
}

/// Compares our reading of a message with prost's; panics where they differ.
pub fn compare_with_prost(message: &[u8]) {
    super::comparison::compare(message);
}
