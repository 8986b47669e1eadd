//! One turn: a contestant is started, warmed up, asked, and looked at from outside.

use std::path::Path;
use std::time::Duration;

use sluicegate_testkit::TlsFiles;

use super::backend::Backend;
use super::client::ClientPool;
use super::connector::Connector;
use super::launch::{self, LaunchPurpose};
use super::loads::{ClientProtocol, H2_STREAMS, IDLE_CONNECTIONS, LOADS, ProxyLoad};
use super::programs::ProxyProgram;
use super::requests::BenchRequest;
use super::results::IdleSample;
use crate::callgrind_server::Callgrind;
use crate::event_counts::CountableEvents;
use crate::h2load::{self, StreamPlan};
use crate::process_tree::ProcessTree;
use crate::running_server::RunningServer;
use crate::samples::{CountsPerRequest, ServerSample};
use crate::tally::AnswerTally;

/// The conditions that are the same for every turn of a run.
pub struct RunConditions<'a> {
    pub backend: &'a Backend,
    /// Where the client of HTTP/2 is; `None` when no load needs it.
    pub h2load: Option<&'a Path>,
    pub duration: Duration,
    pub tls: &'a TlsFiles,
    pub events: &'a CountableEvents,
}

impl<'a> RunConditions<'a> {
    pub fn purpose(&self, load: &ProxyLoad) -> LaunchPurpose<'a> {
        LaunchPurpose::of(load, self.backend.address(), self.tls)
    }
}

const WARM_UP: Duration = Duration::from_millis(500);
/// The stretch in which events are counted.
const COUNTING: Duration = Duration::from_millis(300);

/// Lets a contestant take a turn; what it did before the warm-up was over does not count.
pub fn sample(
    conditions: &RunConditions<'_>,
    program: &ProxyProgram,
    load: &ProxyLoad,
) -> Result<ServerSample, String> {
    sample_for(conditions, program, load, &conditions.purpose(load))
}

/// The same, with a contestant that is set up for this purpose.
pub fn sample_for(
    conditions: &RunConditions<'_>,
    program: &ProxyProgram,
    load: &ProxyLoad,
    purpose: &LaunchPurpose<'_>,
) -> Result<ServerSample, String> {
    let running = launch::start(program, purpose)?;
    sample_of(conditions, &running, running.tree(), load)
}

/// Asks a contestant that runs, and reads what its processes used.
pub fn sample_of(
    conditions: &RunConditions<'_>,
    running: &RunningServer,
    tree: ProcessTree,
    load: &ProxyLoad,
) -> Result<ServerSample, String> {
    let mut ask = asking(conditions, running, load)?;
    ask(WARM_UP)?;
    let (cpu_before, served_before) = (tree.cpu()?, conditions.backend.served());
    let tally = ask(conditions.duration)?;
    let (cpu, served) = (
        tree.cpu()?.since(&cpu_before),
        conditions.backend.served() - served_before,
    );
    let memory_bytes = tree.memory_bytes()?;
    let (counts, counted) = conditions.events.count(&tree, || ask(COUNTING))?;
    Ok(ServerSample {
        requests: tally.done(),
        wall: tally.wall,
        cpu,
        p50: tally.latencies.per_mille(500),
        p99: tally.latencies.per_mille(990),
        memory_bytes,
        wrong: load.wrong(&tally, served),
        reconnects: tally.reconnects,
        counted: CountsPerRequest::new(counts, counted.done()),
    })
}

/// Instructions per request of a contestant under callgrind, which makes it some fifty times slower.
pub fn instructions(
    conditions: &RunConditions<'_>,
    program: &ProxyProgram,
    load: &ProxyLoad,
    callgrind: &Callgrind,
) -> Result<f64, String> {
    let purpose = LaunchPurpose {
        callgrind: Some(callgrind),
        ..conditions.purpose(load)
    };
    // Fewer, because each takes long to open with TLS; what a request takes does not depend on it.
    let load = ProxyLoad {
        connections: load.connections.min(16),
        ..*load
    };
    let running = launch::start(program, &purpose)?;
    let mut ask = asking(conditions, &running, &load)?;
    ask(CALLGRIND)?;
    let tree = running.tree();
    let (count, tally) = callgrind.count(&tree, running.directory(), || ask(CALLGRIND))?;
    Ok(count as f64 / tally.done().max(1) as f64)
}

const CALLGRIND: Duration = Duration::from_secs(2);

type AskFunction<'a> = Box<dyn FnMut(Duration) -> Result<AnswerTally, String> + 'a>;

/// The client that the load needs. That of HTTP/1.1 keeps its connections from the warm-up.
fn asking<'a>(
    conditions: &'a RunConditions<'_>,
    running: &RunningServer,
    load: &'a ProxyLoad,
) -> Result<AskFunction<'a>, String> {
    let target = running.address();
    let connector = match load.protocol {
        ClientProtocol::Http1 => Connector::plain(target),
        ClientProtocol::Tls(tls_use) => {
            Connector::with_tls(target, &conditions.tls.authority(), tls_use)?
        }
        ClientProtocol::Http2 => return asking_h2(conditions, running, load),
    };
    let mut pool = ClientPool::open(connector, load.connections)?;
    Ok(Box::new(move |duration| pool.ask(load.requests, duration)))
}

fn asking_h2<'a>(
    conditions: &'a RunConditions<'_>,
    running: &RunningServer,
    load: &ProxyLoad,
) -> Result<AskFunction<'a>, String> {
    let h2load = conditions.h2load.ok_or("there is no h2load")?;
    let streams = StreamPlan {
        connections: load.connections,
        streams: H2_STREAMS,
        payload: None,
    };
    let url = format!("http://{}{}", running.address(), load.requests[0].path());
    Ok(Box::new(move |duration| {
        h2load::ask(h2load, &url, &streams, duration)
    }))
}

/// A contestant's memory before any request, and with many connections that were answered once and are idle.
pub fn idle_sample(
    conditions: &RunConditions<'_>,
    program: &ProxyProgram,
) -> Result<IdleSample, String> {
    let running = launch::start(program, &conditions.purpose(&LOADS[0]))?;
    let fresh_bytes = running.tree().memory_bytes()?;
    let connector = Connector::plain(running.address());
    let pool = ClientPool::open_idle(connector, IDLE_CONNECTIONS, BenchRequest::Small)?;
    let idle_bytes = running.tree().memory_bytes()?;
    drop(pool);
    Ok(IdleSample {
        fresh_bytes,
        idle_bytes,
    })
}
