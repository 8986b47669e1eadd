//! Questions that are deep, huge, cut short or cut into pieces, to every listener of the decision service.

mod grpc;
mod json;
mod resp;

use std::io::Write;
use std::net::{Shutdown, SocketAddr};
use std::thread;

use sluicegate_testkit::{HttpResponse, raw_socket};

use super::running::Sluicegate;

const LIMITS: &str = r#"
proxy: { listen: "127.0.0.1:0" }
admin: { listen: "127.0.0.1:0" }
decisions: { http: "127.0.0.1:0", grpc: "127.0.0.1:0", resp: "127.0.0.1:0" }
limits:
  - { name: per-client, key: [client_ip], rate: 1/h, burst: 5 }
  - { name: per-user, key: ["descriptor:user"], rate: 1/h, burst: 5 }
"#;

/// Memory that hostile callers may cost at once.
const GROWTH_KIB_MAX: u64 = 48 << 10;

/// Plays an attack: the process lives on, without complaints, and holds hardly more memory than before.
fn survives(attack: impl FnOnce(&Sluicegate)) {
    let sluicegate = Sluicegate::start(LIMITS);
    let before = sluicegate.resident_kib();
    attack(&sluicegate);
    let growth = sluicegate.resident_kib().saturating_sub(before);
    assert!(growth < GROWTH_KIB_MAX, "{growth} KiB more than {before}");
    assert!(
        sluicegate.admin_get("/healthz").status() == 200,
        "it is well"
    );
    let logged = sluicegate.logged.lock().unwrap();
    assert!(
        !logged.iter().any(|line| line.contains("panicked")),
        "{logged:#?}"
    );
}

/// The caller's next step when everything is sent.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    Waits,
    /// It closes its side of the connection, and still reads.
    HangsUp,
}

/// Writes piece after piece until all are sent or the server closes; returns everything that came back.
fn send_pieces(
    address: SocketAddr,
    then: Then,
    pieces: impl IntoIterator<Item = Vec<u8>> + Send,
) -> HttpResponse {
    let stream = raw_socket::connect(address);
    let mut writing = stream.try_clone().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            let is_sent = pieces
                .into_iter()
                .all(|piece| writing.write_all(&piece).is_ok());
            if is_sent && then == Then::HangsUp {
                let _ = writing.shutdown(Shutdown::Write);
            }
        });
        // A caller that sends too much may find the connection closed before it has read why.
        raw_socket::read_to_end(stream)
    })
}
