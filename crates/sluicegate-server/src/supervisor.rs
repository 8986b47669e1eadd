//! Notifies a supervisor such as systemd that the process is ready, reloading or stopping.
//!
//! The protocol (`sd_notify`) is one datagram of `NAME=value` lines to the socket in the variable
//! `NOTIFY_SOCKET`. Without that variable nothing is sent.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use rustix::time::{ClockId, clock_gettime};

/// All sockets are open. Sends the process id too, because this process may have replaced another.
pub(crate) fn ready() {
    notify(&format!(
        "READY=1\nMAINPID={}\nSTATUS=listening\n",
        std::process::id()
    ));
}

/// A reload begins; it ends with [`reloaded`].
pub(crate) fn reloading() {
    let now = clock_gettime(ClockId::Monotonic);
    let now_us = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
    notify(&format!(
        "RELOADING=1\nMONOTONIC_USEC={now_us}\nSTATUS=reading the configuration\n"
    ));
}

/// A reload has ended, with the new configuration in force or the old one.
pub(crate) fn reloaded(is_refused: bool) {
    let status = if is_refused {
        "listening; the configuration was refused, see the log"
    } else {
        "listening"
    };
    notify(&format!("READY=1\nSTATUS={status}\n"));
}

/// The process accepts nothing new and answers the requests in progress.
pub(crate) fn stopping() {
    notify("STOPPING=1\nSTATUS=answering what is under way\n");
}

/// Sends a message if there is a supervisor. A failure is logged: it must not stop the service.
fn notify(message: &str) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    if let Err(error) = send(socket.as_bytes(), message) {
        tracing::warn!("cannot notify the supervisor, see NOTIFY_SOCKET: {error}");
    }
}

/// A name that begins with `@` is in the abstract namespace of Linux and not a file.
fn send(socket: &[u8], message: &str) -> io::Result<()> {
    let address = match socket.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(socket))?,
    };
    let datagram = UnixDatagram::unbound()?;
    // A supervisor that does not read must not block this process.
    datagram.set_nonblocking(true)?;
    datagram
        .send_to_addr(message.as_bytes(), &address)
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_files_or_names() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let name = format!("sluicegate-test-{}", std::process::id());
        let file = UnixDatagram::bind(&path).unwrap();
        let abstract_name =
            UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        for (socket, address) in [
            (file, path.as_os_str().as_bytes().to_vec()),
            (abstract_name, format!("@{name}").into_bytes()),
        ] {
            send(&address, "READY=1\n").unwrap();
            let mut received = [0; 64];
            let length = socket.recv(&mut received).unwrap();
            assert_eq!(&received[..length], b"READY=1\n");
        }
    }

    #[test]
    fn nobody_there_is_an_error_and_not_a_wait() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        assert!(send(path.as_os_str().as_bytes(), "READY=1\n").is_err());
        let _unread = UnixDatagram::bind(&path).unwrap();
        let sent = (0..100_000)
            .take_while(|_| send(path.as_os_str().as_bytes(), "READY=1\n").is_ok())
            .count();
        assert!(sent < 100_000, "a full socket refuses");
    }
}
