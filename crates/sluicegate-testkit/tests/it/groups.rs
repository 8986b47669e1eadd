use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sluicegate_testkit::{RedisCluster, RedisServer, Replication, SentinelGroup};

const LONG: Duration = Duration::from_secs(15);

#[test]
fn a_promoted_replica_is_followed_by_the_others() {
    let replication = Replication::start(2);
    assert_eq!(increment_everywhere(replication.primary()), (1, 2));
    replication.promote(2);
    assert_eq!(
        replication.primary().port(),
        replication.servers()[2].port()
    );
    assert_eq!(increment_everywhere(replication.primary()), (2, 2));
    assert_eq!(replication.servers()[0].command::<i64>(&["GET", "a"]), 2);
    replication.servers()[0].kill();
    replication.promote(1);
}

/// The new value and how many replicas have it. WAIT counts for the writes of its own connection only.
fn increment_everywhere(primary: &RedisServer) -> (i64, i64) {
    let mut client = primary.client();
    let value = redis::cmd("INCR").arg("a").query(&mut client).unwrap();
    (
        value,
        redis::cmd("WAIT")
            .arg(2)
            .arg(4000)
            .query(&mut client)
            .unwrap(),
    )
}

#[test]
fn sentinels_replace_a_killed_primary_and_switch_on_demand() {
    let start = Instant::now();
    let group = SentinelGroup::start();
    println!("group complete after {:?}", start.elapsed());
    let first = group.primary_port();
    assert_eq!(first, group.servers()[0].port());

    let start = Instant::now();
    group.failover();
    let second = group.wait_for_switch(LONG);
    println!("planned switch after {:?}", start.elapsed());
    assert_ne!(first, second);
    group.wait_for_replicas(LONG);
    println!("all follow after {:?}", start.elapsed());

    let start = Instant::now();
    group.primary().kill();
    let third = group.wait_for_switch(LONG);
    println!("switch after a kill in {:?}", start.elapsed());
    assert_ne!(second, third);
    assert_eq!(group.primary_port(), third);
}

#[test]
fn sentinels_replace_a_hung_primary_and_demote_it_when_it_wakes() {
    let group = SentinelGroup::start();
    let old = group.primary();
    let start = Instant::now();
    old.stop();
    let new = group.wait_for_switch(LONG);
    println!("switch after a hang in {:?}", start.elapsed());
    let start = Instant::now();
    old.resume();
    assert_ne!(old.port(), new);
    group.wait_for_replicas(LONG);
    println!("woken primary demoted after {:?}", start.elapsed());
    assert_eq!(old.info("replication")["role"], "slave");
}

#[test]
fn an_isolated_primary_stays_one_beside_the_elected_and_follows_it_when_both_sides_join() {
    let group = SentinelGroup::start();
    let start = Instant::now();
    let elected = group.isolate_primary(LONG);
    println!(
        "elected beside the isolated one after {:?}",
        start.elapsed()
    );
    let port_named_by = |sentinel: usize| {
        let words = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SentinelGroup::NAME];
        let (_, port): (String, String) = group.sentinels()[sentinel].command(&words);
        port.parse::<u16>().unwrap()
    };
    for server in [0, elected] {
        let server = &group.servers()[server];
        assert_eq!(server.info("replication")["role"], "master");
    }
    assert_eq!(port_named_by(0), group.servers()[0].port());
    assert_eq!(port_named_by(1), group.servers()[elected].port());
    group.join();
    group.wait_for_switch(LONG);
    group.wait_for_replicas(LONG);
    assert_eq!(group.servers()[0].info("replication")["role"], "slave");
}

#[test]
fn slots_move_with_their_keys_while_clients_write() {
    let start = Instant::now();
    let cluster = RedisCluster::start();
    println!("cluster ok after {:?}", start.elapsed());
    let key = "counter{7}";
    let slot = cluster.slot_of_key(key);
    let first = cluster.owner_of_key(key);
    let written = AtomicU64::new(0);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                // A plain client that follows no redirection: one of the masters takes the write.
                let takers = cluster.nodes()[..3].iter();
                let taken = takers
                    .filter(|node| node.try_command::<i64>(&["INCR", key]).is_ok())
                    .count();
                written.fetch_add(taken as u64, Ordering::Relaxed);
            }
        });
        for to in [(first + 1) % 3, (first + 2) % 3, first, (first + 1) % 3] {
            cluster.move_slots(slot.saturating_sub(2)..=slot + 2, to);
            assert_eq!(cluster.owner_of_key(key), to);
            assert_eq!(cluster.master_of_slot(slot + 1), to);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let start = Instant::now();
    cluster.move_slots(0..=99, 2);
    println!("100 slots moved in {:?}", start.elapsed());
    let owner = &cluster.nodes()[cluster.owner_of_key(key)];
    assert_eq!(
        owner.command::<u64>(&["GET", key]),
        written.load(Ordering::Relaxed)
    );
    cluster.wait_until_ok(LONG);
}

#[test]
fn a_replica_becomes_master_when_its_master_is_killed_or_hangs() {
    let cluster = RedisCluster::start();
    for (slot, master) in [(0, 0), (16_383, 2)] {
        assert_eq!(cluster.master_of_slot(slot), master);
        let start = Instant::now();
        if slot == 0 {
            cluster.nodes()[master].kill()
        } else {
            cluster.nodes()[master].stop()
        }
        assert_eq!(cluster.wait_for_new_master(slot, LONG), master + 3);
        println!("new master of {slot} after {:?}", start.elapsed());
        cluster.wait_until_ok(LONG);
        println!("cluster ok after {:?}", start.elapsed());
        if slot == 0 {
            cluster.nodes()[master].restart()
        } else {
            cluster.nodes()[master].resume()
        }
        cluster.wait_until_ok(LONG);
        println!("the old master follows after {:?}", start.elapsed());
    }
}

#[test]
fn a_cluster_that_is_down_refuses_every_key_and_serves_them_again() {
    let cluster = RedisCluster::start();
    let owner = &cluster.nodes()[cluster.owner_of_key("a")];
    owner.command::<()>(&["SET", "a", "1"]);
    cluster.take_down();
    let refused = owner.try_command::<i64>(&["GET", "a"]).unwrap_err();
    assert!(
        refused.to_string().contains("The cluster is down"),
        "{refused}"
    );
    cluster.bring_up();
    assert_eq!(owner.command::<i64>(&["GET", "a"]), 1);
}
