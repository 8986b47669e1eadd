//! Redis goes away, is slow, is full or forgets.

use tollgate_chaos::Length::Short;
use tollgate_chaos::Report;
use tollgate_chaos::scenarios::outages::away;

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
