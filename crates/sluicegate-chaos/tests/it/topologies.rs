//! The primary moves, slots move, nodes are lost.

use sluicegate_chaos::Length::Short;
use sluicegate_chaos::Report;
use sluicegate_chaos::scenarios::topologies::{
    cluster, cluster_down, owners, replication, resharding, sentinel, stale_primary,
};
use sluicegate_testkit::alone;

fn judge(report: &Report) {
    println!("{report}");
    report.assert_holds();
}

/// B9, D7.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promoted_replica_is_found_and_the_old_primary_left_alone() {
    judge(&replication::promotion(Short).await);
}

/// T-50.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_switch_on_demand_and_nobody_waits() {
    judge(&sentinel::planned_switch(Short).await);
}

/// T-50.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_primary_is_replaced() {
    judge(&sentinel::primary_killed(Short).await);
}

/// T-50.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hung_primary_is_replaced_and_not_written_to_when_it_wakes() {
    judge(&sentinel::primary_hung(Short).await);
}

/// T-50.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decisions_do_not_need_the_sentinels_while_the_primary_is_well() {
    judge(&sentinel::sentinels_lost(Short).await);
}

/// N1.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_primary_is_not_written_to_while_its_successor_pauses() {
    judge(&stale_primary::writable(Short).await);
}

/// N1.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_that_were_set_up_anew_are_believed_after_ten_seconds() {
    judge(&stale_primary::sentinels_anew(Short).await);
}

/// N2.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_primary_that_refuses_writes_delays_nobody_after_a_pause() {
    judge(&stale_primary::refusing(Short).await);
}

/// B9, T-49.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_master_is_replaced_and_the_others_notice_nothing() {
    judge(&cluster::master_killed(Short).await);
}

/// B9, T-49.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hung_master_is_replaced_and_the_others_notice_nothing() {
    judge(&cluster::master_hung(Short).await);
}

/// B9.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_endpoint_of_a_cluster_is_enough() {
    judge(&cluster::one_endpoint(Short).await);
}

/// N3. In a process of its own: the log is the whole process's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_is_down_is_dialled_seldom_and_told_once() {
    if alone("topologies::a_cluster_that_is_down_is_dialled_seldom_and_told_once") {
        judge(&cluster_down::cluster_down(Short).await);
    }
}

/// T-46, B11.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_of_several_owners_are_taken_all_or_nothing() {
    judge(&owners::exact_counts(Short).await);
}

/// T-46.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_that_move_under_load_cost_nobody_an_answer() {
    judge(&resharding::slots_move(Short).await);
}
