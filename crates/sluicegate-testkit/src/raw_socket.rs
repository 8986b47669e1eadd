//! TCP sockets for tests that choose every byte: clients, and servers that misbehave on purpose.
//!
//! Every socket has a timeout of [`STEP_TIMEOUT`] in both directions, so that a program that hangs
//! fails its test instead of holding it up. For well-formed requests use
//! [`HttpRequest`](crate::http_client::HttpRequest); for HTTP/2 frames, [`h2_frames`](crate::h2_frames).

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;

use socket2::{Domain, Socket, Type};

use crate::http_response::HttpResponse;
use crate::{STEP_TIMEOUT, free_port};

/// Opens a connection that sends small writes at once.
///
/// # Panics
/// If nobody listens at `address`.
pub fn connect(address: SocketAddr) -> TcpStream {
    try_connect(address).unwrap_or_else(|error| panic!("no connection to {address}: {error}"))
}

/// The same where it may be that nobody listens.
pub fn try_connect(address: SocketAddr) -> io::Result<TcpStream> {
    TcpStream::connect(address).map(with_timeouts)
}

/// Opens a connection from a local address such as 127.0.0.2; the system chooses the port.
pub fn connect_from(source: IpAddr, address: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((source, 0)).into())?;
    socket.connect(&address.into())?;
    Ok(with_timeouts(TcpStream::from(socket)))
}

/// Sets the timeouts of this module, and sends small writes at once.
pub(crate) fn with_timeouts(stream: TcpStream) -> TcpStream {
    let set = stream
        .set_read_timeout(Some(STEP_TIMEOUT))
        .and_then(|()| stream.set_write_timeout(Some(STEP_TIMEOUT)))
        .and_then(|()| stream.set_nodelay(true));
    set.expect("timeouts of an open socket can be set");
    stream
}

/// Sends `request` on a new connection and reads until the peer closes it.
///
/// The request should ask the peer to close, or be one after which it does.
///
/// ```
/// use sluicegate_testkit::{UpstreamRecorder, raw_socket};
///
/// let upstream = UpstreamRecorder::start();
/// let request = b"GET /a HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
/// assert_eq!(raw_socket::exchange(upstream.address, request).status(), 200);
/// ```
pub fn exchange(address: SocketAddr, request: &[u8]) -> HttpResponse {
    exchange_on(connect(address), request)
}

/// Sends `request` on this connection and reads until the peer closes it.
pub fn exchange_on(mut stream: TcpStream, request: &[u8]) -> HttpResponse {
    // A peer that refuses early may have closed the connection already.
    let _ = stream.write_all(request);
    read_to_end(stream)
}

/// Reads until the peer closes the connection; a reset counts as an end too.
///
/// # Panics
/// If the connection is still open after [`STEP_TIMEOUT`] of silence.
pub fn read_to_end(mut stream: TcpStream) -> HttpResponse {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Err(error) if is_timeout(&error) => panic!(
            "the connection did not end: {error}, after {:?}",
            String::from_utf8_lossy(&bytes)
        ),
        Ok(_) | Err(_) => HttpResponse::from_bytes(bytes),
    }
}

/// Reads one response from a connection that stays open: its head and a body with a length.
/// Empty if the peer closes before the first byte.
///
/// # Panics
/// If the response is cut off or does not come in time.
pub fn read_response(stream: &mut TcpStream) -> HttpResponse {
    let Some(head) = read_head(stream) else {
        return HttpResponse::default();
    };
    let mut bytes = head.into_bytes();
    let length = HttpResponse::from_bytes(bytes.clone())
        .header("content-length")
        .map_or(0, |length| length.parse().expect("a length is a number"));
    let start = bytes.len();
    bytes.resize(start + length, 0);
    stream
        .read_exact(&mut bytes[start..])
        .unwrap_or_else(|error| panic!("the body of a response broke off: {error}"));
    HttpResponse::from_bytes(bytes)
}

/// Reads the head of a request or response, up to and including its empty line, and no byte more.
/// `None` if the peer closes before the head is complete.
///
/// # Panics
/// If the peer is silent for [`STEP_TIMEOUT`].
pub fn read_head(stream: &mut TcpStream) -> Option<String> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(0) => return None,
            Ok(_) => head.push(byte[0]),
            Err(error) if is_timeout(&error) => {
                panic!("no head within {STEP_TIMEOUT:?}: {error}")
            }
            Err(_) => return None,
        }
    }
    String::from_utf8(head).ok()
}

/// Starts a server that hands its connections to `serve`, one after the other, with their number.
/// It runs until the process ends.
///
/// ```
/// use std::io::Write;
/// use sluicegate_testkit::raw_socket;
///
/// let address = raw_socket::serve_connections(|_, mut stream| {
///     raw_socket::read_head(&mut stream);
///     let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncut off");
/// });
/// let response = raw_socket::exchange(address, b"GET / HTTP/1.1\r\n\r\n");
/// assert_eq!(response.body(), "cut off");
/// ```
pub fn serve_connections(mut serve: impl FnMut(usize, TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    // As many as the system allows may wait to be accepted: the standard library has 128, and a client
    // that finds no room tries again after a second.
    rustix::net::listen(&listener, i32::MAX).expect("it listens already");
    let address = listener.local_addr().expect("a listener has an address");
    thread::spawn(move || {
        for (number, stream) in listener.incoming().flatten().enumerate() {
            serve(number, with_timeouts(stream));
        }
    });
    address
}

/// The same with a thread for each connection, for servers that hold several at a time.
pub fn serve_connections_in_parallel(
    serve: impl Fn(TcpStream) + Clone + Send + 'static,
) -> SocketAddr {
    serve_connections(move |_, stream| {
        let serve = serve.clone();
        thread::spawn(move || serve(stream));
    })
}

/// An address of this machine at which nobody listens.
pub fn closed_address() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()))
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
