//! A replica's arguments as words of a command line, and back.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use sluicegate::RedisClock;

use super::{HistoryDetail, KeyChoice, ReplicaArguments, ReplicaRule};

impl ReplicaArguments {
    /// The words by which the `replica` program is told.
    pub fn to_words(&self) -> Vec<String> {
        let clock = match self.clock {
            RedisClock::Server => "server",
            RedisClock::Replica => "replica",
            RedisClock::Given => "given",
        };
        let rules: Vec<String> = self.rules.iter().map(ReplicaRule::to_string).collect();
        let (spread, keys) = match self.keys {
            KeyChoice::Even(count) => ("even", count),
            KeyChoice::Zipf(count) => ("zipf", count),
        };
        let keeps = match self.keeps {
            HistoryDetail::Everything => "everything",
            HistoryDetail::Admissions => "admissions",
        };
        vec![
            format!("redis={}", self.redis),
            format!("prefix={}", self.prefix),
            format!("clock={clock}"),
            format!("policy={}", self.policy),
            format!("deadline_ns={}", self.deadline.as_nanos()),
            format!("rules={}", rules.join(",")),
            format!("{spread}={keys}"),
            format!("tasks={}", self.tasks),
            format!("pause_ns={}", self.pause.as_nanos()),
            format!("start={}", self.start),
            format!("length_ns={}", self.length.as_nanos()),
            format!("keeps={keeps}"),
        ]
    }

    /// Reads the words of [`Self::to_words`].
    pub(super) fn from_words(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut replica = Self::new("", ReplicaRule::PerSecond { count: 1, burst: 1 });
        for word in words {
            let (name, value) = word
                .split_once('=')
                .ok_or_else(|| format!("expected name=value (got `{word}`)"))?;
            match name {
                "redis" => value.clone_into(&mut replica.redis),
                "prefix" => value.clone_into(&mut replica.prefix),
                "clock" => {
                    replica.clock = match value {
                        "replica" => RedisClock::Replica,
                        "given" => RedisClock::Given,
                        _ => RedisClock::Server,
                    }
                }
                "policy" => replica.policy = read(name, value)?,
                "deadline_ns" => replica.deadline = Duration::from_nanos(read(name, value)?),
                "rules" => {
                    replica.rules = value
                        .split(',')
                        .map(|rule| read(name, rule))
                        .collect::<Result<_, _>>()?
                }
                "even" => replica.keys = KeyChoice::Even(read(name, value)?),
                "zipf" => replica.keys = KeyChoice::Zipf(read(name, value)?),
                "tasks" => replica.tasks = read(name, value)?,
                "pause_ns" => replica.pause = Duration::from_nanos(read(name, value)?),
                "start" => replica.start = read(name, value)?,
                "length_ns" => replica.length = Duration::from_nanos(read(name, value)?),
                "keeps" if value == "admissions" => replica.keeps = HistoryDetail::Admissions,
                "keeps" => replica.keeps = HistoryDetail::Everything,
                unknown => return Err(format!("unknown name `{unknown}`")),
            }
        }
        Ok(replica)
    }
}

fn read<T: FromStr>(name: &str, value: &str) -> Result<T, String> {
    value
        .parse()
        .map_err(|_| format!("{name}: not understood (got `{value}`)"))
}

/// Also the limit's name.
impl fmt::Display for ReplicaRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PerSecond { count, burst } => write!(f, "per-second-{count}-{burst}"),
            Self::Leaky {
                size,
                every_ms,
                drip,
            } => write!(f, "leaky-{size}-{every_ms}-{drip}"),
            Self::Sliding { limit, window_ms } => write!(f, "sliding-{limit}-{window_ms}"),
        }
    }
}

impl FromStr for ReplicaRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, numbers) = [("per-second-"), ("leaky-"), ("sliding-")]
            .into_iter()
            .find_map(|kind| text.strip_prefix(kind).map(|numbers| (kind, numbers)))
            .ok_or("unknown kind of limit")?;
        let numbers: Result<Vec<u64>, String> = numbers
            .split('-')
            .map(|number| read(kind, number))
            .collect();
        match (kind, numbers?.as_slice()) {
            ("per-second-", &[count, burst]) => Ok(Self::PerSecond { count, burst }),
            ("leaky-", &[size, every_ms, drip]) => Ok(Self::Leaky {
                size,
                every_ms,
                drip,
            }),
            ("sliding-", &[limit, window_ms]) => Ok(Self::Sliding { limit, window_ms }),
            _ => Err(format!("wrong numbers for {text}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use sluicegate::FailurePolicy;

    use super::*;

    #[test]
    fn orders_arrive_as_they_were_given() {
        let rules = vec![
            ReplicaRule::PerSecond {
                count: 100,
                burst: 50,
            },
            ReplicaRule::Leaky {
                size: 9,
                every_ms: 100,
                drip: 2,
            },
            ReplicaRule::Sliding {
                limit: 7,
                window_ms: 1_000,
            },
        ];
        let replica = ReplicaArguments {
            clock: RedisClock::Replica,
            policy: FailurePolicy::Local,
            deadline: Duration::from_millis(50),
            rules,
            keys: KeyChoice::Zipf(50),
            tasks: 3,
            pause: Duration::from_micros(7),
            start: 123_456_789,
            length: Duration::from_secs(30),
            keeps: HistoryDetail::Admissions,
            ..ReplicaArguments::new(
                "redis://:secret@127.0.0.1:1",
                ReplicaRule::PerSecond { count: 1, burst: 1 },
            )
        };
        assert_eq!(
            ReplicaArguments::from_words(replica.to_words().into_iter()),
            Ok(replica)
        );
        assert!(ReplicaArguments::from_words(["fast=yes".to_owned()].into_iter()).is_err());
    }
}
