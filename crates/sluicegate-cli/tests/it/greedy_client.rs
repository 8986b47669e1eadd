//! One client at full effort against the bounds that hold by default, in twenty-seven ways. Another
//! client is answered all the while, and the process stays within the stated bounds and gives back
//! what it held.
//!
//! The greedy client comes from 127.0.0.2, the other one from 127.0.0.1. `cargo xtask chaos --only
//! greedy-client` plays each way for a minute with more connections than one client may have.

mod attacker;
mod good_client;
mod upstream;
mod ways;

use std::fmt;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use sluicegate_testkit::eventually;
use sluicegate_testkit::raw_socket::connect_from;

use super::running::{Sluicegate, times, write_certificate};
use good_client::{GoodAnswers, ask_steadily};
use upstream::CountedUpstream;
use ways::{Door, Limit, Way};

/// Connections of one client: `proxy.max_connections_per_client`.
const CONNECTIONS_PER_CLIENT: usize = 1_000;
/// The same at a door for decisions: half of all.
const CONNECTIONS_PER_ASKER: usize = 5_000;
/// Connections to one server: `proxy.max_connections_per_upstream`.
const CONNECTIONS_PER_UPSTREAM: usize = 1_024;
/// Of each thread, to one server.
const IDLE_UPSTREAM_CONNECTIONS: usize = 256;
/// Those of the other client, of the measurements, and some that are just ending.
const OTHER_DESCRIPTORS: usize = 64;
const GROWTH_MIB_MAX: u64 = 256;
/// The same at a door for decisions, where a client may have five times as many connections.
const GROWTH_MIB_MAX_ASKER: u64 = 512;
/// After the attack; allocators keep some.
const GROWTH_MIB_AFTER: u64 = 64;
/// The time in which all of it falls back; memory comes last, when a thread allocates again.
const FALL_BACK: Duration = Duration::from_secs(60);
/// Beyond what the same requests take at the same time without the proxy, which is what the machine
/// takes for other work.
const P99_MAX: Duration = Duration::from_millis(250);
/// The short form has too few answers for a percentile, on a machine that does other things too.
const SHORT_FORM_MARGIN: u32 = 5;
/// The time before each attack in which nobody disturbs; a quarter of its length at most.
const UNDISTURBED: Duration = Duration::from_secs(5);
/// Threads of the greedy client.
const EFFORT: usize = 2;
/// Connections that the greedy client tries to hold for a minute: more than it may.
const LONG_CROWD: usize = 1_200;

#[test]
fn a_client_that_waits_slows_nobody_and_holds_no_more_than_its_share() {
    play(&ways::WAITING, 1);
}

#[test]
fn a_client_that_floods_slows_nobody_and_holds_no_more_than_its_share() {
    play(&ways::FLOODING, 1);
}

#[test]
fn a_client_that_waits_in_http2_slows_nobody_and_holds_no_more_than_its_share() {
    play(&ways::WAITING_IN_HTTP2, 1);
}

#[test]
fn a_client_that_floods_in_http2_slows_nobody_and_holds_no_more_than_its_share() {
    play(&ways::FLOODING_IN_HTTP2, 1);
}

#[test]
fn a_client_at_another_door_slows_nobody_and_holds_no_more_than_its_share() {
    // Longer than the margin of the short form: who waits for the end of the attack is seen.
    play(&ways::AT_OTHER_DOORS, 3);
}

/// However many connections one gateway opens, another gets in.
#[test]
fn one_gateway_gets_half_of_the_connections_of_a_decision_listener() {
    const HALF: usize = 5_000;
    allow_open_files();
    let upstream = CountedUpstream::start();
    let config = format!(
        "
proxy: {{ listen: '127.0.0.1:0', upstream: 'http://{}' }}
admin: {{ listen: '127.0.0.1:0' }}
decisions: {{ resp: '127.0.0.1:0' }}
limits: []
",
        upstream.address
    );
    let sluicegate = Sluicegate::start(&config);
    let address = sluicegate.resp.expect("it says where clients of Redis ask");
    let answered_from = |source: [u8; 4]| {
        let mut stream = connect_from(source.into(), address).unwrap();
        let mut answer = [0; 7];
        let answered = stream
            .write_all(b"PING\r\n")
            .and_then(|()| stream.read_exact(&mut answer));
        answered.is_ok().then_some(stream)
    };
    let held: Vec<TcpStream> = (0..HALF)
        .map_while(|_| answered_from([127, 0, 0, 2]))
        .collect();
    assert_eq!(held.len(), HALF);
    assert!(answered_from([127, 0, 0, 2]).is_none(), "beyond its half");
    assert!(answered_from([127, 0, 0, 1]).is_some(), "another gateway");
    drop(held);
    eventually("its connections are counted no more", || {
        answered_from([127, 0, 0, 2]).is_some()
    });
}

