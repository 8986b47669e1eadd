//! Sends the frames of a case and reads what comes back.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use sluicegate_config::ServerTls;
use sluicegate_testkit::h2_frames::{
    DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PREFACE, RST_STREAM, SETTINGS, frame,
    get_fields,
};
use sluicegate_testkit::{TlsFiles, UpstreamRecorder, UpstreamResponse, raw_socket};

use crate::edge::Edge;

/// Error codes of RFC 9113, section 7.
pub const NO_ERROR: u32 = 0;
pub const PROTOCOL: u32 = 1;
pub const FLOW_CONTROL: u32 = 3;
pub const STREAM_CLOSED: u32 = 5;
pub const FRAME_SIZE: u32 = 6;
pub const REFUSED_STREAM: u32 = 7;
pub const COMPRESSION: u32 = 9;
pub const ENHANCE_YOUR_CALM: u32 = 11;

/// Type of frames with the priority of a stream.
pub const PRIORITY: u8 = 2;
/// Type of frames that no client may send.
pub const PUSH_PROMISE: u8 = 5;
/// Flag of an acknowledgement.
pub const ACK: u8 = 1;
/// Flag of a frame with padding.
pub const PADDED: u8 = 8;
/// Flag of a HEADERS frame with a priority.
pub const HAS_PRIORITY: u8 = 0x20;

/// One case.
pub struct Case {
    pub name: &'static str,
    pub begin: Begin,
    pub send: Vec<u8>,
    pub expect: Expect,
}

/// How the connection begins.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// Preface and settings, and the settings of both sides are acknowledged.
    Usual,
    /// With the bytes of the case.
    Raw,
}

