//! Our reading of a question beside that of prost, for tests and fuzzing.

use prost::Message;

use super::messages::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use super::messages::envoy::service::ratelimit::v3::RateLimitRequest;
use super::question::{DESCRIPTORS_MAX, Descriptor, ENTRIES_MAX, Question};

/// Panics unless both accept the message with the same meaning, or both refuse it.
pub(super) fn compare(message: &[u8]) {
    let (ours, theirs) = (Question::decode(message), RateLimitRequest::decode(message));
    let (ours, theirs) = match (ours, theirs) {
        (Err(_), Err(_)) => return,
        (Ok(ours), Ok(theirs)) => (ours, theirs),
        (ours, theirs) => panic!("{message:x?} is {ours:?} to us and {theirs:?} to prost"),
    };
    assert_eq!(ours.domain, theirs.domain);
    assert_eq!(ours.hits_addend, theirs.hits_addend);
    let count = theirs.descriptors.len().min(DESCRIPTORS_MAX + 1);
    assert_eq!(ours.descriptors.len(), count);
    for (ours, theirs) in ours.descriptors.iter().zip(&theirs.descriptors) {
        compare_descriptor(ours, theirs);
    }
}

fn compare_descriptor(ours: &Descriptor<'_>, theirs: &RateLimitDescriptor) {
    assert_eq!(ours.hits_addend, theirs.hits_addend);
    assert_eq!(ours.is_negative_hits, theirs.is_negative_hits);
    let limit = theirs
        .limit
        .map(|limit| (limit.requests_per_unit, limit.unit));
    let our_limit = ours
        .limit
        .map(|limit| (limit.requests_per_unit, limit.unit));
    assert_eq!(our_limit, limit);
    let entries = theirs.entries.iter().take(ENTRIES_MAX + 1);
    let entries = entries.map(|entry| (&*entry.key, &*entry.value));
    assert!(ours.entries.iter().copied().eq(entries));
}
