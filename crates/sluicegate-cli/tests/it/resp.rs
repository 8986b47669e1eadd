//! The protocol of Redis, spoken by Redis' own clients and by strangers.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::{Command, Output};
use std::thread;

use sluicegate_testkit::{RedisServer, eventually, raw_socket};

use super::running::Sluicegate;

const CONFIG: &str = "
proxy: { listen: '127.0.0.1:0' }
admin: { listen: '127.0.0.1:0' }
decisions: { resp: '127.0.0.1:0' }
limits:
  - { name: per-client, key: [client_ip], rate: 1/h, burst: 2 }
";

fn resp_address(sluicegate: &Sluicegate) -> SocketAddr {
    sluicegate.resp.expect("it says where clients of Redis ask")
}

/// A program of Redis, with what it is asked to say.
fn run(program: &str, sluicegate: &Sluicegate, arguments: &[&str]) -> Output {
    let address = resp_address(sluicegate);
    let at = [
        "-h".to_owned(),
        address.ip().to_string(),
        "-p".to_owned(),
        address.port().to_string(),
    ];
    Command::new("timeout")
        .arg("60")
        .arg(program)
        .args(at)
        .args(arguments)
        .output()
        .unwrap()
}

pub fn redis_cli(sluicegate: &Sluicegate, arguments: &[&str]) -> String {
    let output = run("redis-cli", sluicegate, arguments);
    String::from_utf8(output.stdout)
        .unwrap()
        .trim_end()
        .replace('\n', " ")
}

fn connect(sluicegate: &Sluicegate) -> TcpStream {
    raw_socket::connect(resp_address(sluicegate))
}

/// Everything that is answered to these bytes, until one of both hangs up.
pub fn say(sluicegate: &Sluicegate, bytes: &[u8]) -> String {
    let mut stream = connect(sluicegate);
    let mut writing = stream.try_clone().unwrap();
    let bytes = bytes.to_vec();
    let writer = thread::spawn(move || {
        // The other end may have heard enough.
        let _ = writing.write_all(&bytes);
        let _ = writing.shutdown(Shutdown::Write);
    });
    let mut told = Vec::new();
    let _ = stream.read_to_end(&mut told);
    writer.join().unwrap();
    String::from_utf8_lossy(&told).into_owned()
}

#[test]
fn redis_cli_is_answered_as_by_redis_cell() {
    let sluicegate = Sluicegate::start(CONFIG);
    assert_eq!(
        redis_cli(
            &sluicegate,
            &["CL.THROTTLE", "user123", "15", "30", "60", "1"]
        ),
        "0 16 15 -1 2"
    );
    assert_eq!(
        redis_cli(
            &sluicegate,
            &["-3", "CL.THROTTLE", "user123", "15", "30", "60", "15"]
        ),
        "0 16 0 -1 32"
    );
    let denied = redis_cli(&sluicegate, &["CL.THROTTLE", "user123", "15", "30", "60"]);
    assert!(denied.starts_with("1 16 0 2 3"), "{denied}");
    assert_eq!(
        redis_cli(&sluicegate, &["SG.CHECK", "per-client", "203.0.113.7"]),
        "0 2 1 -1 3600"
    );
    assert_eq!(
        redis_cli(&sluicegate, &["SG.RESET", "per-client", "203.0.113.7"]),
        "OK"
    );
    assert_eq!(
        redis_cli(&sluicegate, &["SG.PEEK", "per-client", "203.0.113.7"]),
        "0 2 2 -1 0"
    );
    assert_eq!(redis_cli(&sluicegate, &["PING"]), "PONG");
    assert_eq!(
        redis_cli(&sluicegate, &["GET", "a"]),
        "ERR unknown command \"GET\""
    );
}

#[test]
fn the_token_of_the_door_is_a_password_to_clients_of_redis() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("token"), "0123456789abcdef").unwrap();
    let config = CONFIG.replace(
        "resp: '127.0.0.1:0'",
        "resp: '127.0.0.1:0', token_file: token",
    );
    std::fs::write(directory.path().join("sluicegate.yaml"), config).unwrap();
    let sluicegate = Sluicegate::start_in(directory);
    assert_eq!(
        redis_cli(&sluicegate, &["CL.THROTTLE", "a", "1", "1", "1"]),
        "NOAUTH show the token first: AUTH token"
    );
    let known = [
        "--no-auth-warning",
        "-a",
        "0123456789abcdef",
        "CL.THROTTLE",
        "a",
        "1",
        "1",
        "60",
    ];
    assert_eq!(redis_cli(&sluicegate, &known), "0 2 1 -1 60");
    assert_eq!(
        redis_cli(&sluicegate, &[&["-3"], &known[..]].concat()),
        "0 2 0 -1 120"
    );
}

