//! More connections than the process may have open files (T-35).

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use super::running::{Tollgate, eventually, status};

const MOST: usize = 64;

fn open_files(tollgate: &Tollgate) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", tollgate.pid())).unwrap().count()
}

#[test]
fn without_descriptors_the_proxy_waits_at_rest_and_answers_again_when_there_are_some() {
    let mut tollgate = Tollgate::start(
        "
proxy: { listen: '127.0.0.1:0', workers: 1 }
admin: off
limits:
  - { name: per-client, key: [client_ip], rate: 1000/s, burst: 1000 }
",
    );
    let limited = Command::new("prlimit")
        .args([format!("--pid={}", tollgate.pid()), format!("--nofile={MOST}:{MOST}")])
        .status()
        .unwrap();
    assert!(limited.success());
    for round in 0..3 {
        // A connection to the server behind is open and stays.
        assert_eq!(status(&tollgate.get("/", &[])), 200);
        let mut crowd: Vec<TcpStream> = (0..2 * MOST).map(|_| tollgate.connect()).collect();
        eventually("there are no more descriptors", || open_files(&tollgate) >= MOST - 1);
        tollgate.wait_for_log("no connection can be taken for the moment");
        // Those that were taken are served.
        let mut first = crowd.swap_remove(0);
        first.write_all(b"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        let _ = first.read_to_string(&mut answer);
        assert_eq!(status(&answer), 200, "round {round}: {answer}");

        let (cpu, since) = (tollgate.cpu_time(), Instant::now());
        // bounded wait: what is measured is a second of shortage
        std::thread::sleep(Duration::from_secs(1));
        let (spent, elapsed) = (tollgate.cpu_time() - cpu, since.elapsed());
        assert!(spent < elapsed / 4, "{spent:?} of processor in {elapsed:?} of shortage");
        let lines = tollgate.logged.lock().unwrap().len();
        assert!(lines < 10 * (round + 1), "{lines} lines in the log");

        drop(crowd);
        let answer = tollgate.get("/", &[]);
        assert_eq!(status(&answer), 200, "round {round}: {answer}");
        eventually("descriptors are given back", || open_files(&tollgate) < MOST / 2);
    }
    tollgate.signal("TERM");
    assert!(tollgate.wait().success());
}
