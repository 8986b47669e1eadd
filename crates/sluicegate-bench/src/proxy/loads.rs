//! The loads of `bench proxy`: which requests, over how many connections, and the expected answers.

use std::time::Duration;

use super::contestants::ProxyContestant;
use super::requests::BenchRequest;
use crate::rate::Rate;
use crate::tally::AnswerTally;

/// A pattern of requests, all from one client address. A connection waits for one answer at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProxyLoad {
    pub name: &'static str,
    pub protocol: ClientProtocol,
    /// Each connection sends them in turn, over and over.
    pub requests: &'static [BenchRequest],
    pub answer: LoadAnswer,
    pub connections: usize,
}

/// The client's protocol. The backend is always spoken to in HTTP/1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientProtocol {
    Http1,
    /// In clear text, by prior knowledge, with several streams in each connection.
    Http2,
    /// HTTP/1.1 over TLS 1.3.
    Tls(TlsUse),
}

/// How often a client of TLS shakes hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsUse {
    /// Once for each connection, which is kept.
    KeptConnections,
    /// For every request, from the beginning.
    FullHandshakes,
    /// For every request, with the ticket of the connection before.
    ResumedHandshakes,
}

/// The answers that a load is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadAnswer {
    Allowed,
    Denied,
    /// Of ten requests nine are allowed and one is denied, by one of twenty limits.
    Mixed,
}

pub const LOADS: [ProxyLoad; 12] = [
    http1("allowed, 64 connections", LoadAnswer::Allowed, 64),
    http1("allowed, 256 connections", LoadAnswer::Allowed, 256),
    http1("rejected, 64 connections", LoadAnswer::Denied, 64),
    http1("rejected, 256 connections", LoadAnswer::Denied, 256),
    ProxyLoad {
        requests: &MIXED_REQUESTS,
        ..http1("mixed, 20 limits", LoadAnswer::Mixed, 64)
    },
    ProxyLoad {
        requests: &[BenchRequest::Post],
        ..http1("64 KiB POST", LoadAnswer::Allowed, 64)
    },
    ProxyLoad {
        requests: &[BenchRequest::Large],
        ..http1("1 MiB answer", LoadAnswer::Allowed, 64)
    },
    http2("h2, allowed", LoadAnswer::Allowed),
    http2("h2, rejected", LoadAnswer::Denied),
    tls("TLS, allowed", TlsUse::KeptConnections, LoadAnswer::Allowed),
    // Without the backend, so that the handshake is most of the work.
    tls(
        "TLS, full handshake",
        TlsUse::FullHandshakes,
        LoadAnswer::Denied,
    ),
    tls(
        "TLS, resumed handshake",
        TlsUse::ResumedHandshakes,
        LoadAnswer::Denied,
    ),
];

/// The section about memory, as `--only` knows it.
pub const IDLE: &str = "idle connections";
/// Connections that are open and silent when memory is measured.
pub const IDLE_CONNECTIONS: usize = 5_000;
/// Streams in each connection of HTTP/2.
pub const H2_STREAMS: usize = 16;
/// Limits in the configuration of the mixed load.
pub const MIXED_LIMITS: usize = 20;

const MIXED_REQUESTS: [BenchRequest; 10] = {
    let mut requests = [BenchRequest::Small; 10];
    requests[9] = BenchRequest::Scarce;
    requests
};

const fn http1(name: &'static str, answer: LoadAnswer, connections: usize) -> ProxyLoad {
    ProxyLoad {
        name,
        protocol: ClientProtocol::Http1,
        requests: &[BenchRequest::Small],
        answer,
        connections,
    }
}

const fn http2(name: &'static str, answer: LoadAnswer) -> ProxyLoad {
    ProxyLoad {
        protocol: ClientProtocol::Http2,
        ..http1(name, answer, 16)
    }
}

const fn tls(name: &'static str, tls_use: TlsUse, answer: LoadAnswer) -> ProxyLoad {
    ProxyLoad {
        protocol: ClientProtocol::Tls(tls_use),
        ..http1(name, answer, 64)
    }
}

impl ProxyLoad {
    /// The limit of the one client address.
    pub const fn rate(&self) -> Rate {
        rate(self.answer)
    }

    /// Envoy is left out where the comparison with nginx and HAProxy is what matters.
    pub fn has(&self, contestant: ProxyContestant) -> bool {
        contestant != ProxyContestant::Envoy || !matches!(self.protocol, ClientProtocol::Tls(_))
    }

    /// Answers other than the expected one. `served` is what the backend has answered meanwhile.
    pub fn wrong(&self, tally: &AnswerTally, served: u64) -> u64 {
        let done = tally.done();
        // What a limit of one in a second lets pass.
        let admissible = tally.wall.as_secs() + 2;
        // A contestant that answers without the backend has less work than the others.
        let unserved = tally.allowed.saturating_sub(served);
        match self.answer {
            LoadAnswer::Allowed => (done - tally.allowed).max(unserved),
            LoadAnswer::Denied => {
                tally.other + tally.allowed.max(served).saturating_sub(admissible)
            }
            LoadAnswer::Mixed => {
                // Each connection may have stopped anywhere in its ten requests.
                let tolerance = admissible + self.connections as u64;
                let misjudged = tally.rejected.abs_diff(done / 10).saturating_sub(tolerance);
                tally.other + misjudged.max(unserved)
            }
        }
    }
}

/// A limit that lets everything pass, and one that lets next to nothing pass.
pub const fn rate(answer: LoadAnswer) -> Rate {
    let count = match answer {
        LoadAnswer::Allowed | LoadAnswer::Mixed => 1_000_000,
        LoadAnswer::Denied => 1,
    };
    Rate {
        count,
        period: Duration::from_secs(1),
        burst: count,
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
        assert_eq!(load.answer, LoadAnswer::Denied);
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
    fn a_mixed_load_is_rejected_once_in_ten() {
        let load = LOADS[4];
        assert_eq!(load.answer, LoadAnswer::Mixed);
        assert_eq!(load.wrong(&tally(9_005, 995, 0), 9_005), 0);
        assert_eq!(
            load.wrong(&tally(10_000, 0, 0), 10_000),
            1_000 - 69,
            "nobody is rejected"
        );
        assert_eq!(
            load.wrong(&tally(0, 10_000, 0), 0),
            9_000 - 69,
            "everybody is rejected"
        );
        assert_eq!(
            load.wrong(&tally(9_000, 1_000, 0), 8_000),
            1_000,
            "from memory"
        );
        assert_eq!(load.wrong(&tally(9_000, 1_000, 9), 9_000), 9);
        let scarce = |request: &&BenchRequest| **request == BenchRequest::Scarce;
        assert_eq!(
            load.requests.iter().filter(scarce).count() * 10,
            load.requests.len()
        );
    }
}
