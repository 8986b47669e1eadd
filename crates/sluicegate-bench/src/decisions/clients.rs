//! The clients: redis-benchmark, wrk and h2load, each with one thread, and what they print.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use sluicegate_testkit::watchdog;

use super::loads::{DecisionsLoad, DecisionsProtocol, KEYS};
use super::questions::QuotaQuestion;
use crate::external_command;
use crate::h2load::{self, StreamPlan};

/// Where the clients are.
pub struct LoadClients {
    pub redis_benchmark: PathBuf,
    pub wrk: PathBuf,
    pub h2load: PathBuf,
    /// For a taste.
    pub nghttp: PathBuf,
}

/// One run of a client: the question, the server, and about how long.
pub struct ClientRun<'a> {
    pub load: &'a DecisionsLoad,
    pub question: &'a QuotaQuestion<'a>,
    pub server: SocketAddr,
    pub duration: Duration,
}

/// The figures that a client reports about its run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClientFigures {
    pub questions: u64,
    pub wall: Duration,
    pub p50: Duration,
    pub p99: Duration,
    /// Answers that were none.
    pub wrong: u64,
}

impl LoadClients {
    /// Asks for about so long; redis-benchmark instead asks so many questions as a busy machine answers in that time.
    pub fn ask(&self, client_run: &ClientRun<'_>) -> Result<ClientFigures, String> {
        match client_run.load.protocol {
            DecisionsProtocol::Resp => self.ask_resp(client_run),
            DecisionsProtocol::Http => self.ask_http(client_run),
            DecisionsProtocol::Grpc => self.ask_grpc(client_run),
        }
    }

    fn ask_resp(&self, client_run: &ClientRun<'_>) -> Result<ClientFigures, String> {
        let ClientRun {
            load,
            question,
            server,
            duration,
        } = client_run;
        const PER_SECOND: [(usize, u64); 3] = [(1, 50_000), (16, 250_000), (64, 400_000)];
        let per_second = PER_SECOND
            .iter()
            .rfind(|(least, _)| load.at_a_time >= *least)
            .map_or(50_000, |(_, rate)| *rate);
        let questions = per_second * duration.as_millis() as u64 / 1_000;
        let mut command = Command::new(&self.redis_benchmark);
        command
            .args([
                "-h",
                &server.ip().to_string(),
                "-p",
                &server.port().to_string(),
                "--csv",
                "-n",
                &questions.to_string(),
            ])
            .args([
                "-c",
                &load.connections.to_string(),
                "-P",
                &load.at_a_time.to_string(),
                "-r",
                &KEYS.to_string(),
            ])
            .args(question.command("k__rand_int__"));
        let printed = external_command::finish("redis-benchmark", &mut command, *duration * 10)?;
        of_redis_benchmark(&printed, questions)
            .ok_or_else(|| format!("redis-benchmark: not understood: {printed}"))
    }

    fn ask_http(&self, client_run: &ClientRun<'_>) -> Result<ClientFigures, String> {
        let ClientRun {
            load,
            question,
            server,
            duration,
        } = client_run;
        let directory = watchdog::temporary_directory("wrk-");
        let script = directory.path().join("ask.lua");
        let (path, body) = question.post("KEY");
        let (before, after) = body
            .split_once("KEY")
            .ok_or("the key is not in the question")?;
        let text = include_str!("ask.lua")
            .replace("<before>", before)
            .replace("<after>", after);
        fs::write(&script, text.replace("<keys>", &KEYS.to_string()))
            .map_err(|error| format!("wrk: {error}"))?;
        let mut command = Command::new(&self.wrk);
        command
            .args([
                "-t",
                "1",
                "-c",
                &load.connections.to_string(),
                "-d",
                &format!("{}s", duration.as_secs().max(1)),
            ])
            .args(["--latency", "-s", &script.to_string_lossy()])
            .arg(format!("http://{server}{path}"));
        let printed = external_command::finish("wrk", &mut command, *duration)?;
        of_wrk(&printed).ok_or_else(|| format!("wrk: not understood: {printed}"))
    }

