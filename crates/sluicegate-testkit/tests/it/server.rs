use std::time::{Duration, Instant};

use sluicegate_testkit::{RedisServer, free_port, is_alone, run_alone, wait_until};

#[test]
fn a_server_answers_and_is_gone_after_drop() {
    let server = RedisServer::start();
    let process = format!("/proc/{}", server.process_id().unwrap());
    let socket = server.socket();
    assert!(std::path::Path::new(&process).exists() && socket.exists());
    let mut by_port = redis::Client::open(server.url())
        .unwrap()
        .get_connection()
        .unwrap();
    assert_eq!(
        redis::cmd("PING").query::<String>(&mut by_port).unwrap(),
        "PONG"
    );
    drop(server);
    assert!(!std::path::Path::new(&process).exists() && !socket.exists());
}

#[test]
fn a_server_is_killed_when_the_test_panics() {
    let server = RedisServer::start();
    let address = server.address();
    let panicked = std::thread::spawn(move || {
        let _server = server;
        panic!("expected in this test");
    });
    assert!(panicked.join().is_err());
    assert!(std::net::TcpStream::connect(address).is_err());
}

#[test]
fn a_server_is_killed_when_the_test_process_aborts() {
    if is_alone() {
        let stopped = RedisServer::start();
        stopped.stop();
        let (gone, running) = (RedisServer::start(), RedisServer::start());
        drop(gone);
        println!(
            "\ndirectory {}",
            running.socket().parent().unwrap().display()
        );
        println!(
            "pids {} {}",
            stopped.process_id().unwrap(),
            running.process_id().unwrap()
        );
        std::process::abort();
    }
    let output = run_alone(
        "server::a_server_is_killed_when_the_test_process_aborts",
        &[],
    );
    assert!(!output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let line = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap()
    };
    let (pids, directory) = (line("pids "), line("directory "));
    for pid in pids.split(' ') {
        let is_redis = || {
            std::fs::read_to_string(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|line| line.contains("redis"))
        };
        wait_until(Duration::from_secs(5), "the server is gone", || !is_redis());
    }
    let directory = std::path::Path::new(directory);
    wait_until(Duration::from_secs(5), "its directory is gone", || {
        !directory.exists()
    });
}

#[test]
fn a_failed_start_shows_the_log() {
    let port_taken = RedisServer::start();
    let error = RedisServer::builder()
        .port(port_taken.port())
        .try_start()
        .unwrap_err()
        .to_string();
    assert!(error.contains("Address already in use"), "{error}");
    let error = RedisServer::builder()
        .config("no-such-option yes")
        .try_start()
        .unwrap_err()
        .to_string();
    assert!(error.contains("no-such-option"), "{error}");
}

#[test]
fn a_killed_server_comes_back_on_its_port_without_its_data() {
    let server = RedisServer::builder().port(free_port()).start();
    server.command::<()>(&["SET", "a", "1"]);
    let port = server.port();
    for end in [RedisServer::kill, RedisServer::shutdown] {
        end(&server);
        assert!(!server.is_running() && server.try_client().is_err());
        server.restart();
        assert_eq!((server.port(), server.command(&["DBSIZE"])), (port, 0));
    }
}

#[test]
fn a_stopped_server_answers_nothing_until_it_goes_on() {
    let server = RedisServer::start();
    let mut client = server.client();
    client
        .set_read_timeout(Some(Duration::from_millis(50)))
        .unwrap();
    server.stop();
    assert!(!server.is_running());
    assert!(
        redis::cmd("PING")
            .query::<String>(&mut client)
            .unwrap_err()
            .is_timeout()
    );
    server.resume();
    server.command::<()>(&["PING"]);
    server.stop();
    drop(server);
}

#[test]
fn paused_clients_wait() {
    let server = RedisServer::start();
    server.pause_clients(200);
    let start = Instant::now();
    server.command::<()>(&["PING"]);
    assert!(
        start.elapsed() >= Duration::from_millis(150),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn redis_counts_calls_processor_time_and_memory() {
    let server = RedisServer::start();
    assert_eq!(server.command_calls("set"), 0);
    for _ in 0..3 {
        server.command::<()>(&["EVAL", "return redis.call('SET', KEYS[1], 'x')", "1", "a"]);
    }
    assert_eq!(
        (server.command_calls("EVAL"), server.command_calls("set")),
        (3, 3)
    );
    assert!(server.cpu_seconds() > 0.0 && server.used_memory() > 100_000);
    assert!(server.memory_of_keys("a") > 10 && server.memory_of_keys("b") == 0);
}

#[test]
fn keys_without_a_ttl_are_found() {
    let server = RedisServer::start();
    for key in ["p:kept", "p:[x]*", "q:kept"] {
        server.command::<()>(&["SET", key, "1"]);
    }
    server.command::<()>(&["SET", "p:passing", "1", "EX", "100"]);
    assert_eq!(server.keys_without_ttl("p:"), ["p:[x]*", "p:kept"]);
    assert_eq!(server.keys_without_ttl("p:["), ["p:[x]*"]);
    server.flush_all();
    assert_eq!(server.keys_without_ttl(""), [""; 0]);
}

#[test]
fn flushed_scripts_are_unknown() {
    let server = RedisServer::start();
    let sha: String = server.command(&["SCRIPT", "LOAD", "return 1"]);
    assert_eq!(server.command::<i64>(&["EVALSHA", &sha, "0"]), 1);
    server.flush_scripts();
    let error = server
        .try_command::<i64>(&["EVALSHA", &sha, "0"])
        .unwrap_err();
    assert_eq!(error.code(), Some("NOSCRIPT"));
}

#[test]
fn a_password_and_users_are_demanded() {
    let server = RedisServer::builder()
        .password("secret")
        .acl_user("limited on >word ~mine:* +get")
        .start();
    server.command::<()>(&["PING"]);
    let open = |url: &str| redis::Client::open(url)?.get_connection();
    assert!(open(&server.url()).is_ok());
    let without = format!("redis://127.0.0.1:{}", server.port());
    assert!(
        redis::cmd("PING")
            .query::<String>(&mut open(&without).unwrap())
            .is_err()
    );
    let mut limited = open(&format!("redis://limited:word@127.0.0.1:{}", server.port())).unwrap();
    let mut run = |command: &str, key: &str| {
        redis::cmd(command)
            .arg(key)
            .query::<Option<String>>(&mut limited)
    };
    assert!(run("GET", "mine:a").is_ok());
    assert!(run("GET", "other").is_err() && run("DEL", "mine:a").is_err());
}

#[test]
fn a_replica_follows() {
    let primary = RedisServer::start();
    let replica = RedisServer::builder().replica_of(&primary).start();
    primary.command::<()>(&["SET", "a", "1"]);
    wait_until(Duration::from_secs(10), "the key arrives", || {
        replica.command(&["EXISTS", "a"])
    });
}
