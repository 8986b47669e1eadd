//! Text from outside: refused, or read in one way.

use proptest::prelude::*;
use sluicegate_core::{
    HostPattern, KeyPart, Limit, Match, Nanos, ParseRateError, PathPattern, Policy, Quota, Subject,
    address, normalise_path, parse_duration, parse_rate,
};

use crate::cases::cases;

proptest! {
    #![proptest_config(cases(10_000))]

    #[test]
    fn every_rate_is_refused_or_makes_a_quota_or_says_why(text in anything(r"[0-9]{0,20} ?(/|per)? ?[0-9]{0,20}[a-zA-Zµ]{0,6}")) {
        match parse_rate(&text) {
            Ok((count, period)) => {
                prop_assert!(count > 0 && period > Nanos::ZERO);
                // Usable, or refused with a reason; never a panic.
                let _ = Quota::new(count, period, 1).map_err(|refused| refused.to_string());
            }
            Err(refused) => prop_assert!(names(&refused, &text), "{}", refused),
        }
    }

    #[test]
    fn a_rate_that_was_written_is_read(count in 1_u64..=u64::MAX, units in 1_u64..1_000, unit in 0_usize..8) {
        let (unit, nanos) = [
            ("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000), ("m", 60_000_000_000),
            ("h", 3_600_000_000_000), ("d", 86_400_000_000_000), ("w", 604_800_000_000_000),
        ][unit];
        prop_assert_eq!(parse_rate(&format!("{count}/{units}{unit}")), Ok((count, Nanos::new(units * nanos))));
        prop_assert_eq!(parse_rate(&format!("{count} per {units} {unit}")), Ok((count, Nanos::new(units * nanos))));
        prop_assert_eq!(parse_duration(&Nanos::new(units * nanos).to_string()), Ok(Nanos::new(units * nanos)));
    }

    /// Whatever is written with several units and with fractions is read as exactly that, or is
    /// refused because it is not whole nanoseconds.
    #[test]
    fn a_duration_of_several_parts_is_read_exactly(
        parts in prop::collection::vec((0_u64..10_000, 0_u64..1_000_000, 0_u32..=6), 8), is_used: [bool; 8],
    ) {
        const UNITS: [(&str, u128); 8] = [
            ("w", 604_800_000_000_000), ("d", 86_400_000_000_000), ("h", 3_600_000_000_000), ("m", 60_000_000_000),
            ("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1),
        ];
        let (mut text, mut million_nanos, mut is_whole) = (String::new(), 0_u128, true);
        for (((unit, nanos), (whole, millionths, digits)), _) in
            UNITS.into_iter().zip(parts).zip(is_used).filter(|(_, is_used)| *is_used)
        {
            // So many digits of the millionths count.
            let millionths = millionths / 10_u64.pow(6 - digits) * 10_u64.pow(6 - digits);
            text += &format!("{whole}.{millionths:06}{unit}");
            let part = (u128::from(whole) * 1_000_000 + u128::from(millionths)) * nanos;
            is_whole &= part % 1_000_000 == 0;
            million_nanos += part;
        }
        prop_assume!(!text.is_empty());
        let expected = is_whole.then(|| u64::try_from(million_nanos / 1_000_000).map(Nanos::new).ok()).flatten();
        prop_assert_eq!(parse_duration(&text).ok(), expected, "{}", text);
    }

    #[test]
    fn every_duration_is_refused_or_read(text in anything("([0-9]{0,22}([.][0-9]{0,24})? ?[a-zµ]{0,8} ?){0,4}")) {
        if let Err(refused) = parse_duration(&text) {
            prop_assert!(names(&refused, &text), "{}", refused);
        }
    }

    #[test]
    fn every_key_part_is_refused_or_written_as_it_is_read(
        text in anything("(client_ip|host|path_segment|header|query|cookie|sni|claim|descriptor|principal)?:?[ -~]{0,8}"),
    ) {
        match text.parse::<KeyPart>() {
            Ok(part) => prop_assert_eq!(part.to_string().parse::<KeyPart>(), Ok(part)),
            Err(refused) => prop_assert!(refused.to_string().starts_with("expected ")),
        }
    }

    #[test]
    fn every_pattern_is_refused_or_usable(
        host in anything(r"(\*\.)?[a-zA-Z.*:\[\]-]{0,12}"), path in anything("[/{}*a-z%0-9.;]{0,16}"),
        request_host in anything("[a-z.]{0,12}"), request_path in anything("[/a-z%0-9.]{0,16}"),
    ) {
        let hosts: Vec<HostPattern> = host.parse().into_iter().collect();
        let path: Option<PathPattern> = path.parse().ok();
        let limit = Limit::new("any", Quota::per_second(1)).matching(Match { hosts, path, ..Match::default() });
        let policy = Policy::new([limit]).expect("a single limit");
        let subject = Subject { host: Some(&request_host), path: &request_path, ..Subject::ANONYMOUS };
        let charges = policy.charges_for(&subject, 1).expect("a global key is never missing");
        prop_assert!(charges.len() <= 1);
    }

    /// Normalising a normalised path changes nothing.
    #[test]
    fn every_path_is_refused_or_brought_to_one_spelling(path in anything("/?([a-c./;%]|%2[5eEfF]|%[34][1-9]|%[0-9a-fA-F]{2}){0,12}")) {
        let Ok(normal) = normalise_path(&path) else { return Ok(()) };
        let again = normalise_path(&normal);
        prop_assert_eq!(again.as_deref(), Ok(&*normal), "{:?} became {:?}", path, normal);
        prop_assert!(normal.starts_with('/') && normal.is_ascii());
        prop_assert!(!normal.contains("//"));
        prop_assert!(normal.split('/').all(|segment| segment != "." && segment != ".."));
    }

    #[test]
    fn every_address_is_refused_or_read_to_one_spelling(text in anything(r"\[?[0-9a-fA-F:.%]{0,40}\]?(:[0-9]{0,6})?")) {
        let Some(ip) = address::parse(&text) else { return Ok(()) };
        prop_assert_eq!(address::parse(&ip.to_string()), Some(ip));
        prop_assert_eq!(ip, ip.to_canonical());
    }
}

/// Returns true when an error quotes the text that was given.
fn names(refused: &ParseRateError, text: &str) -> bool {
    refused.to_string().ends_with(&format!("(got {text:?})"))
}

/// Text of this shape, and text of any shape.
fn anything(shape: &'static str) -> impl Strategy<Value = String> {
    prop_oneof![4 => shape, 1 => any::<String>(), 1 => "[ -~]{0,20}"]
}
