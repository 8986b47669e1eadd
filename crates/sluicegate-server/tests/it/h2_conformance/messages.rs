//! Requests in HTTP/2: fields, pseudo-fields, trailers, lengths (RFC 9113, section 8).

use sluicegate_testkit::h2_frames::{DATA, END_STREAM, field, frame, get_fields, post_fields};

use super::driver::{Case, Expect, PROTOCOL, case, headers, post};

pub fn cases() -> Vec<Case> {
    let mut cases = fields();
    cases.extend(pseudo_fields());
    cases.extend(extended_connect());
    cases.extend(trailers());
    cases.extend(lengths());
    cases
}

/// A GET with one field more.
fn with(name: &'static str, value: impl AsRef<[u8]>) -> Vec<u8> {
    let block = [get_fields("/"), field(name, value)].concat();
    headers(1, END_STREAM, &block)
}

fn fields() -> Vec<Case> {
    let refused = |name, send| case(name, send, Expect::Refused(1));
    vec![
        refused("a name in capitals", with("X-Upper", "y")),
        refused("a name with one capital", with("x-Upper", "y")),
        refused("a name with a blank", with("x y", "z")),
        refused("a name with a colon", with("x:", "y")),
        refused("a name with a line break", with("x\n", "y")),
        refused("a name with a null", with("x\0", "y")),
        refused("a name that is empty", with("", "y")),
        refused("a value with a null", with("x", b"a\0b")),
        refused("a value with a carriage return", with("x", b"a\rb")),
        refused("a value with a line break", with("x", b"a\nb")),
        refused("a value that begins with a blank", with("x", " a")),
        refused("a value that ends with a blank", with("x", "a ")),
        refused("a value that begins with a tab", with("x", "\ta")),
        refused("a value that ends with a tab", with("x", "a\t")),
        refused("Connection", with("connection", "keep-alive")),
        refused("Proxy-Connection", with("proxy-connection", "keep-alive")),
        refused("Keep-Alive", with("keep-alive", "timeout=5")),
        refused("Transfer-Encoding", with("transfer-encoding", "chunked")),
        refused("Upgrade", with("upgrade", "h2c")),
        refused("TE with anything but trailers", with("te", "gzip")),
        refused("TE with trailers and more", with("te", "trailers, deflate")),
        case(
            "TE with trailers",
            with("te", "trailers"),
            Expect::Status(1, 200),
        ),
        case(
            "a value with a tab inside",
            with("x", "a\tb"),
            Expect::Status(1, 200),
        ),
        case(
            "a value that is empty",
            with("x", ""),
            Expect::Status(1, 200),
        ),
        case(
            "a value with bytes beyond ASCII",
            with("x", b"\xc3\xa9"),
            Expect::Status(1, 200),
        ),
    ]
}

fn pseudo_fields() -> Vec<Case> {
    let pseudo = |pairs: &[(&str, &str)]| {
        let block: Vec<u8> = pairs
            .iter()
            .flat_map(|(name, value)| field(name, value))
            .collect();
        headers(1, END_STREAM, &block)
    };
    let (method, scheme) = ((":method", "GET"), (":scheme", "http"));
    let (path, authority) = ((":path", "/"), (":authority", "a.example"));
    let refused = |name, pairs: &[(&str, &str)]| case(name, pseudo(pairs), Expect::Refused(1));
    vec![
        case(
            "the four pseudo-fields in any order",
            pseudo(&[authority, path, scheme, method]),
            Expect::Status(1, 200),
        ),
        case(
            "Host in place of :authority",
            pseudo(&[method, scheme, path, ("host", "a.example")]),
            Expect::Status(1, 200),
        ),
        refused("no :method", &[scheme, path, authority]),
        refused("no :scheme", &[method, path, authority]),
        refused("no :path", &[method, scheme, authority]),
        refused("no host at all", &[method, scheme, path]),
        refused(":method twice", &[method, method, scheme, path, authority]),
        refused(":scheme twice", &[method, scheme, scheme, path, authority]),
        refused(":path twice", &[method, scheme, path, path, authority]),
        refused(
            ":authority twice",
            &[method, scheme, path, authority, authority],
        ),
        refused(
            "an empty :path",
            &[method, scheme, (":path", ""), authority],
        ),
        refused(
            "a :path without a slash",
            &[method, scheme, (":path", "x"), authority],
        ),
        refused(
            "an empty :method",
            &[(":method", ""), scheme, path, authority],
        ),
        refused(
            "a pseudo-field behind a field",
            &[method, scheme, ("x", "y"), path, authority],
        ),
        refused(
            "a pseudo-field of responses",
            &[method, scheme, path, authority, (":status", "200")],
        ),
        refused(
            "an unknown pseudo-field",
            &[method, scheme, path, authority, (":test", "x")],
        ),
        refused(
            ":protocol without CONNECT",
            &[method, scheme, path, authority, (":protocol", "websocket")],
        ),
        refused(
            "CONNECT with :path",
            &[(":method", "CONNECT"), scheme, path, authority],
        ),
        refused("CONNECT without :authority", &[(":method", "CONNECT")]),
        refused(
            "another Host than :authority",
            &[method, scheme, path, authority, ("host", "b.example")],
        ),
        refused(
            "a user in :authority",
            &[method, scheme, path, (":authority", "u@a.example")],
        ),
        refused(
            "a :path with a fragment and a null",
            &[method, scheme, (":path", "/\0"), authority],
        ),
    ]
}

