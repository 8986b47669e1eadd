//! One turn of one contestant, in a process of its own, in step with the process that measures.

use std::future::Future;
use std::io::{BufRead, Write, stdin, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinSet, yield_now};

use super::contestants::{Contestant, Peer, Scripted, Server, Sluicegate, Who};
use super::loads::Load;
use crate::cpu;
use crate::rate::Answer;

/// Who decides what, for how long, and where.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Turn {
    pub who: Who,
    pub load: Load,
    /// Tasks that each wait for one decision at a time.
    pub callers: usize,
    pub amount: Amount,
    pub threads: Threads,
    pub server: Server,
}

/// When a turn is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    Time(Duration),
    Decisions(u32),
}

/// The runtime of a contestant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    One,
    PerCore,
}

/// What the contestant's own process knows about its turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Told {
    pub decisions: u64,
    pub wall: Duration,
    pub cpu: Duration,
    /// Answers that were not what the load is made for.
    pub wrong: u64,
}

/// The child's side: warms up, waits for the word, decides, tells, and waits for the end.
pub fn take(turn: &Turn) -> Result<(), String> {
    let runtime = turn.threads.runtime()?;
    runtime.block_on(async {
        let rate = turn.load.rate();
        match turn.who {
            Who::Sluicegate | Who::SluicegateCompact => {
                take_with(Sluicegate::new(turn.server, rate, turn.who.layout())?, turn).await
            }
            Who::Gcra => {
                take_with(
                    Scripted::connect(turn.server, rate, Peer::Gcra).await?,
                    turn,
                )
                .await
            }
            Who::HashBucket => {
                take_with(
                    Scripted::connect(turn.server, rate, Peer::HashBucket).await?,
                    turn,
                )
                .await
            }
        }
    })
}

async fn take_with(contestant: impl Contestant, turn: &Turn) -> Result<(), String> {
    let contestant = Arc::new(contestant);
    let warm_up = Amount::Decisions((turn.callers as u32 * 20).max(500));
    decide(
        &contestant,
        &Turn {
            amount: warm_up,
            ..*turn
        },
        Load::WARM_UP_FROM,
    )
    .await?;
    say("ready")?;
    hear()?;
    let told = decide(&contestant, turn, 0).await?;
    say(&told.to_line())?;
    hear()
}

/// Decides with all callers at once, each on the next request that nobody has.
async fn decide(
    contestant: &Arc<impl Contestant>,
    turn: &Turn,
    first: u32,
) -> Result<Told, String> {
    let next = Arc::new(AtomicU32::new(first));
    let (wall_start, cpu_start) = (Instant::now(), cpu::of_this_process());
    let mut callers = JoinSet::new();
    for _ in 0..turn.callers {
        let (contestant, next, turn) = (Arc::clone(contestant), Arc::clone(&next), *turn);
        callers.spawn(async move { call(&*contestant, &next, &turn, first, wall_start).await });
    }
    let (mut decisions, mut allowed) = (0, 0);
    while let Some(ended) = callers.join_next().await {
        let counted = ended.map_err(|error| error.to_string())??;
        decisions += counted.decisions;
        allowed += counted.allowed;
    }
    let (wall, cpu) = (wall_start.elapsed(), cpu::of_this_process() - cpu_start);
    let wrong = match turn.load.answer() {
        Answer::Allowed => decisions - allowed,
        Answer::Denied => allowed,
    };
    Ok(Told {
        decisions,
        wall,
        cpu,
        wrong,
    })
}

#[derive(Default)]
struct Counted {
    decisions: u64,
    allowed: u64,
}

