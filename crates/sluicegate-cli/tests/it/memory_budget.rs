//! The memory budget of the running program: a client makes it grow, and others are served.

use std::io::Write;
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use sluicegate_testkit::{HttpRequest, raw_socket, wait_until};

use super::running::Sluicegate;

/// Long enough for a machine that is busy with other tests.
const LONG: Duration = Duration::from_secs(90);

/// Sends a large header without its end: the bytes stay in the memory of the program.
fn large_header(sluicegate: &Sluicegate) -> Option<TcpStream> {
    const BYTES: usize = 900 << 10;
    let mut stream = raw_socket::try_connect(sluicegate.proxy).ok()?;
    let head = format!(
        "GET / HTTP/1.1\r\nHost: a.example\r\nX-Large: {}",
        "a".repeat(BYTES)
    );
    // One that is closed may refuse it.
    stream.write_all(head.as_bytes()).ok()?;
    Some(stream)
}

#[test]
fn a_process_that_reaches_its_memory_budget_gives_up_connections_and_recovers() {
    let sluicegate = Sluicegate::start(
        "
proxy:
  listen: '127.0.0.1:0'
  workers: 1
  max_header_bytes: 1MiB
  timeouts: { header: 8s }
admin: { listen: '127.0.0.1:0' }
overload: { memory: 96MiB }
store: { kind: local, local: { max_keys: 1000 } }
limits:
  - { name: per-client, key: [client_ip], rate: 100000/s, burst: 100000 }
",
    );
    const STAGE: &str = "sluicegate_overload_stage";
    const NEW: &str = "sluicegate_overload_shed_total{connection=\"new\"}";
    assert_eq!(
        sluicegate.metric("sluicegate_memory_budget_bytes"),
        96 << 20
    );
    let mut held = Vec::new();
    wait_until(LONG, "new connections are closed", || {
        // A few at a time, so that the memory is looked at in between.
        held.extend((0..4).filter_map(|_| large_header(&sluicegate)));
        sluicegate.metric(STAGE) > 0 && sluicegate.metric(NEW) > 0
    });
    assert_eq!(sluicegate.admin_get("/healthz").status(), 200);
    let resident = sluicegate.resident_kib() >> 10;
    assert!(resident < 2 * 96, "{resident} MiB");
    sluicegate.wait_for_log("memory is short");
    drop(held);
    wait_until(LONG, "it recovers", || sluicegate.metric(STAGE) == 0);
    let other = HttpRequest::get("/other").from(Ipv4Addr::new(127, 0, 0, 9));
    assert_eq!(other.send(sluicegate.proxy).status(), 200);
    assert_eq!(sluicegate.admin_get("/readyz").status(), 200);
}
