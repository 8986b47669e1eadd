//! Batching, redirection and timeouts, without a server.

use std::sync::Arc;
use std::time::Duration;

use sluicegate_core::{Draw, Quota, Timestamp};
use smallvec::smallvec;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Traffic, TrafficEvent};
use crate::redis::context::StoreContext;
use crate::redis::dial::Dialer;
use crate::redis::endpoint::Endpoint;
use crate::redis::lane::Lane;
use crate::redis::options::RedisOptions;
use crate::redis::request::{Operation, RequestError, RequestState, StoreRequest, StoreResponse};
use crate::redis::sender::ResponseReceiver;
use crate::redis::wire::Reply;
use crate::redis::{charge::StoreCharge, script};

struct TrafficBench {
    traffic: Traffic,
    out: Vec<u8>,
    start: Instant,
}

impl TrafficBench {
    fn new(options: RedisOptions) -> Self {
        let dialer = Dialer::prepare(&options).unwrap();
        let lane = Arc::new(Lane::new(options.endpoints[0].clone()));
        let context = Arc::new(StoreContext::new(options, dialer, None, |_, _| {}));
        Self {
            traffic: Traffic::new(context, lane),
            out: Vec::new(),
            start: Instant::now(),
        }
    }

    fn standalone() -> Self {
        Self::new(RedisOptions::standalone(Endpoint::new("127.0.0.1", 6_379)))
    }

    /// Requests one unit of the counter `name`, which holds two, with a deadline of 50 ms.
    fn request(&mut self, name: &str) -> ResponseReceiver {
        self.request_on(name, 0)
    }

    fn request_on(&mut self, name: &str, slot: u16) -> ResponseReceiver {
        let hash = name
            .bytes()
            .fold(0, |hash, byte| hash * 31 + u64::from(byte));
        let quota = Quota::from(Quota::per_second(1).burst(2));
        let item = StoreCharge {
            key: name.to_owned(),
            hash,
            quota,
            base: None,
            digits_only: false,
            cost: 1,
            enforced: true,
            draw: Draw::Take,
        };
        let (sender, receiver) = oneshot::channel();
        self.traffic.enqueue(StoreRequest::from(RequestState {
            operation: Operation::Decide(smallvec![item]),
            slot,
            submitted_at: Timestamp::from_millis(1_000),
            submitted: self.start,
            submitted_at_latest: Timestamp::from_millis(1_000),
            deadline: self.start + Duration::from_millis(50),
            hops: 0,
            asking: false,
            responder: Some(sender),
        }));
        receiver
    }

    /// Sends everything queued and returns the commands.
    fn send_queued(&mut self) -> Vec<String> {
        self.traffic.send_queued(&mut self.out, self.start);
        self.written()
    }

    fn written(&mut self) -> Vec<String> {
        let text = String::from_utf8(std::mem::take(&mut self.out)).unwrap();
        text.split('*').skip(1).map(str::to_owned).collect()
    }

