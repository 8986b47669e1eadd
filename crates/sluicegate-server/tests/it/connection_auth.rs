//! NTLM and Negotiate authenticate a connection: one on which they were spoken serves one client.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

use sluicegate_testkit::raw_socket::{
    connect, read_head, read_response, serve_connections_in_parallel,
};
use sluicegate_testkit::{HttpRequest, HttpResponse, TcpState, count_sockets, eventually};

use super::edge::Edge;

/// A server whose responses say on which connection they were sent, with this status and line.
fn numbered_server(status: u16, line: &'static str) -> SocketAddr {
    let next = Arc::new(AtomicUsize::new(1));
    serve_connections_in_parallel(move |mut stream| {
        let number = next.fetch_add(1, SeqCst).to_string();
        while read_head(&mut stream).is_some() {
            let length = number.len();
            let response = format!(
                "HTTP/1.1 {status} Any\r\nContent-Length: {length}\r\n{line}\r\n\r\n{number}"
            );
            if stream.write_all(response.as_bytes()).is_err() {
                return;
            }
        }
    })
}

/// A client that keeps its connection.
struct Client(TcpStream);

impl Client {
    fn new(edge: &Edge) -> Self {
        Self(connect(edge.address))
    }

    fn get(&mut self, lines: &[&str]) -> HttpResponse {
        let request = HttpRequest::get("/").headers(lines).keep_open();
        self.0.write_all(&request.to_http1()).unwrap();
        read_response(&mut self.0)
    }

    /// The connection to the server that a request goes over.
    fn number(&mut self, lines: &[&str]) -> String {
        self.get(lines).body().to_owned()
    }
}

/// Challenges of servers, in the ways in which they are written.
const CHALLENGES: [(u16, &str); 16] = [
    (401, "WWW-Authenticate: NTLM"),
    (401, "WWW-Authenticate: Negotiate"),
    (401, "www-authenticate: ntlm"),
    (401, "WWW-AUTHENTICATE: nEGOTIATE"),
    (401, "WWW-Authenticate: NTLM TlRMTVNTUAACAAAADAAMADgAAAA="),
    (401, "WWW-Authenticate: Negotiate oYG2MIGzoAMKAQCiCw=="),
    (401, "WWW-Authenticate: Negotiate, NTLM"),
    (401, "WWW-Authenticate: Basic realm=\"a\", NTLM"),
    (
        401,
        "WWW-Authenticate: Basic realm=\"a\"\r\nWWW-Authenticate: NTLM",
    ),
    (
        401,
        "WWW-Authenticate: Digest realm=\"x, y\", nonce=\"1\" ,\tNegotiate",
    ),
    (401, "WWW-Authenticate:NTLM"),
    (200, "WWW-Authenticate: Negotiate oYG2MIGzoAMKAQCiCw=="),
    (403, "WWW-Authenticate: NTLM"),
    (407, "Proxy-Authenticate: NTLM"),
    (407, "Proxy-Authenticate: Kerberos"),
    (200, "Persistent-Auth: true"),
];

#[test]
fn a_connection_whose_server_asks_for_ntlm_or_negotiate_serves_one_client() {
    for (status, line) in CHALLENGES {
        let edge = Edge::start(numbered_server(status, line), Vec::new());
        let (mut ann, mut bob) = (Client::new(&edge), Client::new(&edge));
        let first = ann.number(&[]);
        let other = bob.number(&[]);
        assert_ne!(first, other, "{line}: another client uses it");
        assert_eq!(ann.number(&[]), first, "{line}: the client lost it");
        assert_eq!(bob.number(&[]), other, "{line}: the client lost it");
    }
}

