//! The built-in upstream: returns the request that it received as text, so that a configuration can
//! be tried before there is a service.

use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt, Full};
use sluicegate_config::Bounds;
use sluicegate_net::{
    Connection, ConnectionSettings, Handler, HttpResponse, HttpServer, HttpTimeouts,
    IncomingRequest, TimeoutPolicy, Transport,
};
use tokio::sync::watch;

/// Starts it on a free port of the loopback, for as long as the process lives, and returns the
/// port.
pub(crate) fn start() -> Result<u16, String> {
    let mistake = |error: std::io::Error| format!("the built-in upstream cannot start: {error}");
    let socket = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).map_err(mistake)?;
    socket.set_nonblocking(true).map_err(mistake)?;
    let port = socket.local_addr().map_err(mistake)?.port();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(mistake)?;
    thread::Builder::new()
        .name("echo".to_owned())
        .spawn(move || runtime.block_on(serve(socket)))
        .map_err(mistake)?;
    Ok(port)
}

async fn serve(socket: TcpListener) {
    let Ok(socket) = tokio::net::TcpListener::from_std(socket) else {
        return;
    };
    // It ends with the process, without a word to its connections.
    let (_never, ending) = watch::channel(false);
    let server = Arc::new(HttpServer {
        counters: Arc::default(),
        proxy_protocol_from: Vec::new(),
        named_clients: None,
        ending,
    });
    let (handler, settings) = (Arc::new(Echo), settings());
    loop {
        if let Ok((stream, peer)) = socket.accept().await {
            let (server, handler) = (Arc::clone(&server), Arc::clone(&handler));
            let transport = Transport::Plain(stream);
            tokio::spawn(server.serve_http1(handler, settings.clone(), transport, peer));
        }
    }
}

/// Its only client is the proxy of this process, which has timeouts and bounds of its own.
fn settings() -> ConnectionSettings {
    const DAY: Duration = Duration::from_secs(24 * 3_600);
    let timeouts = HttpTimeouts {
        header: DAY,
        idle: DAY,
        unread: DAY,
        unread_bytes_min: 1,
    };
    ConnectionSettings {
        timeouts: TimeoutPolicy::new(&timeouts),
        bounds: Bounds {
            header_bytes: 512 * 1024,
            headers: 127,
            target_bytes: 64 * 1024,
            body_bytes: None,
        },
        buffered_bytes_max: ConnectionSettings::BUFFERED_BYTES_MAX,
        tls: None,
    }
}

struct Echo;

impl Handler for Echo {
    type Body = Full<Bytes>;

    /// Writes the request's line, its headers and the length of its body.
    async fn handle(
        _: &Arc<Connection<Self>>,
        request: &mut IncomingRequest,
    ) -> HttpResponse<Full<Bytes>> {
        let IncomingRequest { parts, end, body } = request;
        let mut words = format!("{} {} {:?}\n", parts.method, parts.uri, parts.version);
        for (name, value) in &parts.headers {
            let value = String::from_utf8_lossy(value.as_bytes());
            let _ = writeln!(words, "{name}: {value}");
        }
        let mut length = 0;
        while let Some(Ok(frame)) = body.frame().await {
            length += frame.data_ref().map_or(0, Bytes::len);
        }
        let _ = writeln!(words, "\n{length} bytes of body");
        let mut response = HttpResponse::plain_text(StatusCode::OK, words);
        response.closes = end.is_err();
        response.map(Full::new)
    }
}
