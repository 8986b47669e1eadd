//! The guide and the file of protocol buffers name the same fields, with the same numbers.

use std::collections::BTreeMap;

const GUIDE: &str = include_str!("../../../../../docs/external-limits.md");

/// Names and numbers from rows such as ``| `average` | 1 | … |`` below a heading.
fn documented(heading: &str) -> BTreeMap<String, i32> {
    let section = GUIDE
        .split_once(heading)
        .expect("the guide has the section")
        .1;
    let section = section.split("\n## ").next().unwrap();
    let rows = section
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    rows.map(|(name, rest)| {
        (
            name.to_owned(),
            rest.split(' ').next().unwrap().parse().unwrap(),
        )
    })
    .collect()
}

#[test]
fn the_guide_and_the_messages_name_the_same_fields() {
    let directory = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/limits-service/proto"
    );
    let files = protox::compile(["edgequota/ratelimit/v1/ratelimit.proto"], [directory]).unwrap();
    let file = &files.file[0];
    assert_eq!(file.package(), "edgequota.ratelimit.v1");
    assert_eq!(
        (file.service[0].name(), file.service[0].method[0].name()),
        ("RateLimitService", "GetLimits")
    );
    let fields = |message: &str| -> BTreeMap<String, i32> {
        let message = file
            .message_type
            .iter()
            .find(|own| own.name() == message)
            .unwrap();
        message
            .field
            .iter()
            .map(|field| (field.name().to_owned(), field.number()))
            .collect()
    };
    assert_eq!(fields("GetLimitsRequest"), documented("\n## The request\n"));
    assert_eq!(
        fields("GetLimitsResponse"),
        documented("\n## The response\n")
    );
}