/// Streams that change their protocol (RFC 8441). The server behind agrees to none.
fn extended_connect() -> Vec<Case> {
    let block = |pairs: &[(&str, &str)]| -> Vec<u8> {
        let fields = pairs.iter().map(|(name, value)| field(name, value));
        fields.flatten().collect()
    };
    let (method, protocol) = ((":method", "CONNECT"), (":protocol", "websocket"));
    let (scheme, path) = ((":scheme", "http"), (":path", "/"));
    let authority = (":authority", "a.example");
    let all = [method, protocol, scheme, path, authority];
    let with = |more: &[(&str, &str)]| headers(1, 0, &block(&[&all[..], more].concat()));
    let refused =
        |name, pairs: &[(&str, &str)]| case(name, headers(1, 0, &block(pairs)), Expect::Refused(1));
    let status = |name, send, status| case(name, send, Expect::Status(1, status));
    let other = |name: &'static str| {
        let fields = [method, (":protocol", name), scheme, path, authority];
        headers(1, 0, &block(&fields))
    };
    vec![
        status("a WebSocket that the server refuses", with(&[]), 502),
        status("another protocol", other("connect-udp"), 501),
        status("HTTP in HTTP", other("h2c"), 501),
        status("a protocol without a name", other(""), 501),
        status(
            "a WebSocket with a length",
            with(&[("content-length", "5")]),
            400,
        ),
        status(
            "a WebSocket with another Host",
            with(&[("host", "b.example")]),
            400,
        ),
        refused(
            "a WebSocket without a scheme",
            &[method, protocol, path, authority],
        ),
        refused(
            "a WebSocket without a path",
            &[method, protocol, scheme, authority],
        ),
        refused(
            "a WebSocket without an authority",
            &[method, protocol, scheme, path, ("host", "a.example")],
        ),
        refused(
            "a WebSocket that is asked for with GET",
            &[(":method", "GET"), protocol, scheme, path, authority],
        ),
        refused(
            "a WebSocket without a method",
            &[protocol, scheme, path, authority],
        ),
        refused(
            "a :protocol behind a field",
            &[method, scheme, path, authority, ("x", "y"), protocol],
        ),
        case("a :protocol twice", with(&[protocol]), Expect::Refused(1)),
        case(
            "a WebSocket with Upgrade",
            with(&[("upgrade", "websocket")]),
            Expect::Refused(1),
        ),
        case(
            "a WebSocket with Connection",
            with(&[("connection", "upgrade")]),
            Expect::Refused(1),
        ),
    ]
}

fn trailers() -> Vec<Case> {
    let body = || [post(1), frame(DATA, 0, 1, b"abc")].concat();
    let then = |flags, block: &[u8]| [body(), headers(1, flags, block)].concat();
    vec![
        case(
            "trailers",
            then(END_STREAM, &field("x-sum", "3")),
            Expect::Status(1, 200),
        ),
        case(
            "trailers that do not end the stream",
            then(0, &field("x-sum", "3")),
            Expect::Refused(1),
        ),
        case(
            "a pseudo-field in trailers",
            then(END_STREAM, &field(":path", "/x")),
            Expect::StreamError(1, &[PROTOCOL]),
        ),
        case(
            ":status in trailers",
            then(END_STREAM, &field(":status", "200")),
            Expect::StreamError(1, &[PROTOCOL]),
        ),
        case(
            "a name in capitals in trailers",
            then(END_STREAM, &field("X-Sum", "3")),
            Expect::Refused(1),
        ),
        case(
            "Connection in trailers",
            then(END_STREAM, &field("connection", "close")),
            Expect::Refused(1),
        ),
        case(
            "a second header at once",
            [post(1), headers(1, 0, &post_fields("/"))].concat(),
            Expect::Refused(1),
        ),
    ]
}

fn lengths() -> Vec<Case> {
    let announced = |length: &str, flags| {
        let block = [post_fields("/"), field("content-length", length)].concat();
        headers(1, flags, &block)
    };
    let data = |bytes: &[u8], flags| frame(DATA, flags, 1, bytes);
    vec![
        case(
            "a body of the announced length",
            [announced("3", 0), data(b"abc", END_STREAM)].concat(),
            Expect::Status(1, 200),
        ),
        case(
            "a body of the announced length in pieces",
            [announced("3", 0), data(b"a", 0), data(b"bc", END_STREAM)].concat(),
            Expect::Status(1, 200),
        ),
        case(
            "a body shorter than announced",
            [announced("4", 0), data(b"abc", END_STREAM)].concat(),
            Expect::Refused(1),
        ),
        case(
            "a body longer than announced",
            [announced("2", 0), data(b"abc", END_STREAM)].concat(),
            Expect::Refused(1),
        ),
        case(
            "a body longer than announced in pieces",
            [announced("2", 0), data(b"a", 0), data(b"bc", END_STREAM)].concat(),
            Expect::Refused(1),
        ),
        case(
            "a length without a body",
            announced("3", END_STREAM),
            Expect::Refused(1),
        ),
        case(
            "a length of nothing and a body",
            [announced("0", 0), data(b"a", END_STREAM)].concat(),
            Expect::Refused(1),
        ),
        case(
            "a length that is no number",
            [announced("+3", 0), data(b"abc", END_STREAM)].concat(),
            Expect::Refused(1),
        ),
        case(
            "an empty body",
            [post(1), data(&[], END_STREAM)].concat(),
            Expect::Status(1, 200),
        ),
        case(
            "empty pieces of a body",
            [post(1), data(&[], 0), data(b"a", 0), data(&[], END_STREAM)].concat(),
            Expect::Status(1, 200),
        ),
    ]
}
