//! The attacks of `slowhttptest` against the running proxy ; `cargo xtask chaos --only slow-clients` plays them.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use sluicegate_testkit::STEP_TIMEOUT;

use super::running::{Sluicegate, times};
use super::slow_clients::{SLOW, large_upstream, start, with_good_client};

/// An attack, and what its clients do.
struct Attack {
    /// The name of the mode.
    mode: &'static str,
    path: &'static str,
    arguments: &'static [&'static str],
    /// True when the proxy ends the connections; else their requests are answered.
    is_slow: bool,
    /// True when the attackers notice that before the end: those that hardly read take long to read the last bytes.
    notices: bool,
}

const ATTACKS: [Attack; 4] = [
    Attack {
        mode: "-H",
        path: "/",
        arguments: &["-i", "1", "-x", "10"],
        is_slow: true,
        notices: true,
    },
    Attack {
        mode: "-B",
        path: "/",
        arguments: &["-i", "1", "-x", "10", "-s", "8192"],
        is_slow: true,
        notices: true,
    },
    Attack {
        mode: "-X",
        path: "/large",
        arguments: &["-n", "1", "-z", "5", "-w", "512", "-y", "1024"],
        is_slow: true,
        notices: false,
    },
    Attack {
        mode: "-R",
        path: "/",
        arguments: &["-a", "5", "-b", "500"],
        is_slow: false,
        notices: true,
    },
];

/// Seconds that an attack goes on if the proxy lets it.
const LENGTH: u64 = 15;
/// Each is allowed a second, and five times that is the most; as much again until all have begun and sockets are full.
const GONE: Duration = Duration::from_secs(10);

#[test]
#[ignore = "slowhttptest is needed, which `cargo xtask chaos --only slow-clients` installs"]
fn slowhttptest_keeps_no_connection_open_and_slows_nobody() {
    let upstream = large_upstream(8);
    let sluicegate = start(&upstream);
    for attack in &ATTACKS {
        with_good_client(&sluicegate, || play(&sluicegate, attack, times(50)));
    }
}

fn play(sluicegate: &Sluicegate, attack: &Attack, crowd: u32) {
    let Attack {
        mode,
        path,
        arguments,
        is_slow,
        notices,
    } = attack;
    let report = sluicegate.file("report");
    let slow_before = sluicegate.metric(SLOW);
    let mut child = Command::new("slowhttptest")
        .args([
            mode,
            "-g",
            "-c",
            &crowd.to_string(),
            "-r",
            &crowd.to_string(),
            "-l",
            &LENGTH.to_string(),
            "-o",
        ])
        .arg(&report)
        .args(["-u", &format!("http://{}{path}", sluicegate.proxy)])
        .args(*arguments)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let (begun, mut all_gone) = (Instant::now(), None);
    let exit = loop {
        if sluicegate.metric(SLOW) - slow_before >= u64::from(crowd) {
            all_gone = all_gone.or(Some(begun.elapsed()));
        }
        if let Some(exit) = child.try_wait().unwrap() {
            break exit;
        }
        assert!(
            begun.elapsed() < STEP_TIMEOUT,
            "slowhttptest {mode} does not end"
        );
        // bounded wait: the deadline is above
        thread::sleep(Duration::from_millis(50));
    };
    let took = begun.elapsed();
    assert!(exit.success(), "slowhttptest {mode}: {exit}");
    let ended_slow = sluicegate.metric(SLOW) - slow_before;
    println!(
        "slowhttptest {mode}: {crowd} connections, {ended_slow} ended as slow after {all_gone:?}, all in {took:?}"
    );
    if *is_slow {
        assert!(
            all_gone.is_some_and(|after| after < GONE),
            "{mode}: {ended_slow} of {crowd}, {all_gone:?}"
        );
    }
    if *notices {
        assert!(
            took < GONE,
            "{mode}: there were open connections for {took:?}"
        );
    }
    let table = std::fs::read_to_string(report.with_extension("csv")).unwrap();
    // Seconds, closed, pending, connected, and whether the attack's own probe was answered.
    let was_well = table
        .lines()
        .skip(1)
        .all(|row| row.split(',').nth(4).is_some_and(|probe| probe != "0"));
    assert!(was_well, "{mode}: {table}");
}
