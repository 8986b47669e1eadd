//! One turn: a contestant is started, tasted, warmed up, asked, and looked at from outside.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use sluicegate_testkit::{free_port, watchdog};

use super::check_answers::check_answers;
use super::clients::{ClientFigures, ClientRun, LoadClients};
use super::contestants::DecisionsContestant;
use super::loads::{AskedQuota, DecisionsLoad, DecisionsProtocol};
use super::programs::DecisionsProgram;
use super::questions::QuotaQuestion;
use crate::callgrind_server::Callgrind;
use crate::event_counts::CountableEvents;
use crate::external_command;
use crate::running_server::{RunningServer, ServerLaunch, on_loopback};
use crate::samples::{CountsPerRequest, ServerContestant, ServerSample};

const WARM_UP: Duration = Duration::from_millis(500);

/// The stretch in which events are counted.
const COUNTING: Duration = Duration::from_millis(300);
/// Under callgrind a server is some fifty times slower, and redis-benchmark asks as many questions as a fast one
/// answers in this time: enough that what the server does besides is lost in it. The other clients ask for a second.
const CALLGRIND: Duration = Duration::from_millis(100);

/// The conditions that are the same for every turn of a run.
pub struct TurnConditions<'a> {
    pub clients: &'a LoadClients,
    pub duration: Duration,
    pub events: &'a CountableEvents,
}

/// Lets a contestant take a turn; what it did before the warm-up was over does not count.
pub fn sample(
    conditions: &TurnConditions<'_>,
    program: &DecisionsProgram,
    load: &DecisionsLoad,
) -> Result<ServerSample, String> {
    let running = start(program, load.protocol, None)?;
    let ask = asking(conditions.clients, program, &running, load)?;
    ask(WARM_UP)?;
    let tree = running.tree();
    let before = tree.cpu()?;
    let figures = ask(conditions.duration)?;
    let cpu = tree.cpu()?.since(&before);
    let memory_bytes = tree.memory_bytes()?;
    let (counts, counted) = conditions.events.count(&tree, || ask(COUNTING))?;
    Ok(ServerSample {
        requests: figures.questions,
        wall: figures.wall,
        cpu,
        p50: figures.p50,
        p99: figures.p99,
        memory_bytes,
        wrong: figures.wrong,
        reconnects: 0,
        counted: CountsPerRequest::new(counts, counted.questions),
    })
}

/// Instructions per decision of a contestant under callgrind.
pub fn instructions(
    conditions: &TurnConditions<'_>,
    program: &DecisionsProgram,
    load: &DecisionsLoad,
    callgrind: &Callgrind,
) -> Result<f64, String> {
    let running = start(program, load.protocol, Some(callgrind))?;
    let ask = asking(conditions.clients, program, &running, load)?;
    ask(CALLGRIND)?;
    let tree = running.tree();
    let (count, figures) = callgrind.count(&tree, running.directory(), || ask(CALLGRIND))?;
    Ok(count as f64 / figures.questions.max(1) as f64)
}

type AskFunction<'a> = Box<dyn Fn(Duration) -> Result<ClientFigures, String> + 'a>;

/// The client of the load, after a taste of the contestant's answers.
fn asking<'a>(
    clients: &'a LoadClients,
    program: &DecisionsProgram,
    running: &RunningServer,
    load: &'a DecisionsLoad,
) -> Result<AskFunction<'a>, String> {
    let (server, contestant) = (running.address(), program.contestant);
    let script = if contestant == DecisionsContestant::Redis {
        script_in(server)?
    } else {
        String::new()
    };
    fn question(contestant: DecisionsContestant, script: &str) -> QuotaQuestion<'_> {
        QuotaQuestion {
            contestant,
            quota: AskedQuota::AMPLE,
            script,
        }
    }
    let taste = question(contestant, &script);
    check_answers(&taste, load.protocol, server, &clients.nghttp)?;
    Ok(Box::new(move |duration| {
        clients.ask(&ClientRun {
            load,
            question: &question(contestant, &script),
            server,
            duration,
        })
    }))
}

fn start(
    program: &DecisionsProgram,
    protocol: DecisionsProtocol,
    callgrind: Option<&Callgrind>,
) -> Result<RunningServer, String> {
    let contestant = program.contestant;
    let directory = watchdog::temporary_directory("decisions-");
    let [listen, admin] = [free_port(), free_port()].map(on_loopback);
    let config = directory.path().join("config");
    if let Some(text) = contestant.config(protocol, listen, admin) {
        fs::write(&config, text)
            .map_err(|error| format!("{}: its configuration: {error}", contestant.name()))?;
    }
    RunningServer::start(ServerLaunch {
        name: contestant.name(),
        program: &program.path,
        arguments: contestant.arguments(protocol, listen, &config),
        address: listen,
        processes: 1,
        directory,
        callgrind,
    })
}

/// Loads the script of `bench redis`, and returns its digest.
fn script_in(server: SocketAddr) -> Result<String, String> {
    let mut command = Command::new("redis-cli");
    command.args([
        "-h",
        &server.ip().to_string(),
        "-p",
        &server.port().to_string(),
        "SCRIPT",
        "LOAD",
    ]);
    command.arg(include_str!("../redis/lua/gcra.lua"));
    external_command::finish("redis-cli", &mut command, Duration::from_secs(1))
        .map(|printed| printed.trim().to_string())
}
