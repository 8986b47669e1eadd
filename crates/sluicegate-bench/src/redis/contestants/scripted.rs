//! One EVALSHA for each decision, over one multiplexed connection of redis-rs.

use std::hint::black_box;
use std::net::IpAddr;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{AsyncConnectionConfig, Client, Cmd, IntoConnectionInfo, RedisResult, cmd};

use super::{DEADLINE, RedisLimiter, ServerAddress, readable_key};
use crate::rate::Rate;

/// Which script it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptedPeer {
    Gcra,
    HashBucket,
}

pub struct ScriptedLimiter {
    peer: ScriptedPeer,
    connection: MultiplexedConnection,
    sha: String,
    rate: Rate,
}

/// More than ever wait, so that nobody waits for a place in the queue; 50 by default.
const PIPELINE_BUFFER: usize = 1_024;

impl ScriptedLimiter {
    /// Connects, with the settings that serve redis-rs best, and loads the script.
    pub async fn connect(
        server: ServerAddress,
        rate: Rate,
        peer: ScriptedPeer,
    ) -> Result<Self, String> {
        Self::try_connect(server, rate, peer)
            .await
            .map_err(|error| format!("redis-rs: {error}"))
    }

    async fn try_connect(
        server: ServerAddress,
        rate: Rate,
        peer: ScriptedPeer,
    ) -> RedisResult<Self> {
        // Without delay: off by default. RESP2 and RESP3 have the same bytes for these answers.
        let tcp = TcpSettings::default().set_nodelay(true);
        let info = format!("redis://{server}")
            .into_connection_info()?
            .set_tcp_settings(tcp);
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(Some(DEADLINE))
            .set_pipeline_buffer_size(PIPELINE_BUFFER);
        let mut connection = Client::open(info)?
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        let sha = cmd("SCRIPT")
            .arg("LOAD")
            .arg(peer.source())
            .query_async(&mut connection)
            .await?;
        Ok(Self {
            peer,
            connection,
            sha,
            rate,
        })
    }
}

impl RedisLimiter for ScriptedLimiter {
    async fn decide(&self, address: IpAddr) -> Result<bool, String> {
        let mut call = cmd("EVALSHA");
        call.arg(&self.sha).arg(1).arg(readable_key(address));
        let mut connection = self.connection.clone();
        let answer = self.peer.ask(call, self.rate, &mut connection).await;
        answer.map_err(|error| format!("redis-rs: {error}"))
    }
}

impl ScriptedPeer {
    fn source(self) -> &'static str {
        match self {
            Self::Gcra => include_str!("../lua/gcra.lua"),
            Self::HashBucket => include_str!("../lua/hash_bucket.lua"),
        }
    }

    async fn ask(
        self,
        mut call: Cmd,
        rate: Rate,
        connection: &mut MultiplexedConnection,
    ) -> RedisResult<bool> {
        match self {
            Self::Gcra => {
                let interval_ns = rate.interval().as_nanos() as u64;
                call.arg(interval_ns * u64::from(rate.burst))
                    .arg(interval_ns);
                let debt: i64 = call.query_async(connection).await?;
                Ok(black_box(debt) >= 0)
            }
            Self::HashBucket => {
                call.arg(rate.burst)
                    .arg(f64::from(rate.count) / rate.period.as_secs_f64())
                    .arg(1);
                let (allowed, left): (bool, u64) = call.query_async(connection).await?;
                black_box(left);
                Ok(allowed)
            }
        }
    }
}
