use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sluicegate_testkit::{ClockShim, RedisServer, assert_passed, is_alone, run_alone};

const HOUR: i64 = 3600;
const NANOSECONDS: i64 = 1_000_000_000;

fn seconds_ahead(server: &RedisServer) -> i64 {
    let (seconds, _): (i64, i64) = server.command(&["TIME"]);
    seconds
        - SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_secs()
            .cast_signed()
}

#[test]
fn the_wall_clock_of_a_running_redis_steps_by_an_hour_both_ways_and_it_keeps_working() {
    let clock = ClockShim::build().clock();
    let server = RedisServer::builder().clock(&clock).start();
    server.command::<()>(&["SET", "short", "1", "PX", "60000"]);
    server.command::<()>(&["SET", "long", "1", "PX", "36000000"]);
    let mut is_first = true;
    for hours in [0, 1, -1, 0] {
        clock.set_realtime_offset(hours * HOUR * NANOSECONDS);
        let ahead = seconds_ahead(&server);
        assert!(
            (ahead - hours * HOUR).abs() <= 1,
            "{ahead} s ahead after a step to {hours} h"
        );
        let (in_script, _): (i64, i64) =
            server.command(&["EVAL", "return redis.call('TIME')", "0"]);
        assert!(
            (in_script - server.command::<(i64, i64)>(&["TIME"]).0).abs() <= 1,
            "scripts see the same clock"
        );
        server.command::<()>(&["SET", "now", "1", "PX", "60000"]);
        assert!(server.command::<bool>(&["EXISTS", "now"]));
        // Asked for when an hour has passed for it, it expires, and does not come back with the clock.
        assert_eq!(server.command::<bool>(&["EXISTS", "short"]), is_first);
        is_first = false;
    }
    assert!(server.command::<bool>(&["EXISTS", "long"]));
}

#[test]
fn a_step_of_the_monotonic_clock_leaves_the_wall_clock_alone() {
    let clock = ClockShim::build().clock();
    let server = RedisServer::builder().clock(&clock).start();
    for seconds in [-1, 1, HOUR] {
        clock.set_monotonic_offset(seconds * NANOSECONDS);
        assert!(seconds_ahead(&server).abs() <= 1);
    }
}

#[test]
fn both_clocks_of_a_program_of_ours_step_while_it_runs() {
    let clock = ClockShim::build().clock();
    if !is_alone() {
        let this = "clock_shim::both_clocks_of_a_program_of_ours_step_while_it_runs";
        return assert_passed(&run_alone(this, &clock.env()));
    }
    let offsets = OpenOptions::new()
        .write(true)
        .open(std::env::var_os("SLUICEGATE_CLOCK_OFFSET_FILE").unwrap())
        .unwrap();
    let set = |at, seconds: i64| {
        offsets
            .write_all_at(&(seconds * NANOSECONDS).to_ne_bytes(), at)
            .unwrap()
    };
    let hour = Duration::from_secs(HOUR.unsigned_abs());
    let (wall, monotonic) = (SystemTime::now(), Instant::now());
    set(8, HOUR);
    assert!(monotonic.elapsed() >= hour && monotonic.elapsed() < hour * 2);
    assert!(wall.elapsed().unwrap() < hour);
    set(0, -HOUR);
    assert!(wall.duration_since(SystemTime::now()).unwrap() > hour / 2);
    set(0, -100 * 365 * 24 * HOUR);
    assert!(SystemTime::now() < UNIX_EPOCH);
}

#[test]
fn any_child_process_lives_by_the_clock_it_is_given() {
    let clock = ClockShim::build().clock();
    clock.set_realtime_offset(-HOUR * NANOSECONDS - 1);
    let output = Command::new("date")
        .arg("+%s")
        .envs(clock.env())
        .output()
        .unwrap();
    let theirs: i64 = String::from_utf8(output.stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let ours = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
        .cast_signed();
    assert!((ours - theirs - HOUR).abs() <= 2, "{ours} {theirs}");
}
