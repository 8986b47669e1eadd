//! Who goes out with whom, and who is told what, without a server.

use std::sync::Arc;
use std::time::Duration;

use sluicegate_core::{Quota, Timestamp};
use smallvec::smallvec;
use tokio::sync::oneshot::{self, Receiver};
use tokio::time::Instant;

use super::{Event, Traffic};
use crate::redis::ask::{Ask, Asked, Fault, Told, Work};
use crate::redis::context::Context;
use crate::redis::dial::Dialing;
use crate::redis::endpoint::Endpoint;
use crate::redis::lane::Lane;
use crate::redis::options::RedisOptions;
use crate::redis::wire::Reply;
use crate::redis::{Item, script};

type Answer = Receiver<Result<Told, Fault>>;

struct Bench {
    traffic: Traffic,
    out: Vec<u8>,
    start: Instant,
}

impl Bench {
    fn new(options: RedisOptions) -> Self {
        let dialing = Dialing::prepare(&options).unwrap();
        let lane = Arc::new(Lane::new(options.endpoints[0].clone()));
        let context = Arc::new(Context::new(options, dialing, None));
        Self {
            traffic: Traffic::new(context, lane),
            out: Vec::new(),
            start: Instant::now(),
        }
    }

    fn standalone() -> Self {
        Self::new(RedisOptions::standalone(Endpoint::new("127.0.0.1", 6_379)))
    }

    /// One unit of the counter `name`, which holds two; at most fifty milliseconds later.
    fn ask(&mut self, name: &str) -> Answer {
        self.ask_on(name, 0)
    }

    fn ask_on(&mut self, name: &str, slot: u16) -> Answer {
        let hash = name
            .bytes()
            .fold(0, |hash, byte| hash * 31 + u64::from(byte));
        let quota = Quota::from(Quota::per_second(1).burst(2));
        let item = Item {
            key: name.to_owned(),
            hash,
            quota,
            cost: 1,
            enforced: true,
        };
        let (sender, receiver) = oneshot::channel();
        self.traffic.accept(Ask::from(Asked {
            work: Work::Decide(smallvec![item]),
            slot,
            asked_at: Timestamp::from_millis(1_000),
            asked: self.start,
            asked_by: Timestamp::from_millis(1_000),
            deadline: self.start + Duration::from_millis(50),
            hops: 0,
            asking: false,
            answer: Some(sender),
        }));
        receiver
    }

    /// The commands that are written now.
    fn launch(&mut self) -> Vec<String> {
        self.traffic.launch(&mut self.out, self.start);
        self.written()
    }

    fn written(&mut self) -> Vec<String> {
        let text = String::from_utf8(std::mem::take(&mut self.out)).unwrap();
        text.split('*').skip(1).map(str::to_owned).collect()
    }

    /// Redis answers the oldest call with these debts, in seconds.
    fn reply(&mut self, debts: &[i64]) -> Option<Event> {
        let now = Reply::Bulk(b"9000000000".to_vec());
        let answer = |debt: &i64| {
            let nanos = debt.abs() * 1_000_000_000;
            Reply::Integer(if *debt < 0 { -1 - nanos } else { nanos })
        };
        let mut reply = Reply::Array(
            std::iter::once(now)
                .chain(debts.iter().map(answer))
                .collect(),
        );
        self.traffic
            .take_reply(&mut reply, &mut self.out, self.start)
    }

    fn error(&mut self, error: &str) -> Option<Event> {
        self.traffic.take_reply(
            &mut Reply::Error(error.to_owned()),
            &mut self.out,
            self.start,
        )
    }
}

fn is_allowed(answer: &mut Answer) -> bool {
    match answer.try_recv().expect("answered") {
        Ok(Told::Decided { answers, .. }) => answers[0].allowed,
        Ok(Told::Remembered(outcomes)) => outcomes[0].is_allowed(),
        other => panic!("no decision: {:?}", other.err()),
    }
}

fn fault(answer: &mut Answer) -> Fault {
    answer.try_recv().expect("answered").err().expect("a fault")
}

#[test]
fn everything_that_waits_goes_out_in_one_call() {
    let mut bench = Bench::standalone();
    let mut answers = [bench.ask("a"), bench.ask("b"), bench.ask("a")];
    assert_eq!(bench.launch().len(), 1);
    assert!(bench.reply(&[1, 1, 2]).is_none());
    assert!(answers.iter_mut().all(is_allowed));
}

