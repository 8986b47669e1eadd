//! Faults in Redis: foreign values, refused commands, clocks that differ.

use std::time::{SystemTime, UNIX_EPOCH};

use sluicegate_core::{Draw, Nanos, Quota, Timestamp};

use super::outcome_of;
use super::server::{CommandMonitor, Connection, ScriptServer};
use crate::redis::charge::StoreCharge;
use crate::redis::script::{ChargeTime, ScriptTime, read_refund};
use crate::redis::wire::Reply;

fn item(key: &str, quota: impl Into<Quota>) -> StoreCharge {
    StoreCharge {
        key: key.to_owned(),
        quota: quota.into(),
        hash: 0,
        base: None,
        digits_only: false,
        cost: 1,
        enforced: true,
        draw: Draw::Take,
    }
}

fn bucket(key: &str) -> StoreCharge {
    item(key, Quota::per_minute(10))
}

fn window(key: &str) -> StoreCharge {
    item(key, Quota::sliding_window(10, Nanos::MINUTE).unwrap())
}

fn drips(key: &str) -> StoreCharge {
    item(key, Quota::leaky_bucket(10, Nanos::MINUTE, 2).unwrap())
}

fn wall_clock() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_nanos() as u64
}

#[test]
fn a_foreign_value_fails_its_own_request_only_and_stays() {
    let server = ScriptServer::start();
    let mut redis = server.connect();
    redis.call(&["RPUSH", "list", "theirs"]);
    let texts = [
        "hello", "", "-5", "1.5", "0x10", "1e5", " 12", "12 ", "1:2", "1:2:3:4", "1:-2:3", "nan",
        "12\n",
    ];
    for (number, text) in texts.iter().enumerate() {
        redis.call(&["SET", &format!("text-{number}"), text]);
    }
    let foreign: Vec<String> = std::iter::once("list".to_owned())
        .chain((0..texts.len()).map(|n| format!("text-{n}")))
        .collect();
    for key in &foreign {
        for make in [bucket, window, drips] {
            let (ours, theirs, group) = (
                [bucket("ours")],
                [make(key)],
                [window("other"), make(key), bucket("third")],
            );
            for alone in [&theirs[..], &group] {
                let answers = redis.decide(&[alone], ScriptTime::Server).unwrap();
                assert!(answers.requests[0].is_err(), "{key} was taken as ours");
            }
            let answers = redis
                .decide(&[&ours, &theirs, &group, &ours], ScriptTime::Server)
                .unwrap();
            let failed: Vec<bool> = answers.requests.iter().map(Result::is_err).collect();
            assert_eq!(failed, [false, true, true, false], "{key}");
            assert!(
                read_refund(&mut redis.refund(
                    &theirs[0],
                    ChargeTime::Ago(Nanos::ZERO),
                    ScriptTime::Server
                ))
                .is_err(),
                "{key}"
            );
            redis.call(&["DEL", "ours"]);
        }
    }
    assert_eq!(
        redis.get("other"),
        None,
        "a failed request took from another counter"
    );
    assert_eq!(
        redis.get("third"),
        None,
        "a failed request took from another counter"
    );
    for (number, text) in texts.iter().enumerate() {
        assert_eq!(redis.get(&format!("text-{number}")).as_deref(), Some(*text));
    }
    assert_eq!(redis.call(&["LLEN", "list"]), Reply::Integer(1));
}

#[test]
fn the_reason_of_a_failed_request_is_told() {
    let server = ScriptServer::start();
    let mut redis = server.connect();
    redis.call(&["RPUSH", "list", "theirs"]);
    redis.call(&["SET", "text", "hello"]);
    let (list, text) = ([bucket("list")], [drips("text")]);
    let answers = redis.decide(&[&list, &text], ScriptTime::Server).unwrap();
    assert!(
        answers.requests[0]
            .as_ref()
            .unwrap_err()
            .contains("WRONGTYPE")
    );
    assert_eq!(
        answers.requests[1].as_ref().unwrap_err(),
        "the value under this name is not a counter"
    );
}

