//! Redis goes away, is slow, is full or forgets.

use sluicegate_chaos::Length::Short;
use sluicegate_chaos::Report;
use sluicegate_chaos::scenarios::outages::{
    away, boot, debts, flapping, foreign, forgetful, full, herd, slow, traces,
};
use sluicegate_testkit::alone;

/// Prints what was measured, which a test that passes hides unless it is asked for, and fails for a broken promise.
fn judge(report: &Report) {
    println!("{report}");
    report.assert_holds();
}

/// Each a way for Redis to be away for a second, under every policy (T-49, T-55, T-30, D5, D7).
mod every_answer_is_in_time_and_service_is_normal_again_after {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn redis_was_stopped() {
        judge(&away::stopped(Short).await);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn redis_was_killed() {
        judge(&away::killed(Short).await);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn packets_were_dropped() {
        judge(&away::packets_dropped(Short).await);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn connections_were_reset() {
        judge(&away::reset(Short).await);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn connections_were_stalled() {
        judge(&away::stalled(Short).await);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn one_byte_passed_per_second() {
        judge(&away::one_byte_per_second(Short).await);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn connections_were_half_closed() {
        judge(&away::half_closed(Short).await);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn every_byte_was_later_than_the_deadline() {
        judge(&away::too_late(Short).await);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn old_connections_were_swallowed() {
        judge(&away::old_connections_swallowed(Short).await);
    }
}

/// T-54, T-30
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_hold_while_answers_come_later_than_the_deadline() {
    judge(&slow::by_latency(Short).await);
}

/// T-54, T-30
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_hold_while_redis_is_too_busy_to_answer_in_time() {
    judge(&slow::by_load(Short).await);
}

/// T-56, T-30
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_replica_keeps_its_bound_while_connections_are_reset_ten_times_a_second() {
    judge(&flapping::resets(Short).await);
}

/// T-56, T-30
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_replica_keeps_its_bound_while_redis_stops_ten_times_a_second() {
    judge(&flapping::stops(Short).await);
}

/// N4.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn debts_that_outlast_an_outage_make_no_answer_degraded() {
    judge(&debts::debts(Short).await);
}

/// T-29, T-30
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_without_memory_meets_the_failure_policy_and_is_named() {
    judge(&full::full(Short).await);
}

/// T-44, T-30
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_value_is_left_alone_and_harms_nobody_else() {
    judge(&foreign::foreign(Short).await);
}

/// T-47, T-30
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_fails_while_scripts_are_forgotten_every_5_ms() {
    judge(&forgetful::scripts(Short).await);
}

/// T-47, T-30
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counters_that_are_forgotten_cost_at_most_one_burst_each_time() {
    judge(&forgetful::counters(Short).await);
}

/// T-47, T-30
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_connection_fails_only_what_was_under_way() {
    judge(&forgetful::connections(Short).await);
}

/// T-47, T-30
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paused_clients_are_answered_in_time() {
    judge(&forgetful::pause(Short).await);
}

/// T-51, T-30
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_replicas_come_back_one_by_one() {
    judge(&herd::herd(Short).await);
}

/// B10, T-30
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_boots_before_redis_does() {
    judge(&boot::boot(Short).await);
}

/// D5, D7, T-30
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_is_found_again_while_nobody_asks() {
    judge(&boot::idle(Short).await);
}

/// D7, T-30
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_loading_is_away() {
    judge(&boot::loading(Short).await);
}

/// In a process of its own: descriptors are the whole process's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_dropped_leaves_no_task_and_no_descriptor() {
    if alone("outages::a_store_that_is_dropped_leaves_no_task_and_no_descriptor") {
        judge(&traces::dropped(Short).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_moves_on_when_its_runtime_ends() {
    judge(&traces::runtime_ends(Short).await);
}
