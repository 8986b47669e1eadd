//! gRPC: frames that lie, and messages that are none.

use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use sluicegate_testkit::STEP_TIMEOUT;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::{GROWTH_KIB_MAX, survives};

type Body = StreamBody<ReceiverStream<Result<Frame<Bytes>, Infallible>>>;

const PATH: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// A question about one user in domain `edge`.
const QUESTION: &[u8] = b"\x0a\x04edge\x12\x0d\x0a\x0b\x0a\x04user\x12\x03ann";

/// Runs what a caller does over one connection.
fn caller(address: SocketAddr, calls: impl AsyncFnOnce(SendRequest<Body>)) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let sender = connect(address).await;
        tokio::time::timeout(STEP_TIMEOUT * 2, calls(sender))
            .await
            .expect("the calls end in time");
    });
}

/// Opens a connection, which a task of this runtime drives.
async fn connect(address: SocketAddr) -> SendRequest<Body> {
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    sender
}

/// A message as it stands in a body: a flag, its length, and the bytes, of which some may be missing.
fn framed(flag: u8, length: u32, message: &[u8]) -> Vec<u8> {
    [&[flag][..], &length.to_be_bytes(), message].concat()
}

fn whole(message: &[u8]) -> Vec<u8> {
    framed(0, u32::try_from(message.len()).unwrap(), message)
}

