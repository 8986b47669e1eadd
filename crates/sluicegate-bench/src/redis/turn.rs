//! One turn of one contestant, in a process of its own, in step with the process that measures.

use std::future::Future;
use std::io::{BufRead, Write, stdin, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinSet, yield_now};

use super::contestants::{
    RedisContestant, RedisLimiter, RedisSluicegate, ScriptedLimiter, ScriptedPeer, ServerAddress,
};
use super::loads::RedisLoad;
use crate::cpu;
use crate::rate::ExpectedAnswer;

/// One contestant under one load: for how long, and against which Redis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Turn {
    pub contestant: RedisContestant,
    pub load: RedisLoad,
    /// Tasks that each wait for one decision at a time.
    pub callers: usize,
    pub length: TurnLength,
    pub threads: RuntimeThreads,
    pub server: ServerAddress,
}

/// When a turn is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnLength {
    Time(Duration),
    Decisions(u32),
}

/// The runtime of a contestant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuntimeThreads {
    One,
    PerCore,
}

/// The figures that the contestant's own process reports about its turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TurnFigures {
    pub decisions: u64,
    pub wall: Duration,
    pub cpu: Duration,
    /// Answers other than the expected one.
    pub wrong: u64,
}

/// The child's side: warms up, waits for a line, decides, prints its figures, and waits for the end.
pub fn take(turn: &Turn) -> Result<(), String> {
    let runtime = turn.threads.runtime()?;
    runtime.block_on(async {
        let rate = turn.load.rate();
        match turn.contestant {
            RedisContestant::Sluicegate | RedisContestant::SluicegateCompact => {
                take_with(
                    RedisSluicegate::new(turn.server, rate, turn.contestant.layout())?,
                    turn,
                )
                .await
            }
            RedisContestant::Gcra => {
                take_with(
                    ScriptedLimiter::connect(turn.server, rate, ScriptedPeer::Gcra).await?,
                    turn,
                )
                .await
            }
            RedisContestant::HashBucket => {
                take_with(
                    ScriptedLimiter::connect(turn.server, rate, ScriptedPeer::HashBucket).await?,
                    turn,
                )
                .await
            }
        }
    })
}

async fn take_with(limiter: impl RedisLimiter, turn: &Turn) -> Result<(), String> {
    let limiter = Arc::new(limiter);
    let warm_up = TurnLength::Decisions((turn.callers as u32 * 20).max(500));
    decide(
        &limiter,
        &Turn {
            length: warm_up,
            ..*turn
        },
        RedisLoad::WARM_UP_FROM,
    )
    .await?;
    write_line("ready")?;
    read_line()?;
    let figures = decide(&limiter, turn, 0).await?;
    write_line(&figures.to_line())?;
    read_line()
}

/// Decides with all callers at once, each on the next request that nobody has.
async fn decide(
    limiter: &Arc<impl RedisLimiter>,
    turn: &Turn,
    first: u32,
) -> Result<TurnFigures, String> {
    let next = Arc::new(AtomicU32::new(first));
    let (wall_start, cpu_start) = (Instant::now(), cpu::of_this_process());
    let mut callers = JoinSet::new();
    for _ in 0..turn.callers {
        let (limiter, next, turn) = (Arc::clone(limiter), Arc::clone(&next), *turn);
        callers.spawn(async move { call(&*limiter, &next, &turn, first, wall_start).await });
    }
    let (mut decisions, mut allowed) = (0, 0);
    while let Some(ended) = callers.join_next().await {
        let counted = ended.map_err(|error| error.to_string())??;
        decisions += counted.decisions;
        allowed += counted.allowed;
    }
    let (wall, cpu) = (wall_start.elapsed(), cpu::of_this_process() - cpu_start);
    let wrong = match turn.load.answer() {
        ExpectedAnswer::Allowed => decisions - allowed,
        ExpectedAnswer::Denied => allowed,
    };
    Ok(TurnFigures {
        decisions,
        wall,
        cpu,
        wrong,
    })
}

#[derive(Default)]
struct DecisionCount {
    decisions: u64,
    allowed: u64,
}

/// One caller. Answers from memory are there at once, so it lets the others go first now and then.
fn call<'a>(
    limiter: &'a impl RedisLimiter,
    next: &'a AtomicU32,
    turn: &'a Turn,
    first: u32,
    started: Instant,
) -> impl Future<Output = Result<DecisionCount, String>> + Send + 'a {
    const DECISIONS_AT_A_TIME: usize = 32;
    async move {
        let mut counted = DecisionCount::default();
        loop {
            for _ in 0..DECISIONS_AT_A_TIME {
                let request = next.fetch_add(1, Ordering::Relaxed);
                if matches!(turn.length, TurnLength::Decisions(count) if request >= first + count) {
                    return Ok(counted);
                }
                counted.allowed += u64::from(limiter.decide(turn.load.address(request)).await?);
                counted.decisions += 1;
            }
            if matches!(turn.length, TurnLength::Time(duration) if started.elapsed() >= duration) {
                return Ok(counted);
            }
            yield_now().await;
        }
    }
}

impl RuntimeThreads {
    fn runtime(self) -> Result<Runtime, String> {
        let mut builder = match self {
            Self::One => Builder::new_current_thread(),
            Self::PerCore => Builder::new_multi_thread(),
        };
        builder
            .enable_all()
            .build()
            .map_err(|error| format!("no runtime: {error}"))
    }
}

