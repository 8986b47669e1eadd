//! The loads of `bench proxy`: which requests, over how many connections, and the expected answers.

use std::time::Duration;

use crate::rate::{ExpectedAnswer, Rate};
use crate::tally::AnswerTally;

/// A pattern of requests, all from one client address. A connection waits for one answer at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProxyLoad {
    pub name: &'static str,
    pub protocol: ClientProtocol,
    pub request: BenchRequest,
    pub answer: ExpectedAnswer,
    pub connections: usize,
}

/// The client's protocol. The backend is always spoken to in HTTP/1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientProtocol {
    Http1,
    /// In clear text, by prior knowledge, with several streams in each connection.
    Http2,
}

/// A request and what the backend answers to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BenchRequest {
    /// A GET that is answered with 1 KiB.
    Small,
    /// A POST of 64 KiB that is answered with 1 KiB.
    Post,
    /// A GET that is answered with 1 MiB.
    Large,
}

pub const LOADS: [ProxyLoad; 8] = [
    http1(
        "allowed, 64 connections",
        BenchRequest::Small,
        ExpectedAnswer::Allowed,
        64,
    ),
    http1(
        "allowed, 256 connections",
        BenchRequest::Small,
        ExpectedAnswer::Allowed,
        256,
    ),
    http1(
        "rejected, 64 connections",
        BenchRequest::Small,
        ExpectedAnswer::Denied,
        64,
    ),
    http1(
        "rejected, 256 connections",
        BenchRequest::Small,
        ExpectedAnswer::Denied,
        256,
    ),
    http1(
        "64 KiB POST",
        BenchRequest::Post,
        ExpectedAnswer::Allowed,
        64,
    ),
    http1(
        "1 MiB answer",
        BenchRequest::Large,
        ExpectedAnswer::Allowed,
        64,
    ),
    http2("h2, allowed", ExpectedAnswer::Allowed),
    http2("h2, rejected", ExpectedAnswer::Denied),
];

/// The section about memory, as `--only` knows it.
pub const IDLE: &str = "idle connections";
/// Connections that are open and silent when memory is measured.
pub const IDLE_CONNECTIONS: usize = 5_000;
/// Streams in each connection of HTTP/2.
pub const H2_STREAMS: usize = 16;

const fn http1(
    name: &'static str,
    request: BenchRequest,
    answer: ExpectedAnswer,
    connections: usize,
) -> ProxyLoad {
    ProxyLoad {
        name,
        protocol: ClientProtocol::Http1,
        request,
        answer,
        connections,
    }
}

const fn http2(name: &'static str, answer: ExpectedAnswer) -> ProxyLoad {
    ProxyLoad {
        name,
        protocol: ClientProtocol::Http2,
        request: BenchRequest::Small,
        answer,
        connections: 16,
    }
}

impl ProxyLoad {
    /// The limit of the one client address.
    pub const fn rate(&self) -> Rate {
        rate(self.answer)
    }

    /// Answers other than the expected one. `served` is what the backend has answered meanwhile.
    pub fn wrong(&self, tally: &AnswerTally, served: u64) -> u64 {
        match self.answer {
            // A contestant that answers without the backend has less work than the others.
            ExpectedAnswer::Allowed => {
                (tally.done() - tally.allowed).max(tally.allowed.saturating_sub(served))
            }
            ExpectedAnswer::Denied => {
                let admissible = u64::from(self.rate().count) * (tally.wall.as_secs() + 2);
                tally.other + tally.allowed.max(served).saturating_sub(admissible)
            }
        }
    }
}

/// A limit that lets everything pass, and one that lets next to nothing pass.
pub const fn rate(answer: ExpectedAnswer) -> Rate {
    let period = Duration::from_secs(1);
    match answer {
        ExpectedAnswer::Allowed => Rate {
            count: 1_000_000,
            period,
            burst: 1_000_000,
        },
        ExpectedAnswer::Denied => Rate {
            count: 1,
            period,
            burst: 1,
        },
    }
}

impl BenchRequest {
    pub const fn path(self) -> &'static str {
        match self {
            Self::Small => "/1k",
            Self::Post => "/64k",
            Self::Large => "/1m",
        }
    }

    pub fn of_path(path: &str) -> Option<Self> {
        [Self::Small, Self::Post, Self::Large]
            .into_iter()
            .find(|request| request.path() == path)
    }

    /// The length of the client's body.
    pub const fn body_bytes(self) -> usize {
        match self {
            Self::Small | Self::Large => 0,
            Self::Post => 64 << 10,
        }
    }

    /// The length of the backend's body.
    pub const fn answer_bytes(self) -> usize {
        match self {
            Self::Small | Self::Post => 1 << 10,
            Self::Large => 1 << 20,
        }
    }

    /// The request as it goes over an HTTP/1.1 connection.
    pub fn to_bytes(self) -> Vec<u8> {
        let (path, length) = (self.path(), self.body_bytes());
        let mut bytes = match self {
            Self::Small | Self::Large => format!("GET {path} HTTP/1.1\r\nHost: bench.test\r\n\r\n"),
            Self::Post => format!(
                "POST {path} HTTP/1.1\r\nHost: bench.test\r\nContent-Length: {length}\r\n\r\n"
            ),
        }
        .into_bytes();
        bytes.resize(bytes.len() + length, b'x');
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(allowed: u64, rejected: u64, other: u64) -> AnswerTally {
        AnswerTally {
            allowed,
            rejected,
            other,
            wall: Duration::from_secs(3),
            ..AnswerTally::default()
        }
    }

    #[test]
    fn an_allowed_load_is_right_when_the_backend_answered_all_of_it() {
        let load = LOADS[0];
        assert_eq!(load.wrong(&tally(1_000, 0, 0), 1_000), 0);
        assert_eq!(load.wrong(&tally(900, 90, 10), 900), 100);
        assert_eq!(
            load.wrong(&tally(1_000, 0, 0), 400),
            600,
            "somebody answers from memory"
        );
    }

    #[test]
    fn a_rejected_load_may_admit_what_its_limit_admits() {
        let load = LOADS[2];
        assert_eq!(load.answer, ExpectedAnswer::Denied);
        assert_eq!(load.wrong(&tally(4, 1_000, 0), 4), 0);
        assert_eq!(load.wrong(&tally(105, 1_000, 0), 105), 100);
        assert_eq!(load.wrong(&tally(0, 1_000, 7), 0), 7);
        assert_eq!(
            load.wrong(&tally(0, 1_000, 0), 1_000),
            995,
            "rejected after the backend was asked"
        );
    }

    #[test]
    fn paths_name_requests() {
        for request in [BenchRequest::Small, BenchRequest::Post, BenchRequest::Large] {
            assert_eq!(BenchRequest::of_path(request.path()), Some(request));
        }
        assert_eq!(BenchRequest::of_path("/"), None);
    }
}
