//! `ban` of a limit: its numbers, whom it meets, and every way to get it wrong.

use sluicegate_core::{BanRule, Nanos};

use crate::limits::one;
use crate::schema::accepts;
use crate::{bad, good, wrong};

/// The rule of a limit with this `ban`.
#[track_caller]
fn rule(ban: &str) -> Option<BanRule> {
    let text = one(&format!("rate: 1/s, ban: {ban}"));
    accepts(&text).unwrap_or_else(|why| panic!("{why}\n{text}"));
    good(&text).policy.limits()[0].ban
}

#[test]
fn a_ban_arrives_with_its_numbers_and_what_is_left_out_has_a_default() {
    let whole = rule("{ after: 100, within: 1m, for: 10m, grow: 3, max: 7d }");
    let expected = BanRule {
        after: 100,
        within: Nanos::MINUTE,
        lasts: Nanos::from_secs(600),
        grow: 3,
        max: Nanos::from_secs(7 * 86_400),
    };
    assert_eq!(whole, Some(expected));
    for after in ["100", "100 denials", "' 100denials '"] {
        let by_default = rule(&format!("{{ after: {after}, within: 60s, for: 10m }}"));
        let expected = BanRule {
            grow: 2,
            max: Nanos::DAY,
            ..expected
        };
        assert_eq!(by_default, Some(expected), "{after}");
    }
    let one = rule("{ after: 1 denial, within: 1ms, for: 1ms, max: 1ms }").unwrap();
    assert_eq!((one.after, one.max), (1, Nanos::MILLISECOND));
    let long = rule("{ after: 1, within: 1d, for: 3d }").unwrap();
    assert_eq!(long.max, long.lasts, "never shorter than the first ban");
    assert_eq!(rule("{ enabled: false }"), None);
    assert_eq!(
        rule("{ after: 5, within: 1m, for: 1m, enabled: false }"),
        None
    );
}

#[test]
fn numbers_that_are_none_are_named_with_their_place() {
    for (ban, message) in [
        ("{ within: 1m, for: 1m }", "after: is missing: "),
        ("{ after: 1, for: 1m }", "within: is missing: "),
        ("{ after: 1, within: 1m }", "for: is missing: "),
        (
            "{ after: 0, within: 1m, for: 1m }",
            "after: must be 1 to 1000000 (got 0)",
        ),
        (
            "{ after: 0 denials, within: 1m, for: 1m }",
            "after: must be 1 to 1000000 denials (got \"0 denials\")",
        ),
        (
            "{ after: 5 requests, within: 1m, for: 1m }",
            "after: expected a whole number (got \"5 requests\")",
        ),
        (
            "{ after: 1, within: 2d, for: 1m }",
            "within: must be 1ms to 1d (got \"2d\")",
        ),
        (
            "{ after: 1, within: 1m, for: 31d }",
            "for: must be 1ms to 30d (got \"31d\")",
        ),
        (
            "{ after: 1, within: 1m, for: 60 }",
            "for: expected a duration with its unit",
        ),
        (
            "{ after: 1, within: 1m, for: 1500us }",
            "for: must be whole milliseconds (got \"1500us\")",
        ),
        (
            "{ after: 1, within: 1m, for: 1m, grow: 0 }",
            "grow: must be 1 to 100 (got 0)",
        ),
        (
            "{ after: 1, within: 1m, for: 2h, max: 1h }",
            "max: must be at least as long as for, which is 2h (got \"1h\")",
        ),
    ] {
        let reported = wrong(&one(&format!("rate: 1/s, ban: {ban}")));
        let expected = format!("limits[0].ban.{message}");
        assert!(reported.starts_with(&expected), "{ban}: {reported}");
    }
}