/// What must come of it.
pub enum Expect {
    /// The connection ends: with GOAWAY and one of these codes, or without a word.
    ConnectionError(&'static [u32]),
    /// This stream is reset with one of these codes, or the connection ends with one of them.
    StreamError(u32, &'static [u32]),
    /// This stream is reset, or its response is an error of the client, or the connection ends.
    Refused(u32),
    /// An error with one of these codes, or nothing: the RFC leaves it open.
    ErrorOrNothing(&'static [u32]),
    /// This stream has a response with this status.
    Status(u32, u16),
    /// A frame of this type, with these flags and payload, on this stream.
    Frame(u8, u8, u32, Vec<u8>),
    /// Nothing comes of it: the next request is answered.
    Nothing,
    /// The pieces of the response's body on this stream have these lengths, one after the other.
    Pieces(u32, Vec<usize>),
}

/// A case on a connection that has begun as usual.
pub fn case(name: &'static str, send: Vec<u8>, expect: Expect) -> Case {
    Case {
        name,
        begin: Begin::Usual,
        send,
        expect,
    }
}

/// HEADERS with END_HEADERS and these further flags.
pub fn headers(stream: u32, flags: u8, block: &[u8]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | flags, stream, block)
}

/// A whole GET.
pub fn get(stream: u32) -> Vec<u8> {
    headers(stream, END_STREAM, &get_fields("/"))
}

/// The beginning of a POST, whose body follows.
pub fn post(stream: u32) -> Vec<u8> {
    headers(stream, 0, &sluicegate_testkit::h2_frames::post_fields("/"))
}

/// SETTINGS with these values.
pub fn settings(values: &[(u16, u32)]) -> Vec<u8> {
    let bytes: Vec<u8> = values
        .iter()
        .flat_map(|(number, value)| [&number.to_be_bytes()[..], &value.to_be_bytes()].concat())
        .collect();
    frame(SETTINGS, 0, 0, &bytes)
}

/// The proxy that is tested.
pub struct Target {
    edge: Edge,
    tls: Option<(TlsFiles, Arc<ClientConfig>)>,
    _upstream: UpstreamRecorder,
}

/// A connection that has something to read.
trait Io: Read + Write {}
impl<T: Read + Write> Io for T {}

/// A frame of the server.
struct Received {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

impl Received {
    /// The error code of RST_STREAM or GOAWAY.
    fn code(&self) -> Option<u32> {
        let at = match self.kind {
            RST_STREAM => 0,
            GOAWAY => 4,
            _ => return None,
        };
        let bytes = self.payload.get(at..at + 4)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    }
}

impl Target {
    pub fn plain() -> Self {
        let upstream = upstream();
        Self {
            edge: Edge::start(upstream.address, Vec::new()),
            tls: None,
            _upstream: upstream,
        }
    }

    pub fn with_tls() -> Self {
        let upstream = upstream();
        let files = TlsFiles::generate();
        let edge = Edge::with(upstream.address, Vec::new(), |config| {
            config.proxy.as_mut().unwrap().tls = Some(ServerTls {
                cert: files.server_certificate(),
                key: files.server_key(),
            });
        });
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_file(files.authority()).unwrap();
        roots.add(authority).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        client.alpn_protocols = vec![b"h2".to_vec()];
        Self {
            edge,
            tls: Some((files, Arc::new(client))),
            _upstream: upstream,
        }
    }

    fn connect(&self) -> Box<dyn Io> {
        let stream: TcpStream = raw_socket::connect(self.edge.address);
        stream
            .set_read_timeout(Some(Duration::from_secs(1)))
            .unwrap();
        match &self.tls {
            None => Box::new(stream),
            Some((_, config)) => {
                let name = ServerName::try_from("localhost").unwrap();
                let client = ClientConnection::new(Arc::clone(config), name).unwrap();
                Box::new(StreamOwned::new(client, stream))
            }
        }
    }

    /// Runs a case; the error tells what came instead.
    pub fn run(&self, case: &Case) -> Result<(), String> {
        let mut io = self.connect();
        if case.begin == Begin::Usual {
            let begin = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
            io.write_all(&begin).map_err(|error| error.to_string())?;
            acknowledge(&mut *io)?;
        }
        // The server may close before it has read everything.
        let _ = io.write_all(&case.send);
        let last = last_stream(case);
        if matches!(case.expect, Expect::Nothing | Expect::ErrorOrNothing(_)) {
            let _ = io.write_all(&get(last + 2));
        }
        let _ = io.flush();
        watch(&mut *io, &case.expect, last + 2)
    }
}

/// A server whose response has six bytes.
fn upstream() -> UpstreamRecorder {
    UpstreamRecorder::answering(|_| UpstreamResponse::ok("abcdef"))
}

/// The highest stream that a case uses.
fn last_stream(case: &Case) -> u32 {
    let mut rest = case.send.as_slice();
    let mut last = 1;
    while let Some((head, after)) = rest.split_at_checked(9) {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & 0x7fff_ffff;
        if head[3] == HEADERS && stream < 1_000 {
            last = last.max(stream | 1);
        }
        rest = after.get(length..).unwrap_or_default();
    }
    last
}

/// Reads the server's settings and the acknowledgement of ours, and acknowledges.
fn acknowledge(io: &mut dyn Io) -> Result<(), String> {
    let (mut has_settings, mut has_ack) = (false, false);
    let deadline = Instant::now() + Duration::from_secs(20);
    while !(has_settings && has_ack) {
        match next(io, deadline) {
            Ok(frame_in) if frame_in.kind == SETTINGS && frame_in.flags & ACK == 0 => {
                has_settings = true;
                let ack = frame(SETTINGS, ACK, 0, &[]);
                io.write_all(&ack).map_err(|error| error.to_string())?;
            }
            Ok(frame_in) if frame_in.kind == SETTINGS => has_ack = true,
            Ok(_) => {}
            Err(error) => return Err(format!("the connection did not begin: {error}")),
        }
    }
    Ok(())
}

/// Reads until what is expected has come, or something that excludes it.
fn watch(io: &mut dyn Io, expect: &Expect, next_stream: u32) -> Result<(), String> {
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut pieces = Vec::new();
    loop {
        let received = match next(io, deadline) {
            Ok(received) => received,
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                return Err("nothing came".to_owned());
            }
            Err(_) => return at_end(expect),
        };
        if let Some(result) = judge(&received, expect, next_stream, &mut pieces) {
            return result;
        }
    }
}

/// The connection ended without a word.
fn at_end(expect: &Expect) -> Result<(), String> {
    match expect {
        Expect::ConnectionError(_)
        | Expect::StreamError(..)
        | Expect::Refused(_)
        | Expect::ErrorOrNothing(_) => Ok(()),
        _ => Err("the connection ended".to_owned()),
    }
}

/// The result of a case after this frame; `None` when it is not decided yet.
fn judge(
    received: &Received,
    expect: &Expect,
    next_stream: u32,
    pieces: &mut Vec<usize>,
) -> Option<Result<(), String>> {
    let Received {
        kind,
        flags,
        stream,
        ref payload,
    } = *received;
    let status = || {
        let of_block = sluicegate_testkit::h2_frames::status(payload);
        of_block.unwrap_or_default()
    };
    let of_code = |codes: &[u32]| {
        let code = received.code()?;
        Some(match codes.contains(&code) {
            true => Ok(()),
            false => Err(format!("error code {code} instead of one of {codes:?}")),
        })
    };
    if kind == GOAWAY && received.code() == Some(NO_ERROR) {
        return None;
    }
    match expect {
        Expect::ConnectionError(codes) if kind == GOAWAY => of_code(codes),
        Expect::ConnectionError(_) => None,
        Expect::StreamError(wanted, codes) => match kind {
            GOAWAY => of_code(codes),
            RST_STREAM if stream == *wanted => of_code(codes),
            _ => None,
        },
        Expect::Refused(wanted) => match kind {
            GOAWAY => Some(Ok(())),
            RST_STREAM if stream == *wanted => Some(Ok(())),
            HEADERS if stream == *wanted => Some(match status() {
                400..=599 => Ok(()),
                other => Err(format!("answered with {other}")),
            }),
            _ => None,
        },
        Expect::ErrorOrNothing(codes) => match kind {
            GOAWAY | RST_STREAM => of_code(codes),
            HEADERS if stream == next_stream => Some(Ok(())),
            _ => None,
        },
        Expect::Status(wanted, wanted_status) => match kind {
            HEADERS if stream == *wanted => {
                let status = status();
                Some(match status == *wanted_status {
                    true => Ok(()),
                    false => Err(format!("status {status}")),
                })
            }
            GOAWAY => Some(Err(format!("GOAWAY {:?}", received.code()))),
            RST_STREAM if stream == *wanted => Some(Err(format!("reset {:?}", received.code()))),
            _ => None,
        },
        Expect::Frame(wanted, wanted_flags, wanted_stream, bytes) => {
            let is_it = (kind, flags, stream) == (*wanted, *wanted_flags, *wanted_stream)
                && payload == bytes;
            match kind {
                _ if is_it => Some(Ok(())),
                GOAWAY => Some(Err(format!("GOAWAY {:?}", received.code()))),
                _ => None,
            }
        }
        Expect::Nothing => match kind {
            HEADERS if stream == next_stream => Some(match status() {
                200 => Ok(()),
                other => Err(format!("the next request has status {other}")),
            }),
            GOAWAY => Some(Err(format!("GOAWAY {:?}", received.code()))),
            RST_STREAM => Some(Err(format!("stream {stream} reset {:?}", received.code()))),
            _ => None,
        },
        Expect::Pieces(wanted, lengths) => {
            if kind == GOAWAY {
                return Some(Err(format!("GOAWAY {:?}", received.code())));
            }
            if kind == DATA && stream == *wanted && !payload.is_empty() {
                pieces.push(payload.len());
            }
            match () {
                () if pieces == lengths => Some(Ok(())),
                () if !lengths.starts_with(pieces) => Some(Err(format!("pieces {pieces:?}"))),
                () => None,
            }
        }
    }
}

/// The next frame; `TimedOut` when none came in time.
fn next(io: &mut dyn Io, deadline: Instant) -> io::Result<Received> {
    let mut head = [0; 9];
    read_exact(io, &mut head, deadline)?;
    let [high, middle, low, kind, flags, number @ ..] = head;
    let mut payload = vec![0; u32::from_be_bytes([0, high, middle, low]) as usize];
    read_exact(io, &mut payload, deadline)?;
    Ok(Received {
        kind,
        flags,
        stream: u32::from_be_bytes(number),
        payload,
    })
}

/// Reads all of it, in as many pieces as it takes.
fn read_exact(io: &mut dyn Io, bytes: &mut [u8], deadline: Instant) -> io::Result<()> {
    let mut at = 0;
    while at < bytes.len() {
        match io.read(&mut bytes[at..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => at += count,
            Err(error) if is_timeout(&error) && Instant::now() < deadline => {}
            Err(error) if is_timeout(&error) => return Err(ErrorKind::TimedOut.into()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
