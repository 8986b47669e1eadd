//! Several replicas on one Redis.

use std::path::Path;

use sluicegate_chaos::scenarios::replicas;
use sluicegate_chaos::{Length, Report};

const REPLICA: &str = env!("CARGO_BIN_EXE_replica");

/// Shows the figures too: `cargo nextest run -p sluicegate-chaos --no-capture`.
fn judge(report: &Report) {
    println!("{report}");
    report.assert_holds();
}

/// B4, EG-4.
#[tokio::test(flavor = "multi_thread")]
async fn two_replicas_with_a_limit_of_five_let_five_pass() {
    judge(&replicas::two_replicas(Length::Short, Path::new(REPLICA)).await);
}

/// B4.
#[tokio::test(flavor = "multi_thread")]
async fn four_replicas_share_one_limit_exactly() {
    judge(&replicas::four_replicas(Length::Short, Path::new(REPLICA)).await);
}

/// T-38.
#[tokio::test(flavor = "multi_thread")]
async fn replicas_with_clocks_seconds_apart_share_one_limit_fairly() {
    judge(&replicas::skewed_replicas(Length::Short, Path::new(REPLICA)).await);
}

/// T-38, B8.
#[tokio::test(flavor = "multi_thread")]
async fn clocks_of_replicas_mint_nothing_when_they_count() {
    judge(&replicas::skewed_replicas_by_their_own_clocks(Length::Short, Path::new(REPLICA)).await);
}

/// T-48.
#[tokio::test(flavor = "multi_thread")]
async fn redis_hears_of_a_denied_key_as_often_as_somebody_passes() {
    judge(&replicas::hot_denied_key(Length::Short, Path::new(REPLICA)).await);
}

/// T-48.
#[tokio::test(flavor = "multi_thread")]
async fn questions_about_an_allowed_key_go_out_together() {
    judge(&replicas::hot_allowed_key(Length::Short, Path::new(REPLICA)).await);
}

/// T-39.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_of_redis_clock_costs_at_most_a_burst_and_a_short_stall() {
    judge(&replicas::redis_clock_steps(Length::Short, Path::new(REPLICA)).await);
}

/// T-40.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_starts_before_1970_keeps_the_bound() {
    judge(&replicas::time_before_1970(Length::Short, Path::new(REPLICA)).await);
}

/// T-40.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_was_suspended_keeps_the_bound() {
    judge(&replicas::suspended_replica(Length::Short, Path::new(REPLICA)).await);
}

/// T-52.
#[tokio::test(flavor = "multi_thread")]
async fn the_wait_of_a_denial_is_exact_by_a_given_clock() {
    judge(&replicas::retry_after_by_given_clock(Length::Short).await);
}

/// T-52.
#[tokio::test(flavor = "multi_thread")]
async fn the_wait_of_a_denial_is_never_too_short() {
    judge(&replicas::retry_after_in_real_time(Length::Short).await);
}

/// T-53.
#[tokio::test(flavor = "multi_thread")]
async fn the_bound_holds_for_every_key_and_quota_in_a_soak() {
    judge(&replicas::soak(Length::Short, Path::new(REPLICA)).await);
}

/// N5.
#[tokio::test(flavor = "multi_thread")]
async fn replicas_that_are_reloaded_one_after_the_other_admit_their_part() {
    judge(&replicas::rollout(Length::Short).await);
}