#[test]
fn a_connection_whose_client_speaks_ntlm_or_negotiate_serves_one_client() {
    for line in [
        "Authorization: NTLM TlRMTVNTUAABAAAA",
        "Authorization: Negotiate YIIGhgYGKwYBBQUC",
        "authorization: ntlm TlRMTVNTUAABAAAA",
        "AUTHORIZATION: NEGOTIATE YIIGhgYGKwYBBQUC",
        "Authorization: Kerberos x",
        "Proxy-Authorization: NTLM TlRMTVNTUAABAAAA",
    ] {
        let edge = Edge::start(numbered_server(200, "X-Any: NTLM"), Vec::new());
        // The connection was shared before.
        let (mut ann, mut bob) = (Client::new(&edge), Client::new(&edge));
        assert_eq!((ann.number(&[]), bob.number(&[])), ("1".into(), "1".into()));
        assert_eq!(ann.number(&[line]), "1", "{line}");
        assert_eq!(bob.number(&[]), "2", "{line}: another client uses it");
        assert_eq!(ann.number(&[]), "1", "{line}: the client lost it");
        drop(ann);
        let mut carol = Client::new(&edge);
        assert_eq!(carol.number(&[]), "2", "{line}: it outlived its client");
    }
}

#[test]
fn other_schemes_leave_a_connection_shared() {
    for (status, line) in [
        (401, "WWW-Authenticate: Basic realm=\"here\""),
        (401, "WWW-Authenticate: Bearer"),
        (401, "X-Authenticate: NTLM"),
    ] {
        let edge = Edge::start(numbered_server(status, line), Vec::new());
        let (mut ann, mut bob) = (Client::new(&edge), Client::new(&edge));
        let lines = ["Authorization: Basic bnRsbQ=="];
        assert_eq!(ann.number(&lines), "1");
        assert_eq!(bob.number(&[]), "1", "{line}");
    }
}

/// Requests of an HTTP/2 client run side by side, so such authentication cannot work there.
#[test]
fn over_http2_such_a_connection_serves_one_request() {
    let server = numbered_server(200, "X-Any: 1");
    let edge = Edge::start(server, Vec::new());
    let get = |lines: &[&str]| {
        let request = HttpRequest::get("/").headers(lines);
        request.send_http2(edge.address).body().to_owned()
    };
    assert_eq!((get(&[]), get(&[])), ("1".into(), "1".into()));
    assert_eq!(get(&["authorization: Negotiate YIIGhg"]), "1");
    assert_eq!(get(&[]), "2");
}

/// The server knows who a connection belongs to after three messages, and asks no more.
fn ntlm_server() -> SocketAddr {
    serve_connections_in_parallel(|mut stream| {
        let mut user: Option<String> = None;
        let mut is_challenged = false;
        while let Some(head) = read_head(&mut stream) {
            let message = head
                .lines()
                .find_map(|line| line.strip_prefix("authorization: NTLM "));
            let (status, line, body) = match (message, &user) {
                (Some("hello"), _) => {
                    is_challenged = true;
                    (401, "WWW-Authenticate: NTLM challenge", "no".to_owned())
                }
                (Some(name), _) if is_challenged => {
                    user = Some(name.to_owned());
                    (200, "X-Any: 1", name.to_owned())
                }
                (None, Some(name)) => (200, "X-Any: 1", name.clone()),
                _ => (401, "WWW-Authenticate: NTLM", "no".to_owned()),
            };
            let length = body.len();
            let response = format!(
                "HTTP/1.1 {status} Any\r\nContent-Length: {length}\r\n{line}\r\n\r\n{body}"
            );
            if stream.write_all(response.as_bytes()).is_err() {
                return;
            }
        }
    })
}

#[test]
fn two_users_sign_in_through_the_proxy_and_stay_who_they_are() {
    let server = ntlm_server();
    let edge = Edge::start(server, Vec::new());
    let mut stranger = Client::new(&edge);
    let mut clients = ["ann", "bob"].map(|name| (name, Client::new(&edge)));
    for (name, client) in &mut clients {
        assert_eq!(client.get(&[]).status(), 401);
        assert_eq!(client.get(&["Authorization: NTLM hello"]).status(), 401);
        let signed_in = client.get(&[&format!("Authorization: NTLM {name}")]);
        assert_eq!((signed_in.status(), signed_in.body()), (200, *name));
    }
    for _ in 0..5 {
        for (name, client) in &mut clients {
            let response = client.get(&[]);
            assert_eq!((response.status(), response.body()), (200, *name));
        }
        assert_eq!(stranger.get(&[]).status(), 401);
        assert_eq!(Client::new(&edge).get(&[]).status(), 401);
    }
    drop((clients, stranger));
    eventually("the connections end with their clients", || {
        count_sockets(server, TcpState::Established) == 0
    });
}
