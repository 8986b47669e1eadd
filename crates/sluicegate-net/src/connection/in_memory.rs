//! A connection of HTTP/2 over any stream of bytes, for the targets in `fuzz/`: the bytes of a
//! target need no socket.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;

use super::{ConnectionSettings, HttpServer, serve_http2};
use crate::activity::Activity;
use crate::client_io::ClientIo;
use crate::handler::{Connection, Handler};
use crate::timeouts::TimeoutCheck;
use crate::transport::Transport;

impl HttpServer {
    /// Serves HTTP/2 over a stream whose preface was not read yet; `settings.tls` has no meaning.
    #[doc(hidden)]
    pub async fn serve_http2<H: Handler>(
        self: Arc<Self>,
        handler: Arc<H>,
        settings: ConnectionSettings,
        transport: Transport,
        peer: SocketAddr,
    ) {
        let activity = Arc::new(Activity::new());
        let check = TimeoutCheck::new(settings.timeouts);
        let connection = Arc::new(Connection {
            handler,
            peer,
            is_tls: false,
            server_name: None,
            is_http2: true,
            bounds: settings.bounds,
            activity: Arc::clone(&activity),
        });
        let io = ClientIo::new(Bytes::new(), transport, Arc::clone(&activity), true);
        let mut supervisor = self.supervisor(activity, check).await;
        serve_http2(&mut supervisor, Box::new(io), connection).await;
    }
}
