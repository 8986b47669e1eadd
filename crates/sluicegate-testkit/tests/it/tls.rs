use std::process::Command;

use sluicegate_testkit::{ClientAuth, RedisServer, TlsFiles};

fn ping_by_tls(server: &RedisServer, files: &TlsFiles, with_certificate: bool) -> bool {
    let mut command = Command::new("redis-cli");
    command
        .args([
            "-h",
            "127.0.0.1",
            "-p",
            &server.port().to_string(),
            "--tls",
            "--cacert",
        ])
        .arg(files.authority());
    if with_certificate {
        command
            .arg("--cert")
            .arg(files.client_certificate())
            .arg("--key")
            .arg(files.client_key());
    }
    let output = command.arg("PING").output().unwrap();
    output.stdout == b"PONG\n"
}

#[test]
fn a_server_speaks_tls_and_nothing_else_on_its_port() {
    let files = TlsFiles::generate();
    let server = RedisServer::builder().tls(&files, ClientAuth::None).start();
    assert!(server.url().starts_with("rediss://"));
    assert!(ping_by_tls(&server, &files, false));
    assert!(
        !ping_by_tls(&server, &TlsFiles::generate(), false),
        "another authority is not trusted"
    );
    let mut plain = redis::Client::open(format!("redis://127.0.0.1:{}", server.port())).unwrap();
    assert!(plain.get_connection().is_err() || redis::cmd("PING").query::<()>(&mut plain).is_err());
    server.command::<()>(&["PING"]);
}

#[test]
fn a_server_can_demand_a_certificate_of_its_clients() {
    let files = TlsFiles::generate();
    let server = RedisServer::builder()
        .tls(&files, ClientAuth::Required)
        .start();
    assert!(!ping_by_tls(&server, &files, false));
    assert!(ping_by_tls(&server, &files, true));
    assert!(!ping_by_tls(&server, &TlsFiles::generate(), true));
}
