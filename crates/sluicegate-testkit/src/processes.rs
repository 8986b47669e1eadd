//! Free ports and bounded waiting.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// Lets the calling thread, and those that it starts from now on, have the processor only where
/// nobody else wants it: it stands for a program on another machine.
pub fn yield_to_others() {
    const LEAST: i32 = 19;
    // Only the calling thread is changed on Linux. It may always become less important.
    rustix::process::nice(LEAST).expect("a thread may lower its own priority");
}

/// A loopback port nobody listens on. It stays ours until this process ends, so that a server can come back on it.
///
/// Taken from below the range of outgoing connections: there a client that keeps dialling a dead server could get the
/// server's port as its own and be connected to itself, or keep the server from coming back.
pub fn free_port() -> u16 {
    let mut taken = TAKEN
        .lock()
        .expect("the list is whole whatever panicked: it only grows");
    let start = usize::try_from(std::process::id())
        .unwrap_or(0)
        .wrapping_mul(101)
        + taken.len();
    let count = usize::from(LAST - FIRST);
    let candidates =
        (0..count).map(|step| FIRST + u16::try_from((start + step) % count).unwrap_or(0));
    for port in candidates {
        if let Some(lock) = claim(port) {
            taken.push(lock);
            return port;
        }
    }
    panic!("all loopback ports from {FIRST} to {LAST} are taken")
}

/// No single step of a test takes longer than this, also on a busy machine. A program that is silent
/// for so long hangs.
pub const STEP_TIMEOUT: Duration = Duration::from_secs(20);

/// Waits until `is_so` returns true, and panics with `what` when it has not within [`STEP_TIMEOUT`].
///
/// ```
/// # use std::sync::atomic::{AtomicBool, Ordering};
/// # use std::sync::Arc;
/// let is_done = Arc::new(AtomicBool::new(false));
/// let worker = Arc::clone(&is_done);
/// std::thread::spawn(move || worker.store(true, Ordering::Relaxed));
/// sluicegate_testkit::eventually("the work is done", || is_done.load(Ordering::Relaxed));
/// ```
#[track_caller]
pub fn eventually(what: &str, is_so: impl FnMut() -> bool) {
    wait_until(STEP_TIMEOUT, what, is_so);
}

/// The same with a timeout of the caller's choice.
#[track_caller]
pub fn wait_until(timeout: Duration, what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + timeout;
    loop {
        if is_so() {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "not so after {timeout:?}: {what}"
        );
        // bounded wait: until the deadline above
        thread::sleep(Duration::from_millis(5));
    }
}

const FIRST: u16 = 10_000;
const LAST: u16 = 32_000;

/// The lock files of our ports. Other processes see the locks, and they end with this process however it ends.
static TAKEN: Mutex<Vec<File>> = Mutex::new(Vec::new());

fn claim(port: u16) -> Option<File> {
    let directory = std::env::temp_dir().join("sluicegate-testkit-ports");
    fs::create_dir_all(&directory).expect("the directory for temporary files can be written");
    let lock = File::create(directory.join(port.to_string())).ok()?;
    lock.try_lock().ok()?;
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()?;
    Some(lock)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ports_are_handed_out_once_even_to_threads_that_ask_together() {
        let threads: Vec<_> = (0..4)
            .map(|_| thread::spawn(|| [(); 20].map(|()| free_port())))
            .collect();
        let ports: Vec<u16> = threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect();
        assert_eq!(ports.iter().collect::<HashSet<_>>().len(), 80);
        assert!(ports.iter().all(|port| (FIRST..LAST).contains(port)));
    }

    #[test]
    #[should_panic(expected = "not so after 20ms: pigs fly")]
    fn waiting_ends_with_the_reason() {
        wait_until(Duration::from_millis(20), "pigs fly", || false);
    }
}
