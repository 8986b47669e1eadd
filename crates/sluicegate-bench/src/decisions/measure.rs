//! One turn: a contestant is started, tasted, warmed up, asked, and looked at from outside.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use sluicegate_testkit::{free_port, watchdog};

use super::clients::{Asking, Clients};
use super::contestants::Who;
use super::loads::{Allowance, Load, Protocol};
use super::programs::Program;
use super::questions::Question;
use super::taste::taste;
use crate::errand;
use crate::running::{Launch, Running, on_loopback};
use crate::samples::{Contestant, Sample};

const WARM_UP: Duration = Duration::from_millis(500);

/// Lets a contestant take a turn; what it did before the warm-up was over does not count.
pub fn sample(
    clients: &Clients,
    program: &Program,
    load: &Load,
    duration: Duration,
) -> Result<Sample, String> {
    let running = start(program, load.protocol)?;
    let server = running.address();
    let script = if program.who == Who::Redis {
        script_in(server)?
    } else {
        String::new()
    };
    let question = Question {
        who: program.who,
        allowance: Allowance::AMPLE,
        script: &script,
    };
    taste(&question, load.protocol, server, &clients.nghttp)?;
    let asking = |duration| Asking {
        load,
        question: &question,
        server,
        duration,
    };
    clients.ask(&asking(WARM_UP))?;
    let before = running.tree().cpu()?;
    let asked = clients.ask(&asking(duration))?;
    let cpu = running.tree().cpu()? - before;
    Ok(Sample {
        requests: asked.questions,
        wall: asked.wall,
        cpu,
        p50: asked.p50,
        p99: asked.p99,
        memory_bytes: running.tree().memory_bytes()?,
        wrong: asked.wrong,
        reconnects: 0,
    })
}

fn start(program: &Program, protocol: Protocol) -> Result<Running, String> {
    let who = program.who;
    let directory = watchdog::temporary_directory("decisions-");
    let [listen, admin] = [free_port(), free_port()].map(on_loopback);
    let config = directory.path().join("config");
    if let Some(text) = who.config(protocol, listen, admin) {
        fs::write(&config, text)
            .map_err(|error| format!("{}: its configuration: {error}", who.name()))?;
    }
    let arguments = who.arguments(protocol, listen, &config);
    Running::start(Launch {
        name: who.name(),
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
    errand::finish("redis-cli", &mut command, Duration::from_secs(1))
        .map(|printed| printed.trim().to_string())
}
