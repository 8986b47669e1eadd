//! The protocol of Redis and the calls of the scripts as plain functions, for the targets in
//! `fuzz/`.

use sluicegate_core::{Draw, Nanos, Outcome, Pace, Quota, Timestamp};

use super::charge::StoreCharge;
use super::scout;
use super::script::model::{ReferenceModel, Write};
use super::script::{
    ChargeReply, ChargeTime, DecideReply, ScriptTime, decide_script, outcome, read_refund,
    refund_script, write_decide, write_refund,
};
use super::server_error::ServerError;
use super::wire::{Reply, parse, write_array_header, write_bulk};

/// Parses the first reply in these bytes and reads it in every way in which replies are read.
/// Returns the reply, written again, and its length; `None` while it is incomplete.
///
/// # Panics
///
/// If the reply is taken for a decision that its limit does not allow.
pub fn parse_reply(bytes: &[u8]) -> Result<Option<(Vec<u8>, usize)>, String> {
    let Some((reply, used)) = parse(bytes).map_err(|error| error.to_string())? else {
        return Ok(None);
    };
    let mut written = Vec::new();
    write_reply(&mut written, &reply);
    scout::read_in_every_way(&reply);
    if let Reply::Error(text) = &reply {
        ServerError::read(text);
    }
    read_as_decisions(&reply);
    if let Ok(refunded) = read_refund(&mut reply.clone()) {
        quotas().for_each(|quota| within_limit(quota, refunded.outcome(quota)));
    }
    Ok(Some((written, used)))
}

fn write_reply(out: &mut Vec<u8>, reply: &Reply) {
    match reply {
        Reply::Simple(text) => out.extend_from_slice(format!("+{text}\r\n").as_bytes()),
        Reply::Error(text) => out.extend_from_slice(format!("-{text}\r\n").as_bytes()),
        Reply::Integer(number) => out.extend_from_slice(format!(":{number}\r\n").as_bytes()),
        Reply::Bulk(bytes) => write_bulk(out, bytes),
        Reply::Nil => out.extend_from_slice(b"$-1\r\n"),
        Reply::Array(items) => {
            write_array_header(out, items.len());
            items.iter().for_each(|item| write_reply(out, item));
        }
    }
}

/// One quota of each kind.
fn quotas() -> impl Iterator<Item = Quota> + Clone {
    [
        Quota::new(10, Nanos::SECOND, 20),
        Quota::leaky_bucket(20, Nanos::SECOND, 3),
        Quota::fixed_window(20, Nanos::MINUTE),
        Quota::sliding_window(20, Nanos::MINUTE),
    ]
    .into_iter()
    .flatten()
}

/// Takes a reply for that of a call with as many charges as it has results.
fn read_as_decisions(reply: &Reply) {
    let Reply::Array(results) = reply else { return };
    let charges: Vec<StoreCharge> = quotas()
        .cycle()
        .take(results.len().saturating_sub(1))
        .map(|quota| ScriptCharge::new(0, quota, 1).into_store_charge())
        .collect();
    let mut reply = reply.clone();
    let Ok(mut reader) = DecideReply::new(&mut reply, charges.len()) else {
        return;
    };
    let Ok(Ok(answers)) = reader.request(&charges) else {
        return;
    };
    assert_eq!(answers.len(), charges.len());
    for (charge, answer) in charges.iter().zip(&answers) {
        let told = outcome(charge.quota, charge.cost, answer, reader.now);
        within_limit(charge.quota, told);
    }
}

fn within_limit(quota: Quota, outcome: Outcome) {
    assert!(
        outcome.remaining() <= quota.limit(),
        "{quota:?}: {outcome:?}"
    );
}

/// One charge of a script call.
#[derive(Clone, Copy, Debug)]
pub struct ScriptCharge {
    /// Number of the counter.
    pub counter: u8,
    /// Quota of the charge.
    pub quota: Quota,
    /// Pace of values without a mark.
    pub base: Option<Pace>,
    /// No mark may be written.
    pub digits_only: bool,
    /// Units to spend.
    pub cost: u64,
    /// A denial stops the request.
    pub enforced: bool,
    /// Units are taken, or only looked for.
    pub draw: Draw,
}

impl ScriptCharge {
    /// An ordinary charge.
    pub fn new(counter: u8, quota: Quota, cost: u64) -> Self {
        Self {
            counter,
            quota,
            base: None,
            digits_only: false,
            cost,
            enforced: true,
            draw: Draw::Take,
        }
    }

    fn into_store_charge(self) -> StoreCharge {
        StoreCharge {
            key: format!("k{}", self.counter),
            hash: u64::from(self.counter),
            quota: self.quota,
            base: self.base.filter(|base| *base != self.quota.pace()),
            digits_only: self.digits_only,
            cost: self.cost,
            enforced: self.enforced,
            draw: self.draw,
        }
    }
}

/// A script with its keys and arguments, as Redis gets them.
#[derive(Clone, Debug)]
pub struct ScriptCall {
    /// `KEYS`.
    pub keys: Vec<Vec<u8>>,
    /// `ARGV`.
    pub arguments: Vec<Vec<u8>>,
}

