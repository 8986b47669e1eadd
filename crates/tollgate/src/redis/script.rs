//! stub
use super::{Item, wire::Reply, ask::Drawn};
use tollgate_core::{*, algorithm::State};
pub(super) enum Now { Server, Replica(Timestamp), Given(Timestamp) }
pub(super) struct Script { pub source: &'static str, pub sha: String }
pub(super) fn decide_script() -> &'static Script { todo!() }
pub(super) fn refund_script() -> &'static Script { todo!() }
pub(super) fn write_decide(_: &mut Vec<u8>, _: &[&[Item]], _: Now) -> usize { todo!() }
pub(super) struct Answers { pub now: Timestamp, pub requests: Vec<Result<List<Answer>, String>> }
#[derive(Clone, Copy)] pub(super) struct Answer { pub allowed: bool, pub state: Option<State> }
pub(super) fn read_decide(_: Reply, _: &[&[Item]]) -> Result<Answers, String> { todo!() }
pub(super) fn outcome(_: Quota, _: u64, _: &Answer, _: Timestamp) -> Outcome { todo!() }
pub(super) fn write_refund(_: &mut Vec<u8>, _: &Item, _: Drawn, _: Now) -> usize { todo!() }
pub(super) fn read_refund(_: Reply, _: &Item) -> Result<Result<(Timestamp, Answer), String>, String> { todo!() }