    /// Replies to the oldest call with these debts in seconds; negative for a denial.
    fn reply(&mut self, debts: &[i64]) -> Option<TrafficEvent> {
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

    fn error(&mut self, error: &str) -> Option<TrafficEvent> {
        self.traffic.take_reply(
            &mut Reply::Error(error.to_owned()),
            &mut self.out,
            self.start,
        )
    }
}

fn is_allowed(answer: &mut ResponseReceiver) -> bool {
    match answer.try_recv().expect("answered") {
        Ok(StoreResponse::Decided { answers, .. }) => answers[0].allowed,
        Ok(StoreResponse::FromMemory(outcomes)) => outcomes[0].is_allowed(),
        other => panic!("no decision: {:?}", other.err()),
    }
}

fn error_of(answer: &mut ResponseReceiver) -> RequestError {
    answer.try_recv().expect("answered").err().expect("a fault")
}

#[test]
fn everything_that_waits_goes_out_in_one_call() {
    let mut bench = TrafficBench::standalone();
    let mut answers = [bench.request("a"), bench.request("b"), bench.request("a")];
    assert_eq!(bench.send_queued().len(), 1);
    assert!(bench.reply(&[1, 1, 2]).is_none());
    assert!(answers.iter_mut().all(is_allowed));
}

#[test]
fn on_a_cluster_a_call_holds_the_keys_of_one_slot() {
    let mut bench = TrafficBench::new(RedisOptions::cluster([Endpoint::new("127.0.0.1", 6_379)]));
    let _answers = [
        bench.request_on("a", 1),
        bench.request_on("b", 2),
        bench.request_on("c", 1),
    ];
    assert_eq!(bench.send_queued().len(), 2);
}

#[test]
fn requests_on_a_counter_in_flight_share_its_denial() {
    let mut bench = TrafficBench::standalone();
    let mut first = bench.request("a");
    assert_eq!(bench.send_queued().len(), 1);
    let mut waiting = [bench.request("a"), bench.request("a")];
    assert_eq!(
        bench.send_queued().len(),
        0,
        "one call of a counter is under way"
    );
    bench.reply(&[-2]);
    assert!(!is_allowed(&mut first) && !waiting.iter_mut().any(is_allowed));
    assert_eq!(bench.send_queued().len(), 0, "nobody had to request again");
    let mut delayed = bench.request("a");
    assert_eq!(
        bench.send_queued().len(),
        0,
        "nor somebody whose look was before the answer"
    );
    assert!(!is_allowed(&mut delayed));
}

#[test]
fn requests_on_a_counter_with_units_left_go_out_together() {
    let mut bench = TrafficBench::standalone();
    let mut first = bench.request("a");
    bench.send_queued();
    let mut waiting = [bench.request("a"), bench.request("a")];
    bench.send_queued();
    bench.reply(&[1]);
    assert!(is_allowed(&mut first));
    assert_eq!(bench.send_queued().len(), 1);
    bench.reply(&[2, -2]);
    assert_eq!(waiting.each_mut().map(is_allowed), [true, false]);
}

#[test]
fn two_batches_are_in_flight_at_most() {
    let mut bench = TrafficBench::standalone();
    let _answers = ["a", "b", "c", "d"].map(|name| {
        let answer = bench.request(name);
        (bench.send_queued().len(), answer)
    });
    let written: Vec<usize> = _answers.iter().map(|(written, _)| *written).collect();
    assert_eq!(written, [1, 1, 0, 0]);
    bench.reply(&[1]);
    assert_eq!(
        bench.send_queued().len(),
        1,
        "the other two go out together"
    );
}

#[test]
fn a_node_that_forgot_the_script_is_sent_its_text_once() {
    let mut bench = TrafficBench::standalone();
    let mut answers = ["a", "b"].map(|name| {
        let answer = bench.request(name);
        bench.send_queued();
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
    // The node forgot the script again: a call that meets NOSCRIPT twice brings the source itself.
    assert!(bench.error("NOSCRIPT No matching script.").is_none());
    assert!(bench.written().iter().any(is_text));
    bench.reply(&[1]);
    assert!(answers.iter_mut().all(is_allowed));
}

#[test]
fn requests_time_out_and_a_late_reply_still_shows_the_counter() {
    let mut bench = TrafficBench::standalone();
    let (mut sent, mut parked) = (bench.request("a"), bench.request("b"));
    bench.send_queued();
    let mut waits = bench.request("a");
    bench.send_queued();
    bench
        .traffic
        .expire(bench.start + Duration::from_millis(49));
    assert!(sent.try_recv().is_err(), "a millisecond is left");
    bench
        .traffic
        .expire(bench.start + Duration::from_millis(50));
    assert_eq!(
        [&mut sent, &mut parked, &mut waits].map(error_of),
        [const { RequestError::TimedOut }; 3]
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
fn a_request_that_nobody_waits_for_is_not_sent() {
    let mut bench = TrafficBench::standalone();
    drop(bench.request("a"));
    assert_eq!(bench.send_queued().len(), 0);
}

#[test]
fn a_broken_connection_fails_calls_in_flight_and_keeps_the_rest() {
    let mut bench = TrafficBench::standalone();
    let mut sent = bench.request("a");
    bench.send_queued();
    let mut parked = bench.request("a");
    bench.send_queued();
    bench.traffic.connection_lost("gone");
    assert_eq!(
        error_of(&mut sent),
        RequestError::Unavailable("gone".to_owned())
    );
    assert_eq!(bench.send_queued().len(), 1, "the next connection takes it");
    bench.reply(&[1]);
    assert!(is_allowed(&mut parked));
}

#[test]
fn errors_redirect_requests_to_their_node() {
    let mut bench = TrafficBench::standalone();
    let _moved = bench.request("a");
    bench.send_queued();
    let event = bench.error("MOVED 5 10.0.0.1:6380");
    assert!(
        matches!(&event, Some(TrafficEvent::Moved { slot: 5, host, port: 6380, requests }) if host == "10.0.0.1" && requests.len() == 1)
    );
    let _asked = bench.request("b");
    bench.send_queued();
    assert!(
        matches!(bench.error("ASK 5 10.0.0.1:6380"), Some(TrafficEvent::Redirected { requests, .. }) if requests.len() == 1)
    );
    let _demoted = bench.request("c");
    bench.send_queued();
    assert!(
        matches!(bench.error("READONLY You can't write"), Some(TrafficEvent::Demoted { requests }) if requests.len() == 1)
    );
    let mut loading = bench.request("d");
    bench.send_queued();
    assert!(matches!(
        bench.error("LOADING dataset"),
        Some(TrafficEvent::Away(_))
    ));
    assert_eq!(
        error_of(&mut loading),
        RequestError::Unavailable("LOADING dataset".to_owned())
    );
    let mut other = bench.request("e");
    bench.send_queued();
    assert!(
        bench.error("OOM command not allowed").is_none(),
        "the node is fine"
    );
    assert_eq!(
        error_of(&mut other),
        RequestError::Unavailable("OOM command not allowed".to_owned())
    );
}

#[test]
fn a_request_that_bounces_between_nodes_pauses() {
    let mut bench = TrafficBench::standalone();
    let _answer = bench.request("a");
    let mut request = bench.traffic.queued.pop_front().unwrap();
    let mut rests = 0;
    for _ in 0..8 {
        bench.traffic.enqueue(request);
        bench.send_queued();
        let event = bench.error("MOVED 5 10.0.0.1:6380");
        let Some(TrafficEvent::Moved { mut requests, .. }) = event else {
            panic!("sent on: {event:?}")
        };
        request = match requests.pop() {
            Some(request) => request.redirected(false).unwrap(),
            None => {
                rests += 1;
                bench.traffic.delayed.pop().unwrap().1
            }
        };
    }
    assert_eq!(
        (rests, request.hops),
        (3, 8),
        "after the first three, every other time"
    );
}

#[test]
fn a_call_that_meets_a_moving_slot_is_tried_again_alone() {
    let mut bench = TrafficBench::new(RedisOptions::cluster([Endpoint::new("127.0.0.1", 6_379)]));
    let mut answers = [bench.request_on("a", 1), bench.request_on("b", 1)];
    assert_eq!(bench.send_queued().len(), 1);
    assert!(
        bench
            .error("TRYAGAIN Multiple keys request during rehashing of slot")
            .is_none()
    );
    assert_eq!(bench.send_queued().len(), 2, "each by itself");
    bench.reply(&[1]);
    bench.reply(&[1]);
    assert!(answers.iter_mut().all(is_allowed));
}

#[test]
fn a_reply_that_does_not_fit_its_call_ends_the_connection() {
    let mut bench = TrafficBench::standalone();
    let mut answer = bench.request("a");
    bench.send_queued();
    assert!(
        matches!(bench.reply(&[1, 1]), Some(TrafficEvent::Away(_))),
        "two answers to one charge"
    );
    assert!(matches!(
        error_of(&mut answer),
        RequestError::Unavailable(_)
    ));
    assert!(
        matches!(bench.reply(&[]), Some(TrafficEvent::Away(_))),
        "nobody submitted"
    );
}
