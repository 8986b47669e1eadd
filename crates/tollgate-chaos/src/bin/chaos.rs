//! `cargo xtask chaos`: every long scenario, one after the other.

use std::path::PathBuf;
use std::process::ExitCode;

use tollgate_chaos::runner::{self, Scenario, scenario};
use tollgate_chaos::scenarios::replicas;

fn main() -> ExitCode {
    runner::main(std::env::args().skip(1), &scenarios(&replica_program()))
}

/// Name, promises, function. Those with replicas are told where that program is.
fn scenarios(replica: &PathBuf) -> Vec<Scenario> {
    /// A scenario that starts replicas.
    macro_rules! with_replicas {
        ($name:literal, $ids:literal, $play:path) => {{
            let replica = replica.clone();
            scenario($name, $ids, move |length| {
                let replica = replica.clone();
                async move { $play(length, &replica).await }
            })
        }};
    }
    vec![
        with_replicas!("two-replicas", "B4, EG-4", replicas::two_replicas),
        with_replicas!("four-replicas", "B4", replicas::four_replicas),
        with_replicas!("skewed-replicas", "T-38", replicas::skewed_replicas),
        with_replicas!("replica-clocks", "T-38, B8", replicas::skewed_replicas_by_their_own_clocks),
        with_replicas!("hot-denied-key", "T-48", replicas::hot_denied_key),
        with_replicas!("hot-allowed-key", "T-48", replicas::hot_allowed_key),
        with_replicas!("redis-clock-steps", "T-39", replicas::redis_clock_steps),
        with_replicas!("before-1970", "T-40", replicas::time_before_1970),
        with_replicas!("suspended-replica", "T-40", replicas::suspended_replica),
        scenario("retry-after-given-clock", "T-52", replicas::retry_after_by_given_clock),
        scenario("retry-after-real-time", "T-52", replicas::retry_after_in_real_time),
        with_replicas!("soak", "T-53", replicas::soak),
    ]
}

/// It is built beside this program.
fn replica_program() -> PathBuf {
    let this = std::env::current_exe().expect("a running program has a path");
    this.with_file_name("replica")
}