#[test]
fn garbage_in_digits_counts_as_an_empty_counter_and_is_repaired() {
    let server = ScriptServer::start();
    let mut redis = server.connect();
    let far = [
        "99999999999999999999999999",
        &"9".repeat(400),
        "18446744073709551615",
        "9223372036854775807",
    ];
    for text in far {
        for make in [bucket, drips] {
            redis.call(&["SET", "key", text]);
            let request = [make("key")];
            let look = [StoreCharge {
                cost: 0,
                ..request[0].clone()
            }];
            let answers = redis
                .decide(&[&look, &request], ScriptTime::Server)
                .unwrap();
            let outcomes: Vec<_> = answers
                .requests
                .iter()
                .map(|a| outcome_of(&request[0], &a.as_ref().unwrap()[0], answers.now))
                .collect();
            assert_eq!(outcomes[0].remaining(), 0, "{text}");
            assert!(!outcomes[1].is_allowed(), "{text}");
            assert_ne!(redis.get("key").as_deref(), Some(text));
        }
        redis.call(&["SET", "key", &format!("{text}:{text}:{text}")]);
        let answers = redis
            .decide(&[&[window("key")]], ScriptTime::Server)
            .unwrap();
        assert!(!answers.requests[0].as_ref().unwrap()[0].allowed, "{text}");
        assert!(
            redis.get("key").unwrap().ends_with(":0:10"),
            "spent in this window"
        );
    }
    redis.assert_every_key_expires();
}