/// An element of the table that a script returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptValue {
    /// A number; Redis cuts its fraction off.
    Integer(i64),
    /// A string.
    Text(Vec<u8>),
}

/// The sources of the two scripts about counters: decide and refund.
pub fn script_sources() -> [&'static str; 2] {
    [decide_script().source, refund_script().source]
}

/// The pure code beside the scripts: what they must answer and write.
#[derive(Default)]
pub struct ScriptTwin(ReferenceModel);

impl ScriptTwin {
    /// Decides these requests in one call, which `run` makes and for which it returns the values
    /// and the writes (key, value, milliseconds) in their order.
    ///
    /// # Panics
    ///
    /// If the script and the pure code do not agree.
    pub fn decide(
        &mut self,
        requests: &[Vec<ScriptCharge>],
        now: Timestamp,
        run: impl FnOnce(ScriptCall) -> (Vec<ScriptValue>, Vec<Write>),
    ) {
        let charges: Vec<Vec<StoreCharge>> = requests
            .iter()
            .map(|request| {
                request
                    .iter()
                    .map(|charge| charge.into_store_charge())
                    .collect()
            })
            .collect();
        let charges: Vec<&[StoreCharge]> = charges.iter().map(Vec::as_slice).collect();
        let mut out = Vec::new();
        let count = write_decide(&mut out, &charges, ScriptTime::Given(now));
        let (values, writes) = run(call_of(count, &out));
        let mut reply = reply_of(values);
        let (expected, expected_writes) = self.0.decide(&charges, now);
        let total = charges.iter().map(|request| request.len()).sum();
        let mut reader = DecideReply::new(&mut reply, total)
            .unwrap_or_else(|error| panic!("{error}: {requests:?} at {now:?}"));
        assert_eq!(reader.now, now);
        for (request, expected) in charges.iter().zip(expected) {
            let answers = reader
                .request(request)
                .and_then(|answers| answers)
                .unwrap_or_else(|error| panic!("{error}: {requests:?} at {now:?}"));
            let told: Vec<Outcome> = request
                .iter()
                .zip(&answers)
                .map(|(charge, answer)| outcome(charge.quota, charge.cost, answer, now))
                .collect();
            assert_eq!(told, expected, "{requests:?} at {now:?}");
        }
        assert_eq!(writes, expected_writes, "{requests:?} at {now:?}");
    }

    /// Gives units of one counter back, that were spent `age` ago.
    ///
    /// # Panics
    ///
    /// If the script and the pure code do not agree.
    pub fn refund(
        &mut self,
        charge: &ScriptCharge,
        age: Nanos,
        now: Timestamp,
        run: impl FnOnce(ScriptCall) -> (Vec<ScriptValue>, Vec<Write>),
    ) {
        let charge = charge.into_store_charge();
        let mut out = Vec::new();
        let time = ScriptTime::Given(now);
        let count = write_refund(&mut out, &charge, ChargeTime::Ago(age), time);
        let (values, writes) = run(call_of(count, &out));
        let place = || format!("refund of {charge:?} after {age:?} at {now:?}");
        let refunded = read_refund(&mut reply_of(values))
            .unwrap_or_else(|error| panic!("{error}: {}", place()));
        let (expected, write) = self.0.refund(&charge, age, now);
        let answer = ChargeReply {
            allowed: true,
            state: refunded.state,
            excess_at: refunded.excess_at,
            is_stored: true,
        };
        let told = outcome(charge.quota, charge.cost, &answer, now);
        assert_eq!(told, expected, "{}", place());
        assert_eq!(writes, Vec::from_iter(write), "{}", place());
    }

    /// The value that the pure code has written for a counter.
    pub fn value(&self, counter: u8) -> Option<&str> {
        self.0
            .values
            .get(&format!("k{counter}"))
            .map(String::as_str)
    }
}

/// Takes numkeys, keys and arguments apart, which were written as strings of RESP.
fn call_of(count: usize, strings: &[u8]) -> ScriptCall {
    let mut bytes = Vec::new();
    write_array_header(&mut bytes, count);
    bytes.extend_from_slice(strings);
    let Ok(Some((Reply::Array(words), used))) = parse(&bytes) else {
        panic!("a call is an array: {bytes:?}")
    };
    assert_eq!((words.len(), used), (count, bytes.len()));
    let mut words = words.into_iter().map(|word| match word {
        Reply::Bulk(word) => word,
        other => panic!("a call has strings only: {other:?}"),
    });
    let key_count = words.next().unwrap_or_default();
    let key_count = String::from_utf8_lossy(&key_count)
        .parse()
        .expect("numkeys is a number");
    let keys = words.by_ref().take(key_count).collect();
    ScriptCall {
        keys,
        arguments: words.collect(),
    }
}

fn reply_of(values: Vec<ScriptValue>) -> Reply {
    let replies = values.into_iter().map(|value| match value {
        ScriptValue::Integer(number) => Reply::Integer(number),
        ScriptValue::Text(bytes) => Reply::Bulk(bytes),
    });
    Reply::Array(replies.collect())
}
