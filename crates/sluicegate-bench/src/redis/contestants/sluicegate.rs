//! Sluicegate's store: decisions that wait go out together, and what is denied for certain is denied from memory.

use std::hint::black_box;
use std::net::IpAddr;

use sluicegate::{
    Charge, Draw, Endpoint, Key, KeyLayout, Limit, MonotonicClock, Nanos, Quota, RedisOptions,
    RedisStore, Store, Subject,
};

use super::{DEADLINE, LIMIT, RedisLimiter, ServerAddress};
use crate::rate::Rate;

pub struct RedisSluicegate {
    limit: Limit,
    quota: Quota,
    store: RedisStore,
    clock: MonotonicClock,
}

impl RedisSluicegate {
    pub fn new(server: ServerAddress, rate: Rate, layout: KeyLayout) -> Result<Self, String> {
        let mut options =
            RedisOptions::standalone(Endpoint::new(server.ip().to_string(), server.port()));
        options.deadline = Nanos::from(DEADLINE);
        options.key_layout = layout;
        let store = RedisStore::new(options).map_err(|error| error.to_string())?;
        let quota = rate.quota();
        Ok(Self {
            limit: Limit::per_client(LIMIT, quota),
            quota,
            store,
            clock: MonotonicClock::new(),
        })
    }
}

impl RedisLimiter for RedisSluicegate {
    async fn decide(&self, address: IpAddr) -> Result<bool, String> {
        let subject = Subject {
            client_ip: Some(address),
            ..Subject::ANONYMOUS
        };
        let key = Key::of_subject(&self.limit, &subject).map_err(|error| error.to_string())?;
        let charge = Charge {
            key,
            quota: self.quota,
            cost: 1,
            draw: Draw::Take,
            limit_index: 0,
            enforced: true,
            on_failure: None,
        };
        let outcomes = self
            .store
            .decide(&[charge], &self.clock)
            .await
            .map_err(|error| error.to_string())?;
        Ok(black_box(outcomes)[0].is_allowed())
    }
}