#[test]
fn a_refused_write_leaves_nothing_half_written() {
    let server = ScriptServer::start();
    let mut redis = server.connect();
    let (first, second) = ([bucket("a"), window("b"), drips("c")], [bucket("d")]);
    redis.call(&[
        "ACL", "SETUSER", "reader", "on", ">secret", "~*", "+@all", "-set", "-del",
    ]);
    let mut reader = server.connect();
    assert_eq!(
        reader.call(&["AUTH", "reader", "secret"]),
        Reply::Simple("OK".to_owned())
    );
    let refused = reader
        .decide(&[&first, &second], ScriptTime::Server)
        .unwrap_err();
    assert!(refused.contains("can't run this command"), "{refused}");
    assert!(reader.decide(&[&second], ScriptTime::Server).is_err());
    assert_eq!(redis.call(&["DBSIZE"]), Reply::Integer(0));

    // One key of four may not be written: the call is refused before it begins.
    redis.call(&[
        "ACL",
        "SETUSER",
        "reader",
        "resetkeys",
        "~a",
        "~b",
        "~c",
        "%R~d",
        "+@all",
    ]);
    assert!(
        reader
            .decide(&[&first, &second], ScriptTime::Server)
            .is_err()
    );
    assert_eq!(redis.call(&["DBSIZE"]), Reply::Integer(0));

    redis.call(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    redis.call(&["CONFIG", "SET", "maxmemory", "1"]);
    let refused = redis
        .decide(&[&first, &second], ScriptTime::Server)
        .unwrap_err();
    assert!(refused.contains("OOM"), "{refused}");
    assert_eq!(redis.call(&["DBSIZE"]), Reply::Integer(0));
    // A look writes nothing, so it still works.
    let look = [StoreCharge {
        cost: 0,
        ..bucket("a")
    }];
    assert!(redis.decide(&[&look], ScriptTime::Server).is_ok());
}

#[test]
fn memory_that_runs_out_within_a_call_does_not_stop_it_half_way() {
    let server = ScriptServer::start();
    let mut redis = server.connect();
    let requests: Vec<[StoreCharge; 1]> = (0..4_000).map(|n| [bucket(&n.to_string())]).collect();
    let requests: Vec<&[StoreCharge]> = requests.iter().map(|request| &request[..]).collect();
    let (mut refused, mut ran_out) = (0, 0);
    for step in 0..60 {
        let limit = used_memory(&mut redis) + step * 15_000;
        redis.call(&["CONFIG", "SET", "maxmemory", &limit.to_string()]);
        let decided = redis.decide(&requests, ScriptTime::Server);
        refused += u32::from(decided.is_err());
        ran_out += u32::from(decided.is_ok() && used_memory(&mut redis) > limit);
        assert_eq!(
            redis.call(&["DBSIZE"]),
            Reply::Integer(if decided.is_ok() { 4_000 } else { 0 })
        );
        redis.call(&["FLUSHALL"]);
    }
    assert!(refused > 0, "no call was refused");
    assert!(ran_out > 0, "no call went beyond the limit while it wrote");
}

fn used_memory(redis: &mut Connection) -> u64 {
    let Reply::Bulk(info) = redis.call(&["INFO", "memory"]) else {
        panic!("no INFO")
    };
    let info = String::from_utf8(info).unwrap();
    info.lines()
        .find_map(|line| line.strip_prefix("used_memory:"))
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}

#[test]
fn a_call_reads_and_writes_each_counter_once_and_does_nothing_else() {
    let server = ScriptServer::start();
    let mut redis = server.connect();
    let mut monitor = CommandMonitor::start(&server);
    for count in [1, 2, 16, 256] {
        for make in [bucket, window, drips] {
            let requests: Vec<[StoreCharge; 2]> = (0..count)
                .map(|n| {
                    [
                        make(&format!("{count}-{n}")),
                        make(&format!("{count}-{}", n / 2)),
                    ]
                })
                .collect();
            for requests in [
                requests
                    .iter()
                    .map(|request| &request[..1])
                    .collect::<Vec<&[StoreCharge]>>(),
                requests.iter().map(|request| &request[..]).collect(),
                requests
                    .iter()
                    .flat_map(|request| [&request[..1], &request[1..]])
                    .collect(),
            ] {
                redis.decide(&requests, ScriptTime::Server).unwrap();
                let commands = monitor.commands(&mut redis);
                let times =
                    |name: &str| commands.iter().filter(|command| command[0] == name).count();
                assert_eq!((times("TIME"), times("GET")), (1, count), "{count}");
                assert!(times("SET") <= count, "{count}");
                assert_eq!(
                    commands.len(),
                    1 + count + times("SET"),
                    "{count}: other commands"
                );
            }
            redis.assert_every_key_expires();
            redis.call(&["FLUSHALL"]);
        }
    }
}

#[test]
fn a_replica_s_clock_is_never_ahead_and_at_most_a_second_behind() {
    let server = ScriptServer::start();
    let mut redis = server.connect();
    let second = Nanos::SECOND.get();
    let mut now_for = |given: u64| {
        let before = wall_clock();
        let request = [bucket("key")];
        let answers = redis
            .decide(
                &[&request],
                ScriptTime::Replica(Timestamp::from_nanos(given)),
            )
            .unwrap();
        (before, answers.now.as_nanos(), wall_clock())
    };
    for ahead in [second, 3_600 * second, u64::MAX / 2] {
        let (before, now, after) = now_for(wall_clock().saturating_add(ahead));
        assert!(
            (before / 1_000 * 1_000..=after).contains(&now),
            "{now} not between {before} and {after}"
        );
    }
    for given in [0, 1, wall_clock() - 5 * second] {
        let (before, now, after) = now_for(given);
        let late = now + second;
        assert!(
            (before / 1_000 * 1_000..=after).contains(&late),
            "{late} not between {before} and {after}"
        );
    }
    let given = wall_clock() - second / 4;
    assert_eq!(
        now_for(given).1,
        given,
        "a little behind is believed, to the nanosecond"
    );
}

#[test]
fn a_clock_that_is_ahead_mints_nothing() {
    let server = ScriptServer::start();
    let mut redis = server.connect();
    let request = [item("key", Quota::per_hour(10))];
    let mut admitted = 0;
    for round in 0..50_u64 {
        let skewed = wall_clock() + round * Nanos::HOUR.get();
        let answers = redis
            .decide(
                &[&request],
                ScriptTime::Replica(Timestamp::from_nanos(skewed)),
            )
            .unwrap();
        admitted += u32::from(answers.requests[0].as_ref().unwrap()[0].allowed);
    }
    assert_eq!(admitted, 10);
}
