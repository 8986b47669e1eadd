//! Somebody else's values under our names: left alone, counted, and nobody else is harmed.

use std::sync::Arc;

use sluicegate::{FailurePolicy, FailureStatus, Verdict};
use tokio::task::JoinSet;

use super::faulty_redis::{FaultyRedis, LIMIT, RedisLimiter, replica};
use crate::load::AnswerKind;
use crate::{Length, Report};

/// A list and a text where counters were.
pub async fn foreign(length: Length) -> Report {
    let mut report = Report::new("foreign values");
    let redis = FaultyRedis::new().await;
    let closed = redis.replica(FailurePolicy::Closed(FailureStatus::default()));
    let list = plant(&redis, &closed, "list", |redis, key| {
        redis.server.command::<()>(&["RPUSH", key, "theirs"]);
    });
    let list = list.await;
    let text = plant(&redis, &closed, "text", |redis, key| {
        redis.server.command::<()>(&["SET", key, "theirs"]);
    });
    let text = text.await;

    for _round in 0..length.pick(5, 500) {
        together(&closed, &mut report).await;
    }
    let seen = closed.store().health().foreign_values;
    report.promise(seen >= 2, format!("foreign values are counted ({seen})"));
    report.promise(
        closed.store().health().is_up(),
        "the node is not taken to be away",
    );
    in_words(&closed, &mut report).await;
    locally(&redis, &mut report).await;

    let (list_key, text_key) = (list.clone(), text.clone());
    let left = redis.apart(move |redis| {
        let list: Vec<String> = redis.server.command(&["LRANGE", &list_key, "0", "-1"]);
        let text: String = redis.server.command(&["GET", &text_key]);
        (list, text)
    });
    let left = left.await;
    report.promise(
        left == (vec!["theirs".to_owned()], "theirs".to_owned()),
        format!("untouched: {left:?}"),
    );
    let for_ever = redis
        .apart(|redis| redis.server.keys_without_ttl("chaos"))
        .await;
    let only_theirs = for_ever.iter().all(|key| *key == list || *key == text);
    report.promise(
        only_theirs,
        format!("every key of ours has a TTL (without: {for_ever:?})"),
    );
    report
}

/// Puts a value where the counter of `caller` is, and returns the key.
async fn plant(
    redis: &Arc<FaultyRedis>,
    closed: &RedisLimiter,
    caller: &'static str,
    put: fn(&FaultyRedis, &str),
) -> String {
    let _first = closed.check_named(LIMIT, &[caller], 1).await;
    let key = redis.apart(move |redis| {
        let ours = redis
            .server
            .keys("chaos")
            .into_iter()
            .map(|key| String::from_utf8_lossy(&key).into_owned());
        let key = ours
            .into_iter()
            .find(|key| key.ends_with(caller))
            .expect("a decision leaves a counter");
        redis.server.command::<()>(&["DEL", &key]);
        put(redis, &key);
        key
    });
    key.await
}

/// Asks for everybody in the same moment, so that they share a call.
async fn together(closed: &RedisLimiter, report: &mut Report) {
    let mut asks = JoinSet::new();
    for caller in ["ann", "list", "bob", "text", "cyd"] {
        let closed = closed.clone();
        asks.spawn(async move {
            (
                caller,
                AnswerKind::of(&closed.check_named(LIMIT, &[caller], 1).await),
            )
        });
    }
    while let Some(answer) = asks.join_next().await {
        let (caller, answer) = answer.expect("callers do not panic");
        let is_foreign = ["list", "text"].contains(&caller);
        let right = match is_foreign {
            true => answer == AnswerKind::Unavailable,
            false => matches!(answer, AnswerKind::Allowed | AnswerKind::Rejected),
        };
        if !right {
            report.promise(
                false,
                format!("{caller} is answered by its own counter (got {answer:?})"),
            );
        }
    }
}

async fn in_words(closed: &RedisLimiter, report: &mut Report) {
    for (caller, words) in [("list", "WRONGTYPE"), ("text", "not a counter")] {
        let verdict = closed.check_named(LIMIT, &[caller], 1).await;
        let names_it = matches!(&verdict, Verdict::Unavailable { error, .. } if error.to_string().contains(words));
        report.promise(
            names_it,
            format!("{caller}: the reason is named: {verdict:?}"),
        );
    }
}

/// Under `local`, whoever has no counter there has one here.
async fn locally(redis: &FaultyRedis, report: &mut Report) {
    let local = replica(redis.options("closed"), FailurePolicy::Local);
    let mut answers = Vec::new();
    for _ in 0..200 {
        answers.push(AnswerKind::of(
            &local.check_named(LIMIT, &["list"], 1).await,
        ));
    }
    let both = answers.contains(&AnswerKind::AllowedLocally)
        && answers.contains(&AnswerKind::RejectedLocally);
    report.promise(
        both,
        "under `local` a caller without a counter there is limited here",
    );
}
