//! The cost of a quota from a service: the same limit twice, once with its numbers from outside.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use sluicegate_testkit::RedisServer;

use super::contestants::Counters;
use super::launch::LaunchPurpose;
use super::loads::{LOADS, ProxyLoad};
use super::measure::{self, RunConditions};
use super::programs::ProxyProgram;
use super::results::ExternalQuotaRound;
use crate::running_server::on_loopback;

/// The section, as `--only` knows it.
pub const OUTSIDE: &str = "quota from outside";

/// The limits service, and the Redis that keeps its answers.
pub struct QuotaServices {
    redis: RedisServer,
    service: SocketAddr,
}

impl QuotaServices {
    pub fn start() -> Result<Self, String> {
        let words = |error: io::Error| format!("the limits service: {error}");
        let listener = TcpListener::bind(on_loopback(0)).map_err(words)?;
        let service = listener.local_addr().map_err(words)?;
        thread::spawn(move || {
            listener
                .incoming()
                .flatten()
                .for_each(|stream| drop(answer(stream)))
        });
        Ok(Self {
            redis: RedisServer::start(),
            service,
        })
    }

    /// Both turns of a round; the one with the service second in every other round.
    pub fn round(
        &self,
        conditions: &RunConditions<'_>,
        program: &ProxyProgram,
        number: usize,
    ) -> Result<ExternalQuotaRound, String> {
        let load: ProxyLoad = LOADS[0];
        let own = conditions.purpose(&load);
        let told = LaunchPurpose {
            counters: Counters::ExternalQuota {
                service: self.service,
                redis: self.redis.address(),
            },
            ..own
        };
        let turn =
            |purpose: &LaunchPurpose<'_>| measure::sample_for(conditions, program, &load, purpose);
        Ok(match number.is_multiple_of(2) {
            true => ExternalQuotaRound {
                own: turn(&own)?,
                told: turn(&told)?,
            },
            false => {
                let told = turn(&told)?;
                ExternalQuotaRound {
                    own: turn(&own)?,
                    told,
                }
            }
        })
    }
}

/// Everybody may spend what the limit of the other contestant allows.
fn answer(mut stream: TcpStream) -> io::Result<()> {
    const BODY: &str = r#"{"average": 1000000, "burst": 1000000, "period": "1s"}"#;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut question = [0; 4_096];
    // A question is one write.
    while stream.read(&mut question)? > 0 {
        let length = BODY.len();
        write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{BODY}"
        )?;
    }
    Ok(())
}