/// One caller. Answers from memory are there at once, so it lets the others go first now and then.
fn call<'a>(
    contestant: &'a impl Contestant,
    next: &'a AtomicU32,
    turn: &'a Turn,
    first: u32,
    started: Instant,
) -> impl Future<Output = Result<Counted, String>> + Send + 'a {
    const DECISIONS_AT_A_TIME: usize = 32;
    async move {
        let mut counted = Counted::default();
        loop {
            for _ in 0..DECISIONS_AT_A_TIME {
                let request = next.fetch_add(1, Ordering::Relaxed);
                if matches!(turn.amount, Amount::Decisions(count) if request >= first + count) {
                    return Ok(counted);
                }
                counted.allowed += u64::from(contestant.decide(turn.load.address(request)).await?);
                counted.decisions += 1;
            }
            if matches!(turn.amount, Amount::Time(duration) if started.elapsed() >= duration) {
                return Ok(counted);
            }
            yield_now().await;
        }
    }
}

impl Threads {
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

fn say(line: &str) -> Result<(), String> {
    let mut out = stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .map_err(|error| format!("nobody listens: {error}"))
}

/// Waits for the next line from the process that measures.
fn hear() -> Result<(), String> {
    let mut line = String::new();
    stdin()
        .lock()
        .read_line(&mut line)
        .map(|_| ())
        .map_err(|error| format!("nobody speaks: {error}"))
}

impl Told {
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
        let (unit, amount) = match self.amount {
            Amount::Time(duration) => ("--milliseconds", duration.as_millis().to_string()),
            Amount::Decisions(count) => ("--decisions", count.to_string()),
        };
        let (callers, server) = (self.callers.to_string(), self.server.to_string());
        let threads = self.threads.id();
        let words = [
            "turn",
            "--contestant",
            self.who.id(),
            "--load",
            self.load.id(),
            "--callers",
            &callers,
        ];
        let more = [unit, &amount, "--threads", threads, "--server", &server];
        words.into_iter().chain(more).map(str::to_string).collect()
    }
}

/// A [`Turn`] as [`Turn::words`] writes it.
#[derive(Clone, Copy, Debug, PartialEq, Args)]
pub struct TurnArguments {
    #[arg(long, value_parser = contestant_by_id)]
    contestant: Who,
    #[arg(long, value_parser = load_by_id)]
    load: Load,
    #[arg(long)]
    callers: usize,
    #[arg(long, required_unless_present = "milliseconds")]
    decisions: Option<u32>,
    #[arg(long, conflicts_with = "decisions")]
    milliseconds: Option<u64>,
    #[arg(long, value_parser = threads_by_id)]
    threads: Threads,
    #[arg(long)]
    server: Server,
}

impl From<TurnArguments> for Turn {
    fn from(arguments: TurnArguments) -> Self {
        let milliseconds = arguments.milliseconds.unwrap_or_default();
        let time = Amount::Time(Duration::from_millis(milliseconds));
        Self {
            who: arguments.contestant,
            load: arguments.load,
            callers: arguments.callers,
            amount: arguments.decisions.map_or(time, Amount::Decisions),
            threads: arguments.threads,
            server: arguments.server,
        }
    }
}

fn contestant_by_id(id: &str) -> Result<Who, String> {
    by_id(id, &Who::ALL, Who::id)
}

fn load_by_id(id: &str) -> Result<Load, String> {
    by_id(id, &Load::ALL, Load::id)
}

fn threads_by_id(id: &str) -> Result<Threads, String> {
    by_id(id, &[Threads::One, Threads::PerCore], Threads::id)
}

fn by_id<T: Copy>(name: &str, all: &[T], id: fn(T) -> &'static str) -> Result<T, String> {
    let known = all.iter().copied().find(|one| id(*one) == name);
    known.ok_or_else(|| format!("there is no `{name}`"))
}

impl Threads {
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
        for amount in [
            Amount::Time(Duration::from_millis(300)),
            Amount::Decisions(7),
        ] {
            let server = "127.0.0.1:6400".parse().unwrap();
            let threads = Threads::PerCore;
            let turn = Turn {
                who: Who::Gcra,
                load: Load::HotDenied,
                callers: 64,
                amount,
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
        let told = Told {
            decisions: 9,
            wall,
            cpu,
            wrong: 1,
        };
        assert_eq!(Told::parse(&told.to_line()), Ok(told));
        assert!(Told::parse("9 5").is_err());
    }
}
