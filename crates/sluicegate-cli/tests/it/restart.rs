//! The end of a process, and its replacement by another.

use std::fs;
use std::io::Write;

use sluicegate_testkit::{
    STEP_TIMEOUT, UpstreamRecorder, UpstreamResponse, eventually, free_port, raw_socket,
};

use super::load::Load;
use super::running::{Sluicegate, signal, times};

const PLENTY: &str = "
proxy: { listen: '127.0.0.1:0' }
admin: off
limits:
  - { name: per-client, key: [client_ip], rate: 1000000/s, burst: 1000000 }
";

/// `cargo xtask chaos` does twenty and more.
#[test]
fn replacements_under_load_refuse_reset_and_cut_off_nothing() {
    // The port has to stay the same for the successors.
    let listen = format!("127.0.0.1:{}", free_port());
    let mut sluicegate = Sluicegate::start(&PLENTY.replace("127.0.0.1:0", &listen));
    let load = Load::start(sluicegate.proxy, 2);
    let mut pid = sluicegate.pid();
    for replacement in 0..times(3) as usize {
        load.go_on_for(50);
        signal(pid, "USR2");
        let mut successor = None;
        eventually("a successor was started", || {
            successor = successors(&sluicegate).get(replacement).copied();
            successor.is_some()
        });
        eventually("it has taken over", || has_ended(pid));
        pid = successor.unwrap();
    }
    load.go_on_for(50);
    load.stop().unwrap();
    signal(pid, "TERM");
    sluicegate.wait();
}

/// The processes that were started one after another. The log is asked and not the system, which forgets whose child a
/// process was as soon as the parent has ended.
pub fn successors(sluicegate: &Sluicegate) -> Vec<u32> {
    let log = sluicegate.logged.lock().unwrap();
    let started = log
        .iter()
        .filter_map(|line| line.split_once("a successor was started pid="));
    started
        .map(|(_, pid)| pid.trim().parse().unwrap())
        .collect()
}

/// Returns true when a process has ended, also if nobody has asked how.
pub fn has_ended(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z "))
}

#[test]
fn a_request_under_way_is_answered_before_the_end() {
    let (began, waiting) = std::sync::mpsc::channel();
    let (go_on, may_answer) = std::sync::mpsc::channel::<()>();
    let may_answer = std::sync::Mutex::new(may_answer);
    let upstream = UpstreamRecorder::answering(move |_| {
        began.send(()).unwrap();
        may_answer
            .lock()
            .unwrap()
            .recv_timeout(STEP_TIMEOUT)
            .unwrap();
        UpstreamResponse::ok("late but whole")
    });
    let config = PLENTY.replace(
        "listen: '127.0.0.1:0'",
        &format!(
            "listen: '127.0.0.1:0', upstream: 'http://{}'",
            upstream.address
        ),
    );
    let mut sluicegate = Sluicegate::start(&config);
    let mut stream = sluicegate.connect();
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
        .unwrap();
    waiting.recv().unwrap();
    sluicegate.signal("TERM");
    eventually("new connections are refused", || {
        std::net::TcpStream::connect(sluicegate.proxy).is_err()
    });
    go_on.send(()).unwrap();
    let answer = raw_socket::read_to_end(stream);
    assert_eq!(
        (answer.status(), answer.body()),
        (200, "late but whole"),
        "{answer}"
    );
    assert!(sluicegate.wait().success());
}
