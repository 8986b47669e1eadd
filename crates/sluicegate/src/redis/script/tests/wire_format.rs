//! The bytes of arguments, and replies that no script of ours would send.

use proptest::prelude::*;
use sluicegate_core::algorithm::State;
use sluicegate_core::{Draw, Nanos, Quota, Timestamp};

use super::outcome_of;
use super::read_decide;
use crate::redis::charge::StoreCharge;
use crate::redis::script::{ScriptTime, read_refund, write_decide};
use crate::redis::wire::tests::any_reply;
use crate::redis::wire::{Reply, parse, write_array_header};

fn item(key: &str, quota: impl Into<Quota>, cost: u64) -> StoreCharge {
    StoreCharge {
        key: key.to_owned(),
        quota: quota.into(),
        cost,
        hash: 0,
        base: None,
        digits_only: false,
        enforced: true,
        draw: Draw::Take,
    }
}

fn strings(requests: &[&[StoreCharge]], now: ScriptTime) -> Vec<String> {
    let mut arguments = Vec::new();
    let count = write_decide(&mut arguments, requests, now);
    let mut command = Vec::new();
    write_array_header(&mut command, count);
    command.extend(arguments);
    let Ok(Some((Reply::Array(words), end))) = parse(&command) else {
        panic!("no command: {command:?}")
    };
    assert_eq!(end, command.len(), "more strings than were counted");
    words
        .iter()
        .map(|word| {
            if let Reply::Bulk(word) = word {
                String::from_utf8_lossy(word).into()
            } else {
                panic!()
            }
        })
        .collect()
}

#[test]
fn charges_are_written_in_few_strings() {
    let bucket = Quota::per_second(100).burst(20);
    let window = Quota::sliding_window(5, Nanos::MINUTE).unwrap();
    let drips = Quota::leaky_bucket(10, Nanos::SECOND, 2).unwrap();
    let reported = StoreCharge {
        enforced: false,
        ..item("b", drips, 99)
    };
    let alone = [item("a", bucket, 1)];
    assert_eq!(
        strings(&[&alone], ScriptTime::Server),
        ["1", "a", "", "t10000000:20:1"]
    );
    let now = Timestamp::from_nanos(12);
    let group = [item("a", bucket, 0), reported, item("c", window, 2)];
    let last = [item("d", Quota::fixed_window(7, Nanos::SECOND).unwrap(), 7)];
    let large = [item("b", bucket, u64::MAX)];
    assert_eq!(
        strings(&[&alone, &group, &last, &large], ScriptTime::Given(now)),
        [
            "4",
            "a",
            "b",
            "c",
            "d",
            "=12",
            "t10000000:20:1",
            "*3",
            "@1",
            "t10000000:20:0",
            "D1000:2:10:0:11",
            "w60000:5:2",
            "d1000:7:7:1:7",
            "@2",
            "t10000000:20:21"
        ]
    );
    assert_eq!(strings(&[&alone], ScriptTime::Replica(now))[2], "r12");
    let looks = [StoreCharge {
        draw: Draw::Look,
        ..item("a", bucket, 1)
    }];
    assert_eq!(
        strings(&[&looks, &alone], ScriptTime::Server)[3..],
        ["?t10000000:20:1", "@1", "t10000000:20:1"]
    );
    let based = [StoreCharge {
        base: Some(window.pace()),
        ..item("a", bucket, 1)
    }];
    assert_eq!(
        strings(&[&based, &alone], ScriptTime::Server)[3..],
        ["t10000000:20:1@w60000", "@1", "t10000000:20:1"]
    );
    let unmarked = [StoreCharge {
        digits_only: true,
        ..item("a", bucket, 1)
    }];
    assert_eq!(
        strings(&[&unmarked, &alone], ScriptTime::Server)[3..],
        ["t10000000:20:1~", "@1", "t10000000:20:1"]
    );
}

#[test]
fn many_keys_are_named_like_few() {
    let bucket = Quota::per_second(1);
    let requests: Vec<[StoreCharge; 1]> = (0..20)
        .map(|n| [item(&format!("k{}", n % 7), bucket, 1)])
        .collect();
    let requests: Vec<&[StoreCharge]> = requests.iter().map(|request| &request[..]).collect();
    let words = strings(&requests, ScriptTime::Server);
    assert_eq!(words[..8], ["7", "k0", "k1", "k2", "k3", "k4", "k5", "k6"]);
    assert_eq!(words[9 + 7..9 + 7 + 2], ["@1", "t1000000000:1:1"]);
    assert_eq!(words.len(), 9 + 20 + 13);
}

#[test]
fn a_reply_of_the_wrong_shape_names_what_was_expected() {
    let request = [item("a", Quota::per_second(1), 1)];
    let now = Reply::Bulk(b"5".to_vec());
    let read = |replies: Vec<Reply>| {
        read_decide(Reply::Array(replies), &[&request])
            .map(|_| ())
            .unwrap_err()
    };
    assert_eq!(read(vec![now.clone()]), "expected 2 replies, got 1");
    assert_eq!(
        read(vec![Reply::Integer(1), Reply::Integer(1)]),
        "expected the time in digits, got Some(Integer(1))"
    );
    assert_eq!(
        read(vec![now, Reply::Nil]),
        "expected the result of a charge, got Some(Nil)"
    );
    assert_eq!(
        read_decide(Reply::Nil, &[&request]).unwrap_err(),
        "expected an array, got Nil"
    );
    assert_eq!(
        read_refund(&mut Reply::Error("NOSCRIPT".to_owned())).unwrap_err(),
        "NOSCRIPT"
    );
}

#[test]
fn a_denial_stays_a_denial_whatever_the_state_says() {
    let request = [item("a", Quota::per_second(1), 1)];
    let reply = Reply::Array(vec![Reply::Bulk(b"5".to_vec()), Reply::Integer(-1)]);
    let answers = read_decide(reply, &[&request]).unwrap();
    let answer = answers.requests[0].as_ref().unwrap()[0];
    assert_eq!(answer.state, None::<State>);
    assert!(!outcome_of(&request[0], &answer, answers.now).is_allowed());
}

proptest! {
    #[test]
    fn no_reply_panics(
        replies in proptest::collection::vec(any_reply(), 1..4),
        texts in proptest::collection::vec("[-+!]?[0-9:]{0,24}", 3),
        numbers in any::<[i64; 2]>(),
    ) {
        let window = Quota::sliding_window(5, Nanos::MINUTE).unwrap();
        let request = [item("a", Quota::per_second(1), 1), item("b", window, 1), item("c", Quota::per_day(1), 1)];
        let bulk = |text: &String| Reply::Bulk(text.clone().into_bytes());
        let likely = vec![bulk(&texts[0]), Reply::Integer(numbers[0]), bulk(&texts[1]), Reply::Integer(numbers[1])];
        for reply in [Reply::Array(likely), Reply::Array(replies.clone()), replies[0].clone()] {
            let _ = read_refund(&mut reply.clone());
            let Ok(answers) = read_decide(reply, &[&request]) else { continue };
            if let Ok(all) = &answers.requests[0] {
                for (item, answer) in request.iter().zip(all) {
                    outcome_of(item, answer, answers.now);
                }
            }
        }
    }
}