fn request(encoding: Option<&str>, body: Body) -> Request<Body> {
    let request = Request::post(format!("http://sluicegate{PATH}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    let request = match encoding {
        Some(encoding) => request.header("grpc-encoding", encoding),
        None => request,
    };
    request.body(body).unwrap()
}

/// The status in the trailers, and the bytes before them.
async fn ask(
    sender: &mut SendRequest<Body>,
    encoding: Option<&str>,
    pieces: Vec<Vec<u8>>,
) -> (Option<u32>, Bytes) {
    let (pieces_in, pieces_out) = mpsc::channel(1);
    let writing = async {
        for piece in pieces {
            // The server may have closed the stream.
            if pieces_in.send(Ok(Frame::data(piece.into()))).await.is_err() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(pieces_in);
    };
    sender.ready().await.unwrap();
    let request = request(encoding, StreamBody::new(ReceiverStream::new(pieces_out)));
    let (response, ()) = tokio::join!(sender.send_request(request), writing);
    let (head, body) = response.expect("a stream is answered").into_parts();
    let body = body.collect().await.expect("to its end");
    let status = |headers: &HeaderMap| headers.get("grpc-status")?.to_str().ok()?.parse().ok();
    let told = status(&head.headers).or_else(|| body.trailers().and_then(status));
    (told, body.to_bytes())
}

#[test]
fn a_question_is_understood_however_it_is_cut() {
    survives(|sluicegate| {
        caller(sluicegate.grpc.unwrap(), async |mut sender| {
            let question = whole(QUESTION);
            let limited_after = 5;
            for cut in 1..question.len() {
                let (first, rest) = question.split_at(cut);
                let (status, answer) =
                    ask(&mut sender, None, vec![first.to_vec(), rest.to_vec()]).await;
                assert_eq!(status, Some(0), "cut at {cut}");
                // The first field of the answer is the overall code.
                let code = if cut <= limited_after { 1 } else { 2 };
                assert_eq!(answer[5..7], [8, code], "cut at {cut}");
            }
            let bytes = question.iter().map(|byte| vec![*byte]).collect();
            assert_eq!(ask(&mut sender, None, bytes).await.0, Some(0));
        });
    });
}

#[test]
fn frames_that_lie_are_errors_and_cost_nothing() {
    survives(|sluicegate| {
        caller(sluicegate.grpc.unwrap(), async |mut sender| {
            for (what, encoding, body) in [
                ("nothing at all", None, vec![]),
                ("half a head", None, vec![0, 0, 0]),
                ("no message", None, framed(0, 10, b"")),
                (
                    "part of a message",
                    None,
                    framed(0, QUESTION.len() as u32, &QUESTION[..9]),
                ),
                (
                    "four gigabytes announced",
                    None,
                    framed(0, u32::MAX, QUESTION),
                ),
                (
                    "more than a message may have",
                    None,
                    framed(0, 65_537, &[0; 65_537]),
                ),
                (
                    "compressed without saying how",
                    None,
                    framed(1, QUESTION.len() as u32, QUESTION),
                ),
                (
                    "compressed by something",
                    Some("gzip"),
                    framed(1, QUESTION.len() as u32, QUESTION),
                ),
                (
                    "compressed by nothing known",
                    Some("odd"),
                    framed(1, QUESTION.len() as u32, QUESTION),
                ),
                (
                    "a flag that is none",
                    None,
                    framed(255, QUESTION.len() as u32, QUESTION),
                ),
                (
                    "two messages",
                    None,
                    [whole(QUESTION), framed(0, u32::MAX, b"")].concat(),
                ),
            ] {
                let (status, answer) = ask(&mut sender, encoding, vec![body]).await;
                assert!(
                    status.is_some_and(|status| status != 0) && answer.is_empty(),
                    "{what}: {status:?}"
                );
            }
            assert_eq!(
                ask(&mut sender, None, vec![whole(QUESTION)]).await.0,
                Some(0),
                "the connection goes on"
            );
        });
    });
}

#[test]
fn messages_that_are_none_are_errors() {
    survives(|sluicegate| {
        caller(sluicegate.grpc.unwrap(), async |mut sender| {
            let lengths_that_lie = [
                b"\x12\xff\xff\xff\xff\x0f".to_vec(),
                b"\x0a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01".to_vec(),
            ];
            let deep = vec![0x0b; 60_000];
            let shapes = [
                vec![0xff; 60_000],
                deep,
                b"\x08".to_vec(),
                b"\x0a\x02\xff\xfe".to_vec(),
            ];
            for shape in shapes.into_iter().chain(lengths_that_lie) {
                let (status, answer) = ask(&mut sender, None, vec![whole(&shape)]).await;
                let start = &shape[..shape.len().min(12)];
                assert!(
                    status.is_some_and(|status| status != 0) && answer.is_empty(),
                    "{start:x?}: {status:?}"
                );
            }
            for length in 1..QUESTION.len() {
                let (status, _) = ask(&mut sender, None, vec![whole(&QUESTION[..length])]).await;
                assert!(status.is_some(), "{length} bytes of a question");
            }
            // Fields that nobody knows are passed over, however many there are.
            let unknown = [&b"\xf8\x07\x01".repeat(20_000)[..], QUESTION].concat();
            assert_eq!(
                ask(&mut sender, None, vec![whole(&unknown)]).await.0,
                Some(0)
            );
        });
    });
}

#[test]
fn announced_lengths_take_no_room_while_they_are_waited_for() {
    /// A connection has a hundred; one is left for somebody else.
    const STREAMS: usize = 99;
    const CONNECTIONS: usize = 16;
    const { assert!((CONNECTIONS * STREAMS * 64) as u64 > GROWTH_KIB_MAX) };
    survives(|sluicegate| {
        let address = sluicegate.grpc.unwrap();
        caller(address, async |mut sender| {
            let before = sluicegate.resident_kib();
            let (mut open, mut senders) = (Vec::new(), vec![sender.clone()]);
            for _ in 1..CONNECTIONS {
                senders.push(connect(address).await);
            }
            for sender in &mut senders {
                for _ in 0..STREAMS {
                    let (pieces_in, pieces_out) = mpsc::channel(1);
                    sender.ready().await.unwrap();
                    let body = StreamBody::new(ReceiverStream::new(pieces_out));
                    let answer = sender.send_request(request(None, body));
                    pieces_in
                        .send(Ok(Frame::data(framed(0, 65_536, b"\x0a").into())))
                        .await
                        .unwrap();
                    open.push((pieces_in, answer));
                }
            }
            let (status, _) = ask(&mut sender, None, vec![whole(QUESTION)]).await;
            assert_eq!(status, Some(0), "others are answered meanwhile");
            let growth = sluicegate.resident_kib().saturating_sub(before);
            assert!(growth < GROWTH_KIB_MAX, "{growth} KiB");
            let (pieces_in, answer) = open.pop().unwrap();
            drop(pieces_in);
            let answer = answer.await.expect("who breaks off is answered");
            assert!(
                answer
                    .headers()
                    .get("grpc-status")
                    .is_some_and(|status| status != "0"),
                "{answer:?}"
            );
        });
    });
}
