//! The unit files, and what they rely on: sockets that somebody else opened, and a supervisor who is told.
//!
//! systemd itself does not run here. Its own tools judge the files, and its protocols are spoken with sockets of the test.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use sluicegate_testkit::{HttpRequest, STEP_TIMEOUT, eventually, free_port};
use tempfile::TempDir;

use super::running::{Sluicegate, signal};

const SERVICE: &str = include_str!("../../../../deploy/systemd/sluicegate.service");
const SOCKET: &str = include_str!("../../../../deploy/systemd/sluicegate.socket");
const CONFIG: &str = include_str!("../../../../deploy/sluicegate.yaml");

/// The unit files with a program that is there.
fn units() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    assert!(SERVICE.contains(
        "ExecStart=/usr/bin/sluicegate serve --config /etc/sluicegate/sluicegate.yaml\n"
    ));
    let service = SERVICE.replace("/usr/bin/sluicegate", env!("CARGO_BIN_EXE_sluicegate"));
    fs::write(directory.path().join("sluicegate.service"), service).unwrap();
    fs::write(directory.path().join("sluicegate.socket"), SOCKET).unwrap();
    directory
}

/// The output of `systemd-analyze`, and true if it found nothing.
fn analyze(arguments: &[&str], directory: &Path) -> (bool, String) {
    let output = Command::new("timeout")
        .args(["60", "systemd-analyze", "--no-pager"])
        .args(arguments)
        .current_dir(directory)
        .output()
        .expect("systemd-analyze is installed by `cargo xtask test`");
    let told = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), told)
}

#[test]
fn systemd_finds_no_mistake_in_the_units() {
    let units = units();
    let (is_content, told) = analyze(
        &[
            "verify",
            "--man=no",
            "./sluicegate.service",
            "./sluicegate.socket",
        ],
        units.path(),
    );
    assert!(is_content && !told.contains("sluicegate"), "{told}");
    // A slip would be told.
    let slip = fs::read_to_string(units.path().join("sluicegate.service"))
        .unwrap()
        .replace("UMask", "Umask");
    fs::write(units.path().join("sluicegate.service"), slip).unwrap();
    let (_, told) = analyze(
        &["verify", "--man=no", "./sluicegate.service"],
        units.path(),
    );
    assert!(told.contains("Umask"), "{told}");
}

/// Ten is a service that may do everything; what remains at 1.5 is the network, which is its work.
#[test]
fn the_service_may_do_little() {
    let units = units();
    let security = [
        "security",
        "--offline=true",
        "--threshold=15",
        "./sluicegate.service",
    ];
    let (is_content, told) = analyze(&security, units.path());
    assert!(is_content, "{told}");
    let open = fs::read_to_string(units.path().join("sluicegate.service"))
        .unwrap()
        .replace("SystemCallFilter=", "#");
    fs::write(units.path().join("sluicegate.service"), open).unwrap();
    let (is_content, told) = analyze(&security, units.path());
    assert!(!is_content, "{told}");
}

/// A socket with another address would be opened for nobody.
#[test]
fn the_units_and_the_configuration_name_the_same_address() {
    let address = SOCKET
        .lines()
        .find_map(|line| line.strip_prefix("ListenStream="))
        .unwrap();
    assert!(
        CONFIG.contains(&format!("listen: \"{address}\"")),
        "{address}"
    );
    let free = CONFIG
        .replace(address, "127.0.0.1:0")
        .replace("127.0.0.1:9090", "127.0.0.1:0");
    let sluicegate = Sluicegate::start(&free);
    assert_eq!(sluicegate.get("/", &[]).status(), 200);
}

#[test]
fn a_socket_that_systemd_has_opened_is_served() {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let directory = tempfile::tempdir().unwrap();
    let config = CONFIG
        .replace("127.0.0.1:8080", &address.to_string())
        .replace("127.0.0.1:9090", "127.0.0.1:0");
    fs::write(directory.path().join("sluicegate.yaml"), config).unwrap();
    let log = fs::File::create(directory.path().join("log")).unwrap();
    // It opens the socket, waits for a client, and then becomes the program.
    let activated = Command::new("systemd-socket-activate")
        .arg(format!("--listen={address}"))
        .arg(env!("CARGO_BIN_EXE_sluicegate"))
        .args(["serve", "--config"])
        .arg(directory.path().join("sluicegate.yaml"))
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .expect("systemd-socket-activate is installed by `cargo xtask test`");
    let activated = Ended(activated);
    eventually("systemd listens", || TcpStream::connect(address).is_ok());
    // The first connection waits until the program runs, and is served then.
    let answer = HttpRequest::get("/").send(address);
    let log = fs::read_to_string(directory.path().join("log")).unwrap();
    assert_eq!(answer.status(), 200, "{answer} {log}");
    assert!(!log.contains("on which nothing listens"), "{log}");
    drop(activated);
}

#[test]
fn a_supervisor_is_told_when_it_is_ready_reloads_is_replaced_and_ends() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let supervisor = UnixDatagram::bind(&path).unwrap();
    supervisor.set_read_timeout(Some(STEP_TIMEOUT)).unwrap();
    let told = || {
        let mut message = [0; 512];
        let length = supervisor.recv(&mut message).expect("it tells something");
        String::from_utf8_lossy(&message[..length]).into_owned()
    };
    let config = format!(
        "proxy: {{ listen: '127.0.0.1:{}' }}\nadmin: off\nlimits:\n  - {{ name: a, key: [client_ip], rate: 1/s }}\n",
        free_port()
    );
    let file = directory.path().join("sluicegate.yaml");
    fs::write(&file, &config).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluicegate"));
    command.env("NOTIFY_SOCKET", &path);
    let mut sluicegate = Sluicegate::start_by(command, directory);
    let ready = told();
    assert!(
        ready.starts_with(&format!("READY=1\nMAINPID={}\n", sluicegate.pid())),
        "{ready}"
    );

    sluicegate.signal("HUP");
    let reloading = told();
    assert!(
        reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="),
        "{reloading}"
    );
    assert_eq!(told(), "READY=1\nSTATUS=listening\n");

    sluicegate.signal("USR2");
    let successor = told();
    let pid = successor
        .strip_prefix("READY=1\nMAINPID=")
        .and_then(|rest| rest.split_once('\n')?.0.parse().ok());
    let pid: u32 = pid.unwrap_or_else(|| panic!("{successor}"));
    assert_ne!(pid, sluicegate.pid());
    assert!(sluicegate.wait().success());
    // That one process ends is not the end of the service: the next word comes from the other.
    signal(pid, "HUP");
    let reloading = told();
    assert!(reloading.starts_with("RELOADING=1\n"), "{reloading}");
    assert_eq!(told(), "READY=1\nSTATUS=listening\n");
    signal(pid, "TERM");
    let stopping = told();
    assert!(stopping.starts_with("STOPPING=1\n"), "{stopping}");
}

/// A process that ends with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
