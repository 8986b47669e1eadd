//! One turn: a contestant is started, warmed up, asked, and looked at from outside.

use std::path::Path;
use std::time::Duration;

use super::backend::Backend;
use super::client::Crowd;
use super::launch::{self, Purpose};
use super::loads::{H2_STREAMS, IDLE_CONNECTIONS, Load, Protocol, Request, rate};
use super::programs::Program;
use super::results::IdleSample;
use crate::h2load::{self, Streams};
use crate::rate::Answer;
use crate::running::Running;
use crate::samples::Sample;
use crate::tally::Tally;

/// What is the same for every turn of a run.
pub struct Course<'a> {
    pub backend: &'a Backend,
    /// Where the client of HTTP/2 is; `None` when no load needs it.
    pub h2load: Option<&'a Path>,
    pub duration: Duration,
}

const WARM_UP: Duration = Duration::from_millis(500);

/// Lets a contestant take a turn; what it did before the warm-up was over does not count.
pub fn sample(course: &Course<'_>, program: &Program, load: &Load) -> Result<Sample, String> {
    sample_for(
        course,
        program,
        load,
        &Purpose::of(load, course.backend.address()),
    )
}

/// The same, with a contestant that is set up for this purpose.
pub fn sample_for(
    course: &Course<'_>,
    program: &Program,
    load: &Load,
    purpose: &Purpose,
) -> Result<Sample, String> {
    let running = launch::start(program, purpose)?;
    let mut ask = asking(course, &running, load)?;
    ask(WARM_UP)?;
    let (cpu_before, served_before) = (running.tree().cpu()?, course.backend.served());
    let tally = ask(course.duration)?;
    let (cpu, served) = (
        running.tree().cpu()? - cpu_before,
        course.backend.served() - served_before,
    );
    Ok(Sample {
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

type Asking<'a> = Box<dyn FnMut(Duration) -> Result<Tally, String> + 'a>;

/// The client that the load needs. That of HTTP/1.1 keeps its connections from the warm-up.
fn asking<'a>(
    course: &'a Course<'_>,
    running: &Running,
    load: &'a Load,
) -> Result<Asking<'a>, String> {
    let target = running.address();
    match load.protocol {
        Protocol::Http1 => {
            let mut crowd = Crowd::open(target, load.connections)?;
            Ok(Box::new(move |duration| crowd.ask(load.request, duration)))
        }
        Protocol::Http2 => {
            let h2load = course.h2load.ok_or("there is no h2load")?;
            let streams = Streams {
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

/// What a contestant's memory is before any request, and with many connections that were answered once and are idle.
pub fn idle_sample(course: &Course<'_>, program: &Program) -> Result<IdleSample, String> {
    let backend = course.backend.address();
    let purpose = Purpose {
        protocol: Protocol::Http1,
        rate: rate(Answer::Allowed),
        backend,
        outside: None,
    };
    let running = launch::start(program, &purpose)?;
    let fresh_bytes = running.tree().memory_bytes()?;
    let crowd = Crowd::open_idle(running.address(), IDLE_CONNECTIONS, Request::Small)?;
    let idle_bytes = running.tree().memory_bytes()?;
    drop(crowd);
    Ok(IdleSample {
        fresh_bytes,
        idle_bytes,
    })
}