/// Plays all of them, for so long each in the short form, and fails with all that was wrong.
fn play(ways: &[Way], short_seconds: u32) {
    allow_open_files();
    let seconds = times(short_seconds);
    let is_long = seconds > short_seconds;
    let mut wrong: Vec<String> = Vec::new();
    for way in ways {
        let outcome = outcome_of(way, Duration::from_secs(seconds.into()), is_long);
        println!("{:<44} {outcome}", way.name);
        let faults = outcome.faults(way.door, is_long);
        wrong.extend(faults.iter().map(|fault| format!("{}: {fault}", way.name)));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Both ends of all connections are in these two processes. Many systems give a process 1,024
/// files, and let it have more if it asks.
fn allow_open_files() {
    let raised = Command::new("prlimit")
        .arg(format!("--pid={}", std::process::id()))
        .arg("--nofile=8192:")
        .status();
    assert!(raised.unwrap().success(), "8,192 open files are needed");
}

/// What a process holds.
#[derive(Clone, Copy, Debug, Default)]
struct Holdings {
    mib: u64,
    descriptors: usize,
    upstream_connections: usize,
}

impl Holdings {
    fn of(sluicegate: &Sluicegate, upstream: &CountedUpstream) -> Self {
        Self {
            mib: sluicegate.resident_kib() >> 10,
            descriptors: sluicegate.open_files(),
            upstream_connections: upstream.open_connections(),
        }
    }

    fn or_more(self, other: Self) -> Self {
        Self {
            mib: self.mib.max(other.mib),
            descriptors: self.descriptors.max(other.descriptors),
            upstream_connections: self.upstream_connections.max(other.upstream_connections),
        }
    }

    fn has_fallen_back_to(self, before: Self) -> bool {
        let idle = idle_upstream_connections();
        self.mib <= before.mib + GROWTH_MIB_AFTER
            && self.descriptors <= before.descriptors + idle + OTHER_DESCRIPTORS
            && self.upstream_connections <= idle
    }
}

/// The most descriptors that one client may make us hold, by the door that it comes to.
fn descriptors_of_client(door: Door) -> usize {
    match door {
        Door::Proxy => CONNECTIONS_PER_CLIENT + CONNECTIONS_PER_UPSTREAM,
        Door::Admin => CONNECTIONS_PER_CLIENT,
        Door::Grpc | Door::TlsDecisions => CONNECTIONS_PER_ASKER,
    }
}

fn growth_mib_max(door: Door) -> u64 {
    match door {
        Door::Proxy | Door::Admin => GROWTH_MIB_MAX,
        Door::Grpc | Door::TlsDecisions => GROWTH_MIB_MAX_ASKER,
    }
}

fn idle_upstream_connections() -> usize {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    IDLE_UPSTREAM_CONNECTIONS * cores
}

/// What was measured of one way.
struct Outcome {
    undisturbed: GoodAnswers,
    answers: GoodAnswers,
    before: Holdings,
    most: Holdings,
    after: Holdings,
    fell_back_in: Duration,
    /// Connections that the greedy client has opened, over all.
    opened: usize,
}

impl Outcome {
    fn faults(&self, door: Door, is_long: bool) -> Vec<String> {
        let p99_max = P99_MAX * if is_long { 1 } else { SHORT_FORM_MARGIN };
        let p99 = self.answers.latencies.per_mille(990);
        let direct = self.answers.direct.per_mille(990);
        let (before, most) = (self.before, self.most);
        let descriptors_max = before.descriptors + descriptors_of_client(door) + OTHER_DESCRIPTORS;
        let mut faults = self.answers.failures.clone();
        faults.truncate(3);
        let mut check = |is_kept: bool, text: String| {
            if !is_kept {
                faults.push(text);
            }
        };
        check(
            p99 < p99_max + direct && self.answers.latencies.count() > 0,
            format!("the other client waited {p99:?} (p99), and {direct:?} without the proxy"),
        );
        check(
            most.mib <= before.mib + growth_mib_max(door),
            format!("memory grew from {} to {} MiB", before.mib, most.mib),
        );
        check(
            most.descriptors <= descriptors_max,
            format!(
                "{} descriptors, {descriptors_max} are allowed",
                most.descriptors
            ),
        );
        check(
            most.upstream_connections <= CONNECTIONS_PER_UPSTREAM,
            format!("{} connections to the server", most.upstream_connections),
        );
        check(
            self.after.has_fallen_back_to(before),
            format!("{before:?} before and {:?} after it", self.after),
        );
        faults
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [undisturbed, p99] =
            [&self.undisturbed, &self.answers].map(|answers| answers.latencies.per_mille(990));
        let p50 = self.answers.latencies.per_mille(500);
        let direct = self.answers.direct.per_mille(990);
        let triple = |of: fn(Holdings) -> String| {
            let [before, most, after] = [self.before, self.most, self.after].map(of);
            format!("{before} > {most} > {after}")
        };
        write!(
            f,
            "p50 {p50:.1?} p99 {p99:.1?} of {} (alone {undisturbed:.1?}, without the proxy {direct:.1?}), MiB {}, files {}, upstream {}, back in {:.1?}, {} opened, {} failed",
            self.answers.latencies.count(),
            triple(|held| held.mib.to_string()),
            triple(|held| held.descriptors.to_string()),
            triple(|held| held.upstream_connections.to_string()),
            self.fell_back_in,
            self.opened,
            self.answers.failures.len(),
        )
    }
}

/// Starts a process and plays one way against it.
fn outcome_of(way: &Way, length: Duration, is_long: bool) -> Outcome {
    let upstream = CountedUpstream::start();
    let sluicegate = start(way, &upstream);
    let target = door_of(&sluicegate, way.door);
    let crowd = if is_long { LONG_CROWD } else { way.crowd };
    let ask_until = |until| ask_steadily(&sluicegate, &upstream, way.door, until);
    let undisturbed = ask_until(Instant::now() + (length / 4).min(UNDISTURBED));
    let before = Holdings::of(&sluicegate, &upstream);
    let until = Instant::now() + length;
    let (mut most, mut opened) = (before, 0);
    let answers = thread::scope(|scope| {
        let attack = || attacker::attack(way, target, crowd / EFFORT, until);
        let attackers: Vec<_> = (0..EFFORT).map(|_| scope.spawn(attack)).collect();
        let good = scope.spawn(|| ask_until(until));
        while Instant::now() < until {
            most = most.or_more(Holdings::of(&sluicegate, &upstream));
            // bounded wait: until the end of the attack
            thread::sleep(Duration::from_millis(20));
        }
        opened = attackers
            .into_iter()
            .map(|attacker| attacker.join().unwrap())
            .sum();
        good.join().unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            GoodAnswers::failed(text.unwrap_or_else(|| "the other client gave up".to_owned()))
        })
    });
    let ended = Instant::now();
    let mut after = Holdings::of(&sluicegate, &upstream);
    while !after.has_fallen_back_to(before) && ended.elapsed() < FALL_BACK {
        // Threads give memory back while they work.
        let _ = sluicegate.get("/good", &[]);
        // bounded wait: the time is above
        thread::sleep(Duration::from_millis(20));
        after = Holdings::of(&sluicegate, &upstream);
    }
    Outcome {
        undisturbed,
        answers,
        before,
        most,
        after,
        fell_back_in: ended.elapsed(),
        opened,
    }
}