#[test]
fn redis_benchmark_runs_through_and_every_charge_is_counted() {
    let sluicegate = Sluicegate::start(CONFIG);
    let asked = [
        "-n",
        "20000",
        "-P",
        "16",
        "-c",
        "20",
        "-r",
        "1000",
        "-q",
        "CL.THROTTLE",
        "key:__rand_int__",
        "3",
        "1",
        "3600",
    ];
    let output = run("redis-benchmark", &sluicegate, &asked);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && told.contains("requests per second"),
        "{told}"
    );
    let counted = |outcome: &str| {
        sluicegate.metric(&format!(
            "sluicegate_limit_decisions_total{{limit=\"!throttle\",outcome=\"{outcome}\"}}"
        ))
    };
    let (allowed, denied) = (counted("allowed"), counted("denied"));
    assert_eq!(allowed + denied, 20_000);
    assert!(
        (1..=4_000).contains(&allowed),
        "{allowed} of at most a thousand keys with four each"
    );
}

/// The counts of allowed and denied in a pipeline of so many questions about one key.
fn pipeline(sluicegate: &Sluicegate, count: usize) -> (usize, usize) {
    let told = say(
        sluicegate,
        "CL.THROTTLE k 99 1 3600\r\n".repeat(count).as_bytes(),
    );
    (
        told.matches("*5\r\n:0\r\n").count(),
        told.matches("*5\r\n:1\r\n").count(),
    )
}

#[test]
fn ten_thousand_commands_in_a_row_are_answered_in_a_row() {
    let sluicegate = Sluicegate::start(CONFIG);
    assert_eq!(pipeline(&sluicegate, 10_000), (100, 9_900));
}

#[test]
fn two_processes_on_one_redis_throttle_together() {
    let server = RedisServer::start();
    let config = format!(
        "{CONFIG}store: {{ kind: redis, deadline: 5s, redis: {{ endpoints: ['{}'] }} }}\n",
        server.address()
    );
    let (one, other) = (Sluicegate::start(&config), Sluicegate::start(&config));
    eventually("the store is there", || {
        [&one, &other].iter().all(|sluicegate| {
            redis_cli(sluicegate, &["SG.PEEK", "per-client", "203.0.113.9"]).starts_with('0')
        })
    });
    let (of_one, of_other) = thread::scope(|scope| {
        let first = scope.spawn(|| pipeline(&one, 10_000));
        (pipeline(&other, 10_000), first.join().unwrap())
    });
    assert_eq!(
        (of_one.0 + of_other.0, of_one.1 + of_other.1),
        (100, 19_900)
    );
}

#[test]
fn hostile_bytes_end_their_own_connection_and_nothing_else() {
    let sluicegate = Sluicegate::start(CONFIG);
    let mut good = connect(&sluicegate);
    let before = sluicegate.resident_kib();
    let million = vec![b'a'; 1 << 20];
    let shapes: [&[u8]; 10] = [
        b"*1000000000\r\n",
        b"*1\r\n$1000000000\r\n",
        b"*-9223372036854775808\r\nx\r\n",
        b"*1\r\n$-5\r\n",
        b"$4\r\nPING\r\n*1\r\n$1\r\nx",
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\x00\xff\xfe\r\n\r\n",
        b"*2\r\n$4\r\nECHO\r\n$3\r\nabcdef\r\n",
        &million,
    ];
    for shape in shapes {
        for _ in 0..20 {
            let told = say(&sluicegate, shape);
            assert!(told.len() < 1_000, "{told}");
        }
    }
    // Commands that promise much and never come to an end take no room for what they promise.
    let waiting: Vec<TcpStream> = (0..200)
        .map(|_| {
            let mut stream = connect(&sluicegate);
            stream.write_all(b"*1024\r\n$60000\r\n").unwrap();
            stream
        })
        .collect();
    good.write_all(b"PING\r\n").unwrap();
    let mut told = [0; 7];
    good.read_exact(&mut told).unwrap();
    assert_eq!(&told, b"+PONG\r\n");
    assert!(sluicegate.resident_kib() < before + 64 * 1024);
    drop(waiting);
}

#[test]
fn a_process_that_ends_does_not_wait_for_clients_that_say_nothing() {
    let mut sluicegate = Sluicegate::start(CONFIG);
    let mut quiet = connect(&sluicegate);
    quiet.write_all(b"PING\r\n").unwrap();
    quiet.read_exact(&mut [0; 7]).unwrap();
    sluicegate.signal("TERM");
    assert!(sluicegate.wait().success());
    assert_eq!(quiet.read(&mut [0; 1]).unwrap_or(0), 0);
}
