//! Everything that a store is asked to do in its life.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU32, Ordering};

use sluicegate::{
    Credentials, Endpoint, Limit, Limiter, MonotonicClock, Nanos, Policy, Quota, RedisOptions,
    RedisStore, ResetError, Secret, StoreError, Subject, Verdict,
};
use sluicegate_testkit::RedisServer;

/// A limiter over a store with these options, with a limit of each kind of counter.
pub fn limiter(options: RedisOptions) -> Limiter<RedisStore, MonotonicClock> {
    let limits = [
        Limit::per_client("token", Quota::per_hour(60).burst(2)),
        Limit::per_client("leaky", Quota::leaky_bucket(2, Nanos::HOUR, 1).unwrap()),
        Limit::per_client("sliding", Quota::sliding_window(2, Nanos::HOUR).unwrap()),
    ];
    Limiter::new(
        Policy::new(limits).unwrap(),
        RedisStore::new(options).unwrap(),
        MonotonicClock::new(),
    )
}

/// Decides yes and no, refunds down to nothing, resets, and keeps a value, for a caller who was never there before; the first error
/// ends it.
pub async fn run(limiter: &Limiter<RedisStore, MonotonicClock>) -> Result<(), StoreError> {
    static CALLERS: AtomicU32 = AtomicU32::new(0);
    let address = Ipv4Addr::from_bits(0x0A00_0000 + CALLERS.fetch_add(1, Ordering::Relaxed));
    run_as(limiter, address.into()).await
}

/// The same for this caller, who has spent nothing yet.
pub async fn run_as(
    limiter: &Limiter<RedisStore, MonotonicClock>,
    address: IpAddr,
) -> Result<(), StoreError> {
    let caller = Subject {
        client_ip: Some(address),
        ..Subject::ANONYMOUS
    };
    for is_forwarded in [true, true, false] {
        assert_eq!(decided(limiter.check(&caller, 1).await)?, is_forwarded);
    }
    decided(limiter.refund(&caller, 2, Nanos::ZERO).await)?;
    assert!(
        decided(limiter.check(&caller, 2).await)?,
        "a refund gives everything back"
    );
    match limiter.reset(&caller).await {
        Ok(()) => {}
        Err(ResetError::Store(error)) => return Err(error),
        Err(ResetError::Unidentified(missing)) => panic!("{missing}"),
    }
    assert!(
        decided(limiter.check(&caller, 2).await)?,
        "a reset forgets everything"
    );
    run_by_name(limiter, &address.to_string()).await?;
    let (store, value) = (limiter.store(), b"value".to_vec());
    let key = format!("{}:value:{address}", store.options().key_prefix);
    store.put(&key, value.clone(), Nanos::MINUTE).await?;
    assert_eq!(store.get(&key).await?, Some(value));
    Ok(())
}

/// The same counters by the name of their limit and their key, for a caller who has spent everything.
async fn run_by_name(
    limiter: &Limiter<RedisStore, MonotonicClock>,
    address: &str,
) -> Result<(), StoreError> {
    for limit in ["token", "leaky", "sliding"] {
        let key = [address];
        assert!(
            !decided(limiter.check_named(limit, &key, 1).await)?,
            "{limit} is spent"
        );
        decided(limiter.refund_named(limit, &key, 1, Nanos::ZERO).await)?;
        assert!(
            decided(limiter.check_named(limit, &key, 1).await)?,
            "{limit}: one was given back"
        );
        match limiter.reset_named(limit, &key).await {
            Ok(()) => {}
            Err(ResetError::Store(error)) => return Err(error),
            Err(ResetError::Unidentified(missing)) => panic!("{missing}"),
        }
        assert!(
            decided(limiter.check_named(limit, &key, 2).await)?,
            "{limit} was forgotten"
        );
    }
    Ok(())
}

fn decided(verdict: Verdict) -> Result<bool, StoreError> {
    match verdict {
        Verdict::Forward(_) => Ok(true),
        Verdict::Reject(_) => Ok(false),
        Verdict::Unavailable { error, .. } | Verdict::ForwardUnchecked(error) => Err(error),
        Verdict::Unidentified(missing) => panic!("{missing}"),
    }
}

/// The place of a server.
pub fn endpoint(server: &RedisServer) -> Endpoint {
    Endpoint::new("127.0.0.1", server.port())
}

/// Options with time enough for a machine that compiles at the same time.
pub fn patient(mut options: RedisOptions) -> RedisOptions {
    options.deadline = Nanos::from_secs(5);
    options.connect_timeout = Nanos::from_secs(5);
    options
}

/// A user and a password.
pub fn credentials(username: &str, password: &str) -> Credentials {
    Credentials {
        username: Some(username.to_owned()),
        password: Some(Secret::new(password)),
    }
}
