//! Messages that are valid, nearly valid or not at all, read by us and by prost.

use proptest::prelude::*;
use prost::Message;

use super::comparison::compare;
use super::messages::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use super::messages::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{
    Entry, RateLimitOverride,
};
use super::messages::envoy::service::ratelimit::v3::RateLimitRequest;
use super::question::Question;

/// Entries of a message: a number that may be a field's, and a value of some form.
fn fields(depth: u32) -> BoxedStrategy<Vec<u8>> {
    let key = |wire_type: u8| (1_u8..6).prop_map(move |tag| vec![tag << 3 | wire_type]);
    let varint = prop_oneof![
        any::<u8>().prop_map(|small| vec![small & 0x7f]),
        any::<u64>().prop_map(|number| {
            let mut bytes = Vec::new();
            prost::encoding::encode_varint(number, &mut bytes);
            bytes
        }),
        proptest::collection::vec(any::<u8>(), 0..12),
    ];
    let delimited = |bytes: Vec<u8>| {
        let mut out = Vec::new();
        prost::encoding::encode_varint(bytes.len() as u64, &mut out);
        [out, bytes].concat()
    };
    let text = prop_oneof![
        "[a-z/ü]{0,6}".prop_map(String::into_bytes),
        proptest::collection::vec(any::<u8>(), 0..4),
    ];
    let leaf = prop_oneof![
        3 => (key(0), varint).prop_map(|(key, value)| [key, value].concat()),
        3 => (key(2), text.prop_map(delimited)).prop_map(|(key, value)| [key, value].concat()),
        1 => (key(1), any::<[u8; 8]>()).prop_map(|(key, value)| [key, value.to_vec()].concat()),
        1 => (key(5), any::<[u8; 4]>()).prop_map(|(key, value)| [key, value.to_vec()].concat()),
        1 => proptest::collection::vec(any::<u8>(), 0..6),
    ];
    if depth == 0 {
        return leaf.boxed();
    }
    let inner = || proptest::collection::vec(fields(depth - 1), 0..3).prop_map(|all| all.concat());
    let message = (key(2), inner().prop_map(delimited));
    let group = (3_u8..9, inner(), 3_u8..9);
    prop_oneof![
        3 => leaf,
        4 => message.prop_map(|(key, value)| [key, value].concat()),
        1 => group.prop_map(|(start, inner, end)| {
            [vec![start << 3 | 3], inner, vec![end << 3 | 4]].concat()
        }),
        1 => (3_u8..9, inner()).prop_map(|(tag, inner)| {
            [vec![tag << 3 | 3], inner, vec![tag << 3 | 4]].concat()
        }),
    ]
    .boxed()
}

fn valid_request() -> impl Strategy<Value = RateLimitRequest> {
    let text = || "[a-z_ü]{0,5}";
    let entries = proptest::collection::vec((text(), text()), 0..40);
    let limit = proptest::option::of((any::<u32>(), any::<i32>()));
    let descriptor = (
        entries,
        limit,
        proptest::option::of(any::<u64>()),
        any::<bool>(),
    );
    let descriptor = descriptor.prop_map(|(entries, limit, hits_addend, is_negative_hits)| {
        let entries = entries.into_iter().map(|(key, value)| Entry { key, value });
        RateLimitDescriptor {
            entries: entries.collect(),
            limit: limit.map(|(requests_per_unit, unit)| RateLimitOverride {
                requests_per_unit,
                unit,
            }),
            hits_addend,
            is_negative_hits,
        }
    });
    let descriptors = prop_oneof![
        4 => proptest::collection::vec(descriptor, 0..4),
        1 => (60_usize..70).prop_map(|count| vec![RateLimitDescriptor::default(); count]),
    ];
    (text(), descriptors, any::<u32>()).prop_map(|(domain, descriptors, hits_addend)| {
        RateLimitRequest {
            domain,
            descriptors,
            hits_addend,
        }
    })
}

proptest! {
    #[test]
    fn valid_messages_mean_what_prost_says(request in valid_request(), cut in any::<prop::sample::Index>()) {
        let message = request.encode_to_vec();
        assert!(Question::decode(&message).is_ok());
        compare(&message);
        compare(&message[..cut.index(message.len() + 1)]);
    }

    #[test]
    fn two_messages_in_a_row_are_merged_as_prost_merges_them(one in valid_request(), other in valid_request()) {
        compare(&[one.encode_to_vec(), other.encode_to_vec()].concat());
    }

    #[test]
    fn bytes_that_are_nearly_messages_are_read_as_prost_reads_them(all in proptest::collection::vec(fields(3), 0..4)) {
        compare(&all.concat());
    }

    #[test]
    fn any_bytes_are_read_as_prost_reads_them(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        compare(&bytes);
    }
}

/// Groups within each other end where prost ends them.
#[test]
fn levels_are_bounded_as_in_prost() {
    for levels in [98, 99, 100, 101, 102] {
        let groups = [vec![0x3b; levels], vec![0x3c; levels]].concat();
        compare(&groups);
        for tag in [0x12, 0x1a] {
            let mut within = vec![tag];
            prost::encoding::encode_varint(groups.len() as u64, &mut within);
            within.extend_from_slice(&groups);
            compare(&within);
        }
    }
}