#[test]
fn on_a_cluster_a_call_holds_the_keys_of_one_slot() {
    let mut bench = Bench::new(RedisOptions::cluster([Endpoint::new("127.0.0.1", 6_379)]));
    let _answers = [
        bench.ask_on("a", 1),
        bench.ask_on("b", 2),
        bench.ask_on("c", 1),
    ];
    assert_eq!(bench.launch().len(), 2);
}

#[test]
fn whoever_comes_while_a_counter_is_asked_for_shares_its_denial() {
    let mut bench = Bench::standalone();
    let mut first = bench.ask("a");
    assert_eq!(bench.launch().len(), 1);
    let mut waiting = [bench.ask("a"), bench.ask("a")];
    assert_eq!(
        bench.launch().len(),
        0,
        "one call of a counter is under way"
    );
    bench.reply(&[-2]);
    assert!(!is_allowed(&mut first) && !waiting.iter_mut().any(is_allowed));
    assert_eq!(bench.launch().len(), 0, "nobody had to ask again");
    let mut later = bench.ask("a");
    assert_eq!(
        bench.launch().len(),
        0,
        "nor somebody whose look was before the answer"
    );
    assert!(!is_allowed(&mut later));
}

#[test]
fn whoever_waits_for_a_counter_with_units_left_goes_out_together() {
    let mut bench = Bench::standalone();
    let mut first = bench.ask("a");
    bench.launch();
    let mut waiting = [bench.ask("a"), bench.ask("a")];
    bench.launch();
    bench.reply(&[1]);
    assert!(is_allowed(&mut first));
    assert_eq!(bench.launch().len(), 1);
    bench.reply(&[2, -2]);
    assert_eq!(waiting.each_mut().map(is_allowed), [true, false]);
}

#[test]
fn two_calls_are_under_way_at_most() {
    let mut bench = Bench::standalone();
    let _answers = ["a", "b", "c", "d"].map(|name| {
        let answer = bench.ask(name);
        (bench.launch().len(), answer)
    });
    let written: Vec<usize> = _answers.iter().map(|(written, _)| *written).collect();
    assert_eq!(written, [1, 1, 0, 0]);
    bench.reply(&[1]);
    assert_eq!(bench.launch().len(), 1, "the other two go out together");
}

#[test]
fn a_node_that_forgot_the_script_is_sent_its_text_once() {
    let mut bench = Bench::standalone();
    let mut answers = ["a", "b"].map(|name| {
        let answer = bench.ask(name);
        bench.launch();
        answer
    });
    let is_text = |command: &String| command.contains("EVAL\r\n");
    for _ in 0..2 {
        assert!(bench.error("NOSCRIPT No matching script.").is_none());
    }
    let again = String::from_utf8(std::mem::take(&mut bench.out)).unwrap();
    assert_eq!(
        again.matches("EVAL\r\n").count(),
        1,
        "the text goes out once"
    );
    assert_eq!(again.matches("EVALSHA\r\n").count(), 1);
    assert!(again.contains(&script::decide_script().sha));
    bench.reply(&[1]);
    // Flushed again in between: whoever was turned away twice brings the text itself.
    assert!(bench.error("NOSCRIPT No matching script.").is_none());
    assert!(bench.written().iter().any(is_text));
    bench.reply(&[1]);
    assert!(answers.iter_mut().all(is_allowed));
}

#[test]
fn whose_time_is_up_is_told_so_and_a_late_answer_still_counts_for_the_next() {
    let mut bench = Bench::standalone();
    let (mut sent, mut parked) = (bench.ask("a"), bench.ask("b"));
    bench.launch();
    let mut waits = bench.ask("a");
    bench.launch();
    bench
        .traffic
        .expire(bench.start + Duration::from_millis(49));
    assert!(sent.try_recv().is_err(), "a millisecond is left");
    bench
        .traffic
        .expire(bench.start + Duration::from_millis(50));
    assert_eq!(
        [&mut sent, &mut parked, &mut waits].map(fault),
        [const { Fault::TimedOut }; 3]
    );
    bench.reply(&[-2, 1]);
    let known = bench.traffic.context.shadows.remembered(
        u64::from(b'a'),
        &Quota::from(Quota::per_second(1).burst(2)),
        Timestamp::from_millis(60_000),
    );
    assert!(known.is_some(), "the debt was seen");
}

