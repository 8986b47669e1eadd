//! One turn: a contestant is started, warmed up, asked, and looked at from outside.

use std::path::Path;
use std::time::Duration;

use super::backend::Backend;
use super::client::ClientPool;
use super::launch::{self, LaunchPurpose};
use super::loads::{BenchRequest, ClientProtocol, H2_STREAMS, IDLE_CONNECTIONS, ProxyLoad, rate};
use super::programs::ProxyProgram;
use super::results::IdleSample;
use crate::h2load::{self, StreamPlan};
use crate::rate::ExpectedAnswer;
use crate::running_server::RunningServer;
use crate::samples::ServerSample;
use crate::tally::AnswerTally;

/// The conditions that are the same for every turn of a run.
pub struct RunConditions<'a> {
    pub backend: &'a Backend,
    /// Where the client of HTTP/2 is; `None` when no load needs it.
    pub h2load: Option<&'a Path>,
    pub duration: Duration,
}

const WARM_UP: Duration = Duration::from_millis(500);

/// Lets a contestant take a turn; what it did before the warm-up was over does not count.
pub fn sample(
    conditions: &RunConditions<'_>,
    program: &ProxyProgram,
    load: &ProxyLoad,
) -> Result<ServerSample, String> {
    sample_for(
        conditions,
        program,
        load,
        &LaunchPurpose::of(load, conditions.backend.address()),
    )
}

/// The same, with a contestant that is set up for this purpose.
pub fn sample_for(
    conditions: &RunConditions<'_>,
    program: &ProxyProgram,
    load: &ProxyLoad,
    purpose: &LaunchPurpose,
) -> Result<ServerSample, String> {
    let running = launch::start(program, purpose)?;
    let mut ask = asking(conditions, &running, load)?;
    ask(WARM_UP)?;
    let (cpu_before, served_before) = (running.tree().cpu()?, conditions.backend.served());
    let tally = ask(conditions.duration)?;
    let (cpu, served) = (
        running.tree().cpu()? - cpu_before,
        conditions.backend.served() - served_before,
    );
    Ok(ServerSample {
        requests: tally.done(),
        wall: tally.wall,
        cpu,
        p50: tally.latencies.per_mille(500),
        p99: tally.latencies.per_mille(990),
        memory_bytes: running.tree().memory_bytes()?,
        wrong: load.wrong(&tally, served),
        reconnects: tally.reconnects,
    })
}

type AskFunction<'a> = Box<dyn FnMut(Duration) -> Result<AnswerTally, String> + 'a>;

/// The client that the load needs. That of HTTP/1.1 keeps its connections from the warm-up.
fn asking<'a>(
    conditions: &'a RunConditions<'_>,
    running: &RunningServer,
    load: &'a ProxyLoad,
) -> Result<AskFunction<'a>, String> {
    let target = running.address();
    match load.protocol {
        ClientProtocol::Http1 => {
            let mut pool = ClientPool::open(target, load.connections)?;
            Ok(Box::new(move |duration| pool.ask(load.request, duration)))
        }
        ClientProtocol::Http2 => {
            let h2load = conditions.h2load.ok_or("there is no h2load")?;
            let streams = StreamPlan {
                connections: load.connections,
                streams: H2_STREAMS,
                payload: None,
            };
            let url = format!("http://{target}{}", load.request.path());
            Ok(Box::new(move |duration| {
                h2load::ask(h2load, &url, &streams, duration)
            }))
        }
    }
}

/// A contestant's memory before any request, and with many connections that were answered once and are idle.
pub fn idle_sample(
    conditions: &RunConditions<'_>,
    program: &ProxyProgram,
) -> Result<IdleSample, String> {
    let backend = conditions.backend.address();
    let purpose = LaunchPurpose {
        protocol: ClientProtocol::Http1,
        rate: rate(ExpectedAnswer::Allowed),
        backend,
        external: None,
    };
    let running = launch::start(program, &purpose)?;
    let fresh_bytes = running.tree().memory_bytes()?;
    let pool = ClientPool::open_idle(running.address(), IDLE_CONNECTIONS, BenchRequest::Small)?;
    let idle_bytes = running.tree().memory_bytes()?;
    drop(pool);
    Ok(IdleSample {
        fresh_bytes,
        idle_bytes,
    })
}
