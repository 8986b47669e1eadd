//! The memory that a connection keeps which was answered once and waits for its next request.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::StatusCode;
use http_body_util::Full;
use sluicegate_config::Bounds;
use sluicegate_net::{
    ClientConnections, Connection, ConnectionSettings, CoreSettings, Cores, Endpoint, Handler,
    HttpResponse, HttpServer, HttpTimeouts, IncomingRequest, InheritedSockets, TimeoutPolicy,
};
use tokio::sync::watch;

/// The system's allocator, with a count of the bytes that are in use.
struct CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

static IN_USE: AtomicUsize = AtomicUsize::new(0);

/// The bytes that the allocator of the program takes for a block: it has eight sizes between two
/// powers of two, or four, and a block whose place must be a multiple of something is as large as
/// the next power of two.
fn taken(layout: Layout) -> usize {
    let size = layout.size().max(16);
    if layout.align() > 16 {
        return size.next_power_of_two();
    }
    let step = (size.next_power_of_two() / 8).max(16);
    size.next_multiple_of(step)
}

// SAFETY: every call goes to the system's allocator unchanged; counting changes a number.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(taken(layout), Relaxed);
        // SAFETY: the caller's promises are the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(taken(layout), Relaxed);
        // SAFETY: the caller's promises are the system allocator's.
        unsafe { System.dealloc(block, layout) }
    }
}

/// Greets whoever asks.
struct Greeter;

impl Handler for Greeter {
    type Body = Full<Bytes>;

    async fn handle(
        _: &Arc<Connection<Self>>,
        _: &mut IncomingRequest,
    ) -> HttpResponse<Full<Bytes>> {
        HttpResponse::plain_text(StatusCode::OK, "hello").map(Full::new)
    }
}

fn settings() -> ConnectionSettings {
    ConnectionSettings {
        timeouts: TimeoutPolicy::new(&HttpTimeouts {
            header: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            unread: Duration::from_secs(60),
            unread_bytes_min: 1,
        }),
        bounds: Bounds {
            header_bytes: 16 * 1024,
            headers: 64,
            target_bytes: 8 * 1024,
            body_bytes: None,
        },
        buffered_bytes_max: ConnectionSettings::BUFFERED_BYTES_MAX,
        tls: None,
    }
}

/// Starts a thread that greets, and counts its clients as the proxy does.
fn start(ending: &watch::Receiver<bool>) -> Cores {
    let server = Arc::new(HttpServer {
        counters: Arc::default(),
        proxy_protocol_from: Vec::new(),
        named_clients: None,
        ending: ending.clone(),
    });
    let core_settings = CoreSettings {
        counters: Arc::clone(&server.counters),
        ending: ending.clone(),
        drain: Duration::ZERO,
    };
    let clients = Arc::<ClientConnections>::default();
    let address = "127.0.0.1:0".parse().unwrap();
    let serve =
        move |stream, peer| Arc::clone(&server).serve(Arc::new(Greeter), settings(), stream, peer);
    let endpoint = Endpoint::new("test", vec![address], 10_000, serve)
        .admitting(Arc::new(move |peer| clients.take(peer, 10_000)));
    Cores::start(
        1,
        vec![endpoint],
        &core_settings,
        &mut InheritedSockets::default(),
    )
    .unwrap()
}

fn connect_and_ask(cores: &Cores) -> TcpStream {
    let mut client = TcpStream::connect(cores.addresses("test")[0]).unwrap();
    client
        .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        .unwrap();
    let mut bytes = [0; 1024];
    let mut length = 0;
    while !bytes[..length].ends_with(b"hello") {
        let more = client.read(&mut bytes[length..]).unwrap();
        assert!(more > 0, "closed");
        length += more;
    }
    client
}

/// Bytes in use once they stay as they are.
fn settled() -> usize {
    let began = Instant::now();
    let mut least = IN_USE.load(Relaxed);
    let mut since = began;
    while since.elapsed() < Duration::from_millis(400) {
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "it never settles"
        );
        // bounded wait: the loop ends after twenty seconds
        thread::sleep(Duration::from_millis(10));
        let now = IN_USE.load(Relaxed);
        if now != least {
            (least, since) = (now, Instant::now());
        }
    }
    least
}

#[test]
fn a_connection_that_rests_keeps_little_memory() {
    const COUNT: usize = 400;
    let (end, ending) = watch::channel(false);
    let cores = start(&ending);
    let few: Vec<TcpStream> = (0..8).map(|_| connect_and_ask(&cores)).collect();
    let before = settled();
    let many: Vec<TcpStream> = (0..COUNT).map(|_| connect_and_ask(&cores)).collect();
    let each = (settled() - before) / COUNT;
    // A quarter of it is the runtime's record of the socket.
    assert!(each <= 1_152, "{each} bytes");
    drop((few, many));
    end.send_replace(true);
    cores.join();
}