/// The configuration that is there by default, in front of a server.
fn start(way: &Way, upstream: &CountedUpstream) -> Sluicegate {
    let directory = tempfile::tempdir().unwrap();
    write_certificate(directory.path(), "a.example");
    let quota = match way.limit {
        Limit::Default => "rate: 10/s, burst: 20",
        Limit::OutOfReach => "rate: 1000000/s, burst: 1000000",
    };
    let decisions = match way.door {
        Door::TlsDecisions => {
            "decisions: { http: '127.0.0.1:0', tls: { cert: cert.pem, key: key.pem } }"
        }
        Door::Grpc => "decisions: { grpc: '127.0.0.1:0' }",
        Door::Proxy | Door::Admin => "",
    };
    let config = format!(
        "
proxy: {{ listen: '127.0.0.1:0', upstream: 'http://{}' }}
admin: {{ listen: '127.0.0.1:0' }}
{decisions}
limits:
  - {{ name: per-client, key: [client_ip], {quota} }}
",
        upstream.address
    );
    std::fs::write(directory.path().join("sluicegate.yaml"), config).unwrap();
    Sluicegate::start_in(directory)
}

fn door_of(sluicegate: &Sluicegate, door: Door) -> SocketAddr {
    let address = match door {
        Door::Proxy => Some(sluicegate.proxy),
        Door::Admin => sluicegate.admin,
        Door::Grpc => sluicegate.grpc,
        Door::TlsDecisions => sluicegate.decisions,
    };
    address.expect("the configuration has this door")
}