fn write_line(line: &str) -> Result<(), String> {
    let mut out = stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .map_err(|error| format!("nobody listens: {error}"))
}

/// Waits for the next line from the process that measures.
fn read_line() -> Result<(), String> {
    let mut line = String::new();
    stdin()
        .lock()
        .read_line(&mut line)
        .map(|_| ())
        .map_err(|error| format!("nobody speaks: {error}"))
}

impl TurnFigures {
    pub fn to_line(self) -> String {
        format!(
            "{} {} {} {}",
            self.decisions,
            self.wall.as_nanos(),
            self.cpu.as_nanos(),
            self.wrong
        )
    }

    pub fn parse(line: &str) -> Result<Self, String> {
        let numbers: Vec<u64> = line
            .split(' ')
            .filter_map(|word| word.parse().ok())
            .collect();
        let [decisions, wall, cpu, wrong] = numbers[..] else {
            return Err(format!("what a contestant tells is not understood: {line}"));
        };
        Ok(Self {
            decisions,
            wall: Duration::from_nanos(wall),
            cpu: Duration::from_nanos(cpu),
            wrong,
        })
    }
}

impl Turn {
    /// The words that make this program take the turn.
    pub fn words(&self) -> Vec<String> {
        let (unit, length) = match self.length {
            TurnLength::Time(duration) => ("--milliseconds", duration.as_millis().to_string()),
            TurnLength::Decisions(count) => ("--decisions", count.to_string()),
        };
        let (callers, server) = (self.callers.to_string(), self.server.to_string());
        let threads = self.threads.id();
        let words = [
            "turn",
            "--contestant",
            self.contestant.id(),
            "--load",
            self.load.id(),
            "--callers",
            &callers,
        ];
        let more = [unit, &length, "--threads", threads, "--server", &server];
        words.into_iter().chain(more).map(str::to_string).collect()
    }
}

/// A [`Turn`] as [`Turn::words`] writes it.
#[derive(Clone, Copy, Debug, PartialEq, Args)]
pub struct TurnArguments {
    #[arg(long, value_parser = contestant_by_id)]
    contestant: RedisContestant,
    #[arg(long, value_parser = load_by_id)]
    load: RedisLoad,
    #[arg(long)]
    callers: usize,
    #[arg(long, required_unless_present = "milliseconds")]
    decisions: Option<u32>,
    #[arg(long, conflicts_with = "decisions")]
    milliseconds: Option<u64>,
    #[arg(long, value_parser = threads_by_id)]
    threads: RuntimeThreads,
    #[arg(long)]
    server: ServerAddress,
}

impl From<TurnArguments> for Turn {
    fn from(arguments: TurnArguments) -> Self {
        let milliseconds = arguments.milliseconds.unwrap_or_default();
        let time = TurnLength::Time(Duration::from_millis(milliseconds));
        Self {
            contestant: arguments.contestant,
            load: arguments.load,
            callers: arguments.callers,
            length: arguments.decisions.map_or(time, TurnLength::Decisions),
            threads: arguments.threads,
            server: arguments.server,
        }
    }
}

fn contestant_by_id(id: &str) -> Result<RedisContestant, String> {
    by_id(id, &RedisContestant::ALL, RedisContestant::id)
}

fn load_by_id(id: &str) -> Result<RedisLoad, String> {
    by_id(id, &RedisLoad::ALL, RedisLoad::id)
}

fn threads_by_id(id: &str) -> Result<RuntimeThreads, String> {
    by_id(
        id,
        &[RuntimeThreads::One, RuntimeThreads::PerCore],
        RuntimeThreads::id,
    )
}

fn by_id<T: Copy>(name: &str, all: &[T], id: fn(T) -> &'static str) -> Result<T, String> {
    let known = all.iter().copied().find(|one| id(*one) == name);
    known.ok_or_else(|| format!("there is no `{name}`"))
}

impl RuntimeThreads {
    const fn id(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::PerCore => "per-core",
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::args::{RedisChildTask, RedisCommand};
    use super::*;

    #[test]
    fn words_say_the_whole_turn() {
        for length in [
            TurnLength::Time(Duration::from_millis(300)),
            TurnLength::Decisions(7),
        ] {
            let server = "127.0.0.1:6400".parse().unwrap();
            let threads = RuntimeThreads::PerCore;
            let turn = Turn {
                contestant: RedisContestant::Gcra,
                load: RedisLoad::HotDenied,
                callers: 64,
                length,
                threads,
                server,
            };
            let command = RedisCommand::try_parse_from(turn.words()).unwrap();
            let Some(RedisChildTask::Turn(arguments)) = command.child else {
                panic!("{command:?}");
            };
            assert_eq!(Turn::from(arguments), turn);
        }
        assert!(RedisCommand::try_parse_from(["turn", "--contestant", "nobody"]).is_err());
    }

    #[test]
    fn a_line_says_all_that_is_told() {
        let (wall, cpu) = (Duration::from_nanos(5), Duration::from_nanos(3));
        let figures = TurnFigures {
            decisions: 9,
            wall,
            cpu,
            wrong: 1,
        };
        assert_eq!(TurnFigures::parse(&figures.to_line()), Ok(figures));
        assert!(TurnFigures::parse("9 5").is_err());
    }
}
