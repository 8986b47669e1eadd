//! Replacing this process by another one that inherits its listening sockets.
//!
//! The successor takes them with [`sluicegate_net::InheritedSockets`] and ends its predecessor
//! when it is ready.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command};

use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::process::{Pid, Signal, kill_process};

/// The variable that names the process to be replaced.
const REPLACES: &str = "SLUICEGATE_REPLACES";

/// Makes the system's table of this process's descriptors large, while there is one thread. With
/// several threads each growth waits for all processors, which takes seconds on a busy machine:
/// connections would wait for it, and so would the start of a successor.
pub(crate) fn reserve_descriptors() {
    // Beyond the limit of open files it fails, and the next number is tried.
    const LARGEST: [RawFd; 3] = [4_095, 1_023, 255];
    if let Ok(socket) = UnixDatagram::unbound() {
        let _ = LARGEST
            .iter()
            .find(|number| fcntl_dupfd_cloexec(&socket, **number).is_ok());
    }
}

/// Starts the program anew, with the same arguments and these sockets. It ends this process when it
/// is ready.
pub(crate) fn start_successor(program: &PathBuf, sockets: &[TcpListener]) -> io::Result<Child> {
    let passed = in_a_row(sockets)?;
    let first = passed.first().map_or(0, AsRawFd::as_raw_fd);
    Command::new(program)
        .args(std::env::args_os().skip(1))
        .env("LISTEN_FDS", passed.len().to_string())
        .env("LISTEN_FDS_FIRST_FD", first.to_string())
        .env_remove("LISTEN_PID")
        .env(REPLACES, std::process::id().to_string())
        .spawn()
    // The copies end here; the successor has its own.
}

/// Tells the process that this one replaces to end.
pub(crate) fn end_predecessor() {
    let parent = std::os::unix::process::parent_id();
    let is_parent = std::env::var(REPLACES).is_ok_and(|replaced| replaced == parent.to_string());
    if !is_parent {
        return;
    }
    let parent = i32::try_from(parent).ok().and_then(Pid::from_raw);
    if let Some(Err(error)) = parent.map(|parent| kill_process(parent, Signal::TERM)) {
        tracing::warn!("the process that this one replaces cannot be told: {error}");
    }
}

/// Copies whose numbers follow each other, and which a started program keeps.
fn in_a_row(sockets: &[TcpListener]) -> io::Result<Vec<OwnedFd>> {
    const STARTS: [RawFd; 4] = [64, 256, 600, 3_000];
    for start in STARTS {
        let copy = |(place, socket): (usize, &TcpListener)| {
            fcntl_dupfd_cloexec(socket.as_fd(), start + place as RawFd)
        };
        let copies: Vec<OwnedFd> = sockets
            .iter()
            .enumerate()
            .map(copy)
            .collect::<Result<_, _>>()?;
        let first = copies.first().map_or(0, AsRawFd::as_raw_fd);
        if copies
            .iter()
            .zip(first..)
            .all(|(copy, number)| copy.as_raw_fd() == number)
        {
            for copy in &copies {
                fcntl_setfd(copy, FdFlags::empty())?;
            }
            return Ok(copies);
        }
    }
    Err(io::Error::other("no descriptors in a row are free"))
}