#[test]
fn what_nobody_wants_any_more_is_not_sent() {
    let mut bench = Bench::standalone();
    drop(bench.ask("a"));
    assert_eq!(bench.launch().len(), 0);
}

#[test]
fn a_broken_connection_fails_what_was_under_way_and_keeps_the_rest() {
    let mut bench = Bench::standalone();
    let mut sent = bench.ask("a");
    bench.launch();
    let mut parked = bench.ask("a");
    bench.launch();
    bench.traffic.lose("gone");
    assert_eq!(fault(&mut sent), Fault::Away("gone".to_owned()));
    assert_eq!(bench.launch().len(), 1, "the next connection takes it");
    bench.reply(&[1]);
    assert!(is_allowed(&mut parked));
}

#[test]
fn errors_send_asks_where_they_belong() {
    let mut bench = Bench::standalone();
    let _moved = bench.ask("a");
    bench.launch();
    let event = bench.error("MOVED 5 10.0.0.1:6380");
    assert!(
        matches!(&event, Some(Event::Moved { slot: 5, host, port: 6380, asks }) if host == "10.0.0.1" && asks.len() == 1)
    );
    let _asked = bench.ask("b");
    bench.launch();
    assert!(
        matches!(bench.error("ASK 5 10.0.0.1:6380"), Some(Event::Elsewhere { asks, .. }) if asks.len() == 1)
    );
    let _demoted = bench.ask("c");
    bench.launch();
    assert!(
        matches!(bench.error("READONLY You can't write"), Some(Event::Demoted { asks }) if asks.len() == 1)
    );
    let mut loading = bench.ask("d");
    bench.launch();
    assert!(matches!(
        bench.error("LOADING dataset"),
        Some(Event::Away(_))
    ));
    assert_eq!(
        fault(&mut loading),
        Fault::Away("LOADING dataset".to_owned())
    );
    let mut other = bench.ask("e");
    bench.launch();
    assert!(
        bench.error("OOM command not allowed").is_none(),
        "the node is fine"
    );
    assert_eq!(
        fault(&mut other),
        Fault::Away("OOM command not allowed".to_owned())
    );
}

#[test]
fn an_ask_that_nodes_send_to_and_fro_takes_a_rest() {
    let mut bench = Bench::standalone();
    let _answer = bench.ask("a");
    let mut ask = bench.traffic.pending.pop_front().unwrap();
    let mut rests = 0;
    for _ in 0..8 {
        bench.traffic.accept(ask);
        bench.launch();
        let event = bench.error("MOVED 5 10.0.0.1:6380");
        let Some(Event::Moved { mut asks, .. }) = event else {
            panic!("sent on: {event:?}")
        };
        ask = match asks.pop() {
            Some(ask) => ask.sent_on(false).unwrap(),
            None => {
                rests += 1;
                bench.traffic.later.pop().unwrap().1
            }
        };
    }
    assert_eq!(
        (rests, ask.hops),
        (3, 8),
        "after the first three, every other time"
    );
}

#[test]
fn a_call_that_meets_a_moving_slot_is_tried_again_alone() {
    let mut bench = Bench::new(RedisOptions::cluster([Endpoint::new("127.0.0.1", 6_379)]));
    let mut answers = [bench.ask_on("a", 1), bench.ask_on("b", 1)];
    assert_eq!(bench.launch().len(), 1);
    assert!(
        bench
            .error("TRYAGAIN Multiple keys request during rehashing of slot")
            .is_none()
    );
    assert_eq!(bench.launch().len(), 2, "each by itself");
    bench.reply(&[1]);
    bench.reply(&[1]);
    assert!(answers.iter_mut().all(is_allowed));
}

#[test]
fn an_answer_that_makes_no_sense_ends_the_connection() {
    let mut bench = Bench::standalone();
    let mut answer = bench.ask("a");
    bench.launch();
    assert!(
        matches!(bench.reply(&[1, 1]), Some(Event::Away(_))),
        "two answers to one charge"
    );
    assert!(matches!(fault(&mut answer), Fault::Away(_)));
    assert!(
        matches!(bench.reply(&[]), Some(Event::Away(_))),
        "nobody asked"
    );
}
