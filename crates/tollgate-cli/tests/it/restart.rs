//! The end of a process, and its replacement by another (T-63).

use std::fs;
use std::io::{Read, Write};

use super::load::Load;
use super::running::{LONGEST, Tollgate, eventually, signal, status, times};
use super::upstream::Upstream;

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
    let probe = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = probe.local_addr().unwrap();
    drop(probe);
    let mut tollgate = Tollgate::start(&PLENTY.replace("127.0.0.1:0", &address.to_string()));
    let load = Load::start(tollgate.proxy, 2);
    let mut pid = tollgate.pid();
    for _ in 0..times(3) {
        load.go_on_for(50);
        signal(pid, "USR2");
        let before = pid;
        eventually("a successor has taken over", || {
            pid = successor_of(before).unwrap_or(pid);
            let ended = !fs::exists(format!("/proc/{before}")).unwrap() || is_zombie(before);
            pid != before && ended
        });
    }
    load.go_on_for(50);
    load.stop().unwrap();
    signal(pid, "TERM");
    tollgate.wait();
}

/// The process that another one has started.
fn successor_of(pid: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

fn is_zombie(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "))
}

#[test]
fn a_request_under_way_is_answered_before_the_end() {
    let (began, waiting) = std::sync::mpsc::channel();
    let (go_on, may_answer) = std::sync::mpsc::channel::<()>();
    let may_answer = std::sync::Mutex::new(may_answer);
    let upstream = Upstream::answering(move |_| {
        began.send(()).unwrap();
        may_answer.lock().unwrap().recv_timeout(LONGEST).unwrap();
        http::Response::new("late but whole".into())
    });
    let config = PLENTY
        .replace("listen: '127.0.0.1:0'", &format!("listen: '127.0.0.1:0', upstream: 'http://{}'", upstream.address));
    let mut tollgate = Tollgate::start(&config);
    let mut stream = tollgate.connect();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").unwrap();
    waiting.recv().unwrap();
    tollgate.signal("TERM");
    eventually("new connections are refused", || std::net::TcpStream::connect(tollgate.proxy).is_err());
    go_on.send(()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(status(&answer), 200, "{answer}");
    assert!(answer.ends_with("late but whole"), "{answer}");
    assert!(tollgate.wait().success());
}
