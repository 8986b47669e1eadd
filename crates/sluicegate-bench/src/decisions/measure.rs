//! One turn: a contestant is started, tasted, warmed up, asked, and looked at from outside.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use sluicegate_testkit::{free_port, watchdog};

use super::check_answers::check_answers;
use super::clients::{ClientRun, LoadClients};
use super::contestants::DecisionsContestant;
use super::loads::{AskedQuota, DecisionsLoad, DecisionsProtocol};
use super::programs::DecisionsProgram;
use super::questions::QuotaQuestion;
use crate::external_command;
use crate::running_server::{RunningServer, ServerLaunch, on_loopback};
use crate::samples::{ServerContestant, ServerSample};

const WARM_UP: Duration = Duration::from_millis(500);

/// Lets a contestant take a turn; what it did before the warm-up was over does not count.
pub fn sample(
    clients: &LoadClients,
    program: &DecisionsProgram,
    load: &DecisionsLoad,
    duration: Duration,
) -> Result<ServerSample, String> {
    let running = start(program, load.protocol)?;
    let server = running.address();
    let script = if program.contestant == DecisionsContestant::Redis {
        script_in(server)?
    } else {
        String::new()
    };
    let question = QuotaQuestion {
        contestant: program.contestant,
        quota: AskedQuota::AMPLE,
        script: &script,
    };
    check_answers(&question, load.protocol, server, &clients.nghttp)?;
    let client_run = |duration| ClientRun {
        load,
        question: &question,
        server,
        duration,
    };
    clients.ask(&client_run(WARM_UP))?;
    let before = running.tree().cpu()?;
    let figures = clients.ask(&client_run(duration))?;
    let cpu = running.tree().cpu()? - before;
    Ok(ServerSample {
        requests: figures.questions,
        wall: figures.wall,
        cpu,
        p50: figures.p50,
        p99: figures.p99,
        memory_bytes: running.tree().memory_bytes()?,
        wrong: figures.wrong,
        reconnects: 0,
    })
}

fn start(program: &DecisionsProgram, protocol: DecisionsProtocol) -> Result<RunningServer, String> {
    let contestant = program.contestant;
    let directory = watchdog::temporary_directory("decisions-");
    let [listen, admin] = [free_port(), free_port()].map(on_loopback);
    let config = directory.path().join("config");
    if let Some(text) = contestant.config(protocol, listen, admin) {
        fs::write(&config, text)
            .map_err(|error| format!("{}: its configuration: {error}", contestant.name()))?;
    }
    let arguments = contestant.arguments(protocol, listen, &config);
    RunningServer::start(ServerLaunch {
        name: contestant.name(),
        program: &program.path,
        arguments,
        address: listen,
        processes: 1,
        directory,
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
