//! `cargo xtask chaos`: every long scenario, one after the other.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use sluicegate_chaos::runner::{self, Scenario, scenario};
use sluicegate_chaos::scenarios::outages::{
    away, boot, debts, flapping, foreign, forgetful, full, herd, slow, traces,
};
use sluicegate_chaos::scenarios::replicas;
use sluicegate_chaos::scenarios::topologies::{
    cluster, cluster_down, owners, replication, resharding, sentinel, stale_primary,
};

fn main() -> ExitCode {
    let all = of_replicas(&replica_program())
        .into_iter()
        .chain(of_outages())
        .chain(of_topologies());
    runner::main(std::env::args().skip(1), &all.collect::<Vec<_>>())
}

/// Name, promises, function. Replicas are processes, so these are told where that program is.
fn of_replicas(replica: &Path) -> Vec<Scenario> {
    /// A scenario that starts replicas.
    macro_rules! with_replicas {
        ($name:literal, $ids:literal, $play:path) => {{
            let replica = replica.to_owned();
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
        with_replicas!(
            "replica-clocks",
            "T-38, B8",
            replicas::skewed_replicas_by_their_own_clocks
        ),
        with_replicas!("hot-denied-key", "T-48", replicas::hot_denied_key),
        with_replicas!("hot-allowed-key", "T-48", replicas::hot_allowed_key),
        with_replicas!("redis-clock-steps", "T-39", replicas::redis_clock_steps),
        with_replicas!("before-1970", "T-40", replicas::time_before_1970),
        with_replicas!("suspended-replica", "T-40", replicas::suspended_replica),
        scenario(
            "retry-after-given-clock",
            "T-52",
            replicas::retry_after_by_given_clock,
        ),
        scenario(
            "retry-after-real-time",
            "T-52",
            replicas::retry_after_in_real_time,
        ),
        scenario("roll-out", "N5", replicas::rollout),
        with_replicas!("soak", "T-53", replicas::soak),
    ]
}

fn of_outages() -> Vec<Scenario> {
    vec![
        scenario("stopped", "T-49, T-55", away::stopped),
        scenario("killed", "T-49, T-55", away::killed),
        scenario("packets-dropped", "T-49, T-55", away::packets_dropped),
        scenario("reset", "T-49, T-55", away::reset),
        scenario("stalled", "T-49, T-55", away::stalled),
        scenario(
            "one-byte-per-second",
            "T-49, T-55",
            away::one_byte_per_second,
        ),
        scenario("half-closed", "T-49, T-55", away::half_closed),
        scenario("too-late", "T-49, T-55", away::too_late),
        scenario(
            "old-connections-swallowed",
            "T-49, T-55",
            away::old_connections_swallowed,
        ),
        scenario("slow-by-latency", "T-54", slow::by_latency),
        scenario("slow-by-load", "T-54", slow::by_load),
        scenario("flapping-by-resets", "T-56", flapping::resets),
        scenario("flapping-by-stops", "T-56", flapping::stops),
        scenario("debts", "N4", debts::debts),
        scenario("full", "T-29", full::full),
        scenario("foreign", "T-44", foreign::foreign),
        scenario("scripts-flushed", "T-47", forgetful::scripts),
        scenario("counters-flushed", "T-47", forgetful::counters),
        scenario("connections-killed", "T-47", forgetful::connections),
        scenario("clients-paused", "T-47", forgetful::pause),
        scenario("boot", "B10", boot::boot),
        scenario("idle", "D5", boot::idle),
        scenario("loading", "D7", boot::loading),
        scenario("herd", "T-51", herd::herd),
        scenario("dropped-stores", "nothing left behind", traces::dropped),
        scenario("runtime-ends", "nothing left behind", traces::runtime_ends),
    ]
}

fn of_topologies() -> Vec<Scenario> {
    vec![
        scenario("promotion", "B9, D7", replication::promotion),
        scenario("sentinel-planned", "T-50", sentinel::planned_switch),
        scenario("sentinel-killed", "T-50", sentinel::primary_killed),
        scenario("sentinel-hung", "T-50", sentinel::primary_hung),
        scenario("sentinels-lost", "T-50", sentinel::sentinels_lost),
        scenario("stale-primary", "N1", stale_primary::writable),
        scenario("sentinels-anew", "N1", stale_primary::sentinels_anew),
        scenario("stale-primary-refuses", "N2", stale_primary::refusing),
        scenario("cluster-killed", "B9, T-49", cluster::master_killed),
        scenario("cluster-hung", "B9, T-49", cluster::master_hung),
        scenario("cluster-one-endpoint", "B9", cluster::one_endpoint),
        scenario("cluster-down", "N3", cluster_down::cluster_down),
        scenario("several-owners", "T-46, B11", owners::exact_counts),
        scenario("slots-move", "T-46", resharding::slots_move),
    ]
}

/// It is built beside this program.
fn replica_program() -> PathBuf {
    let this = std::env::current_exe().expect("a running program has a path");
    this.with_file_name("replica")
}