    fn ask_grpc(&self, client_run: &ClientRun<'_>) -> Result<ClientFigures, String> {
        let ClientRun {
            load,
            question,
            server,
            duration,
        } = client_run;
        let directory = watchdog::temporary_directory("grpc-");
        let file = directory.path().join("message");
        let (method, message) = question.call("hot");
        fs::write(&file, message).map_err(|error| format!("h2load: {error}"))?;
        let streams = StreamPlan {
            connections: load.connections,
            streams: load.at_a_time,
            payload: Some(&file),
        };
        let tally = h2load::ask(
            &self.h2load,
            &format!("http://{server}{method}"),
            &streams,
            *duration,
        )?;
        Ok(ClientFigures {
            questions: tally.done(),
            wall: tally.wall,
            p50: tally.latencies.per_mille(500),
            p99: tally.latencies.per_mille(990),
            wrong: tally.done() - tally.allowed,
        })
    }
}

/// The last line: name, rate, and times in milliseconds: mean, least, p50, p95, p99, most.
fn of_redis_benchmark(printed: &str, questions: u64) -> Option<ClientFigures> {
    let line = printed.lines().rfind(|line| line.starts_with('"'))?;
    // The name is the command, which may hold anything but a quote.
    let fields: Vec<&str> = line.trim_matches('"').split("\",\"").collect();
    let [_, rate, _, _, p50, _, p99, _] = fields[..] else {
        return None;
    };
    let milliseconds = |text: &str| {
        Some(Duration::from_secs_f64(
            text.parse::<f64>().ok()?.max(0.0) / 1e3,
        ))
    };
    let wrong = if printed.contains("Error") {
        questions
    } else {
        0
    };
    let wall = wall_of(questions, rate)?;
    Some(ClientFigures {
        questions,
        wall,
        p50: milliseconds(p50)?,
        p99: milliseconds(p99)?,
        wrong,
    })
}

fn of_wrk(printed: &str) -> Option<ClientFigures> {
    let after = |name: &str| {
        printed
            .lines()
            .find_map(|line| line.trim().strip_prefix(name))
            .map(str::trim)
    };
    let questions = printed
        .lines()
        .find_map(|line| line.trim().split_once(" requests in "))?
        .0
        .trim()
        .parse()
        .ok()?;
    let bad_statuses =
        after("Non-2xx or 3xx responses:").map_or(Some(0), |count| count.parse().ok())?;
    let broken = u64::from(after("Socket errors:").is_some());
    Some(ClientFigures {
        questions,
        wall: wall_of(questions, after("Requests/sec:")?)?,
        p50: time_of(after("50%")?)?,
        p99: time_of(after("99%")?)?,
        wrong: bad_statuses + broken,
    })
}

/// The time in which so many were answered at this rate.
fn wall_of(questions: u64, per_second: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(questions as f64 / per_second.parse::<f64>().ok()?).ok()
}

/// `812.00us`, `3.05ms` or `1.20s`.
fn time_of(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|char: char| char.is_ascii_alphabetic())?);
    let scale = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return None,
    };
    Some(Duration::from_secs_f64(
        number.parse::<f64>().ok()?.max(0.0) * scale,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_redis_benchmark_prints_is_understood() {
        let printed = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\
                       \"p99_latency_ms\",\"max_latency_ms\"\n\
                       \"CL.THROTTLE k__rand_int__ 1 1 1\",\"99009.90\",\"0.257\",\"0.080\",\"0.247\",\"0.383\",\"0.551\",\"1.007\"\n";
        let figures = of_redis_benchmark(printed, 1_000).unwrap();
        assert_eq!((figures.questions, figures.wrong), (1_000, 0));
        assert_eq!(
            (figures.p50, figures.p99),
            (Duration::from_micros(247), Duration::from_micros(551))
        );
        assert_eq!(of_redis_benchmark("what\n", 1), None);
        assert_eq!(
            of_redis_benchmark(&format!("Error from server: no\n{printed}"), 9)
                .unwrap()
                .wrong,
            9
        );
    }

    #[test]
    fn what_wrk_prints_is_understood() {
        let printed = "Running 2s test @ http://127.0.0.1:1/\n  Latency Distribution\n     50%  812.00us\n     75%    1.00ms\n     \
                       90%    2.00ms\n     99%    3.05ms\n  61000 requests in 2.00s, 9.00MB read\n  \
                       Non-2xx or 3xx responses: 7\nRequests/sec:  30500.10\n";
        let figures = of_wrk(printed).unwrap();
        assert_eq!((figures.questions, figures.wrong), (61_000, 7));
        assert_eq!(
            (figures.p50, figures.p99),
            (Duration::from_micros(812), Duration::from_micros(3_050))
        );
        assert_eq!(of_wrk("what\n"), None);
    }
}