#[test]
fn a_ban_of_nobody_or_everybody_is_a_mistake_that_says_what_to_add() {
    let ban = "ban: { after: 1, within: 1m, for: 1m }";
    for key in ["global", "['header:X-Tenant', path]", "'claim:org'"] {
        let reported = wrong(&format!(
            "limits: [{{ name: a, key: {key}, rate: 1/s, {ban} }}]"
        ));
        let expected = "limits[0].ban: needs client_ip or principal in the key of the limit";
        assert!(reported.starts_with(expected), "{key}: {reported}");
    }
    for key in [
        "client_ip",
        "principal",
        "[path, principal]",
        "[client_ip, principal]",
    ] {
        good(&format!(
            "limits: [{{ name: a, key: {key}, rate: 1/s, {ban} }}]"
        ));
    }
    // A part that cannot be read may be the one that is needed: one mistake, not two.
    let reported = wrong(&format!(
        "limits: [{{ name: a, key: [client], rate: 1/s, {ban} }}]"
    ));
    assert!(reported.starts_with("limits[0].key[0]: "), "{reported}");
    let everybody = |key: &str| {
        format!(
            "client_ip: {{ ipv6_prefix: 0 }}\nlimits: [{{ name: a, key: {key}, rate: 1/s, {ban} }}]"
        )
    };
    let reported = wrong(&everybody("client_ip"));
    assert!(
        reported.contains("would ban everybody: client_ip.ipv6_prefix is 0"),
        "{reported}"
    );
    good(&everybody("[client_ip, principal]"));
    let reported = wrong(&one(&format!("average: 0, {ban}")));
    assert!(
        reported.contains("limits[0].ban: has no effect"),
        "{reported}"
    );
    let limit = "key: global, rate: 1/s, enabled: false";
    assert_eq!(
        bad(&format!("limits: [{{ name: a, {limit}, {ban} }}]")).len(),
        1
    );
}

#[test]
fn bans_are_told_in_words() {
    let words =
        |keys: &str| good(&format!("limits: [{{ name: a, rate: 1/s, {keys} }}]")).in_words();
    let numbers = "for 10m after 100 denials within 1m, 2 times as long each time, at most 1d";
    let ban = "ban: { after: 100, within: 1m, for: 10m }";
    for (keys, sentence) in [
        (
            "key: client_ip",
            format!("a bans a client address {numbers}"),
        ),
        (
            "key: [client_ip, principal]",
            format!("a bans a principal {numbers}"),
        ),
        (
            "key: client_ip, mode: shadow",
            format!("a would ban a client address {numbers}, but is only watched: it bans nobody"),
        ),
    ] {
        let words = words(&format!("{keys}, {ban}"));
        assert!(words.contains(&sentence), "{sentence}: {words:#?}");
    }
    let words = words("key: client_ip, ban: { after: 1, within: 1s, for: 1h, grow: 1 }");
    let sentence = "a bans a client address for 1h after 1 denial within 1s";
    assert!(words.contains(&sentence.to_owned()), "{words:#?}");
}

#[test]
fn a_changed_ban_is_told_with_what_it_means() {
    let config = |ban: &str| good(&one(&format!("rate: 1/s{ban}")));
    let (none, some, longer) = (
        config(""),
        config(", ban: { after: 5, within: 1m, for: 1m, grow: 1 }"),
        config(", ban: { after: 5, within: 1m, for: 2m, grow: 1 }"),
    );
    let bans = |minutes| format!("bans a client address for {minutes}m after 5 denials within 1m");
    for (old, new, kind, sentence) in [
        (
            &none,
            &some,
            "tighter",
            format!("a {} now; before, it bans nobody", bans(1)),
        ),
        (
            &some,
            &none,
            "looser",
            format!("a bans nobody now; before, it {}", bans(1)),
        ),
        (
            &some,
            &longer,
            "changed",
            format!("a {} now; before, it {}", bans(2), bans(1)),
        ),
    ] {
        let changes = old.changes_to(new);
        let told: Vec<_> = changes
            .iter()
            .map(|change| (change.kind.name(), change.message.as_str()))
            .collect();
        assert_eq!(told, [(kind, sentence.as_str())]);
        assert_eq!(changes[0].key, "limits.a");
    }
    assert!(some.changes_to(&some).is_empty());
}
