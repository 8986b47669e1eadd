//! The built-in upstream: responds with the request that it received, so that a configuration can
//! be tried before there is a real server.

use std::convert::Infallible;
use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::thread;

use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;

/// Starts it on a free port of the loopback interface and returns the port. It runs on a thread of
/// its own as long as the process lives.
pub(crate) fn start() -> Result<u16, String> {
    let mistake = |error: std::io::Error| format!("the built-in upstream cannot start: {error}");
    let socket = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).map_err(mistake)?;
    socket.set_nonblocking(true).map_err(mistake)?;
    let port = socket.local_addr().map_err(mistake)?.port();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(mistake)?;
    let serve = move || {
        runtime.block_on(async move {
            let Ok(socket) = tokio::net::TcpListener::from_std(socket) else {
                return;
            };
            loop {
                if let Ok((stream, _)) = socket.accept().await {
                    tokio::spawn(
                        http1::Builder::new()
                            .serve_connection(TokioIo::new(stream), service_fn(respond)),
                    );
                }
            }
        });
    };
    thread::Builder::new()
        .name("echo".to_owned())
        .spawn(serve)
        .map_err(mistake)?;
    Ok(port)
}

/// Responds with the request line, the headers and the length of the body.
async fn respond(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, mut body) = request.into_parts();
    let mut text = format!("{} {} {:?}\n", parts.method, parts.uri, parts.version);
    for (name, value) in &parts.headers {
        let _ = writeln!(
            text,
            "{name}: {}",
            String::from_utf8_lossy(value.as_bytes())
        );
    }
    let mut length = 0;
    while let Some(Ok(frame)) = body.frame().await {
        length += frame.data_ref().map_or(0, Bytes::len);
    }
    let _ = writeln!(text, "\n{length} bytes of body");
    let mut response = Response::new(Full::from(text));
    let content_type = HeaderValue::from_static("text/plain; charset=utf-8");
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, content_type);
    Ok(response)
}
