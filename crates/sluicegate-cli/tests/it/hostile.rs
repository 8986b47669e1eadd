//! Questions that are deep, huge, cut short or cut into pieces, to every door of the decision service.

mod grpc;
mod json;
mod resp;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;

use super::running::{LONGEST, Sluicegate};

const LIMITS: &str = r#"
proxy: { listen: "127.0.0.1:0" }
admin: { listen: "127.0.0.1:0" }
decisions: { http: "127.0.0.1:0", grpc: "127.0.0.1:0", resp: "127.0.0.1:0" }
limits:
  - { name: per-client, key: [client_ip], rate: 1/h, burst: 5 }
  - { name: per-user, key: ["descriptor:user"], rate: 1/h, burst: 5 }
"#;

/// What hostile callers may cost at once.
const GROWTH_KIB_MAX: u64 = 48 << 10;

/// Plays an attack: the process lives on, without complaints, and holds hardly more memory than before.
fn survives(attack: impl FnOnce(&Sluicegate)) {
    let sluicegate = Sluicegate::start(LIMITS);
    let before = sluicegate.resident_kib();
    attack(&sluicegate);
    let growth = sluicegate.resident_kib().saturating_sub(before);
    assert!(growth < GROWTH_KIB_MAX, "{growth} KiB more than {before}");
    assert!(
        sluicegate.ask_admin("/healthz").starts_with("HTTP/1.1 200"),
        "it is well"
    );
    let logged = sluicegate.logged.lock().unwrap();
    assert!(
        !logged.iter().any(|line| line.contains("panicked")),
        "{logged:#?}"
    );
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(LONGEST)).unwrap();
    stream.set_write_timeout(Some(LONGEST)).unwrap();
    stream
}

/// What a caller does when it has said everything.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    Waits,
    /// It will not say more, and still reads.
    HangsUp,
}

/// Writes piece after piece until all is said or nobody listens; everything that is answered in time.
fn say(
    address: SocketAddr,
    then: Then,
    pieces: impl IntoIterator<Item = Vec<u8>> + Send,
) -> String {
    let mut stream = connect(address);
    let mut writing = stream.try_clone().unwrap();
    let mut told = Vec::new();
    thread::scope(|scope| {
        scope.spawn(move || {
            let is_heard = pieces
                .into_iter()
                .all(|piece| writing.write_all(&piece).is_ok());
            if is_heard && then == Then::HangsUp {
                let _ = writing.shutdown(Shutdown::Write);
            }
        });
        let ended = stream.read_to_end(&mut told);
        // Whoever has said too much may be hung up on before it has read why.
        let is_late = ended.is_err_and(|error| {
            matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
        });
        assert!(
            !is_late,
            "neither answered nor hung up: {}",
            String::from_utf8_lossy(&told)
        );
    });
    String::from_utf8_lossy(&told).into_owned()
}
