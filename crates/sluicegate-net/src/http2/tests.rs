//! Connections over a pipe within the process, by a clock that jumps.

mod client;
mod whole_bodies;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;

use self::client::{Client, Seen};
use super::frame::{ErrorCode, kind, setting};
use crate::handler::{
    CompleteBody, Connection, Handler, IncomingRequest, ResponseBody, WholeBodyBounds,
};
use crate::request_body::ClientBody;
use crate::response::{HttpResponse, ResponseLines};

/// Bytes of a part of an endless response.
const PART: usize = 16 * 1024;
/// Bounds of bodies that `/whole` waits for.
const WHOLE_BYTES_MAX: usize = 100_000;
const WHOLE_LONGEST: Duration = Duration::from_secs(3);

/// Answers by the path: `/endless` without an end, `/echo` with what it was sent, `/deaf` without
/// reading, `/never` not at all, `/trailers` with trailers, `/whole` with the length of a body that it
/// waits for, and all others with the path.
#[derive(Default)]
struct TestHandler {
    /// Bytes that were asked for of endless responses.
    asked: Arc<AtomicUsize>,
    requests: AtomicUsize,
}

enum TestBody {
    Once(Option<Bytes>),
    Endless(Arc<AtomicUsize>),
    WithTrailers(u8),
    /// A text and trailers.
    Complete(String),
}

impl Handler for TestHandler {
    type Body = TestBody;

    fn whole_body(&self, parts: &Parts) -> Option<WholeBodyBounds> {
        (parts.uri.path() == "/whole").then_some(WholeBodyBounds {
            bytes_max: WHOLE_BYTES_MAX,
            longest: WHOLE_LONGEST,
        })
    }

    async fn handle(
        connection: &Arc<Connection<Self>>,
        request: &mut IncomingRequest,
    ) -> HttpResponse<TestBody> {
        connection.handler.requests.fetch_add(1, Ordering::Relaxed);
        let IncomingRequest { parts, body, .. } = request.take();
        let body = match parts.uri.path() {
            "/endless" => TestBody::Endless(Arc::clone(&connection.handler.asked)),
            "/echo" => match body.collect().await {
                Ok(body) => TestBody::Once(Some(body.to_bytes())),
                Err(_) => TestBody::Once(None),
            },
            "/deaf" => {
                drop(body);
                // bounded wait: the clock is paused
                tokio::time::sleep(Duration::from_secs(5)).await;
                TestBody::Once(Some(Bytes::from_static(b"deaf")))
            }
            "/never" => std::future::pending().await,
            "/trailers" => TestBody::WithTrailers(0),
            "/whole" => {
                let ClientBody::Whole(body) = body else {
                    panic!("the handler waits for it");
                };
                TestBody::Complete(match body.into_bytes() {
                    Ok(bytes) => format!("{} bytes", bytes.len()),
                    Err(error) => error.to_string(),
                })
            }
            path => TestBody::Once(Some(Bytes::from(path.to_owned()))),
        };
        HttpResponse::new(StatusCode::OK, ResponseLines::default(), body)
    }
}

impl ResponseBody for TestBody {
    fn complete(&self) -> Option<CompleteBody<'_>> {
        match self {
            Self::Complete(text) => Some(CompleteBody {
                data: text.as_bytes(),
                trailers: &[("etag", "sum")],
            }),
            _ => None,
        }
    }
}

impl Body for TestBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(match &mut *self {
            Self::Once(bytes) => bytes.take().map(Frame::data).map(Ok),
            Self::Endless(asked) => {
                asked.fetch_add(PART, Ordering::Relaxed);
                Some(Ok(Frame::data(Bytes::from(vec![7; PART]))))
            }
            Self::Complete(text) => {
                let text = Bytes::from(std::mem::take(text));
                *self = Self::WithTrailers(1);
                Some(Ok(Frame::data(text)))
            }
            Self::WithTrailers(step) => {
                *step += 1;
                let trailer = (http::header::ETAG, http::HeaderValue::from_static("sum"));
                match step {
                    1 => Some(Ok(Frame::data(Bytes::from_static(b"body")))),
                    2 => Some(Ok(Frame::trailers(HeaderMap::from_iter([trailer])))),
                    _ => None,
                }
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Once(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Once(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Endless(_) | Self::WithTrailers(_) | Self::Complete(_) => SizeHint::new(),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn requests_are_answered_with_head_body_and_trailers() {
    let mut client = Client::connect(&[]).await;
    client.get(1, "/a").await;
    let head = client.head_of(1).await;
    assert_eq!(head.status, 200);
    assert_eq!(head.headers["content-length"], "2");
    assert!(head.headers.contains_key("date"));
    assert_eq!(client.body_of(1).await, b"/a");
    client.get(3, "/trailers").await;
    client.head_of(3).await;
    assert_eq!(client.body_of(3).await, b"body");
    let seen = client.next().await.unwrap();
    assert_eq!(
        (seen.kind, seen.is_last(), seen.stream),
        (kind::HEADERS, true, 3)
    );
}

/// A turn answers eight of them.
#[tokio::test(start_paused = true)]
async fn requests_that_come_together_are_answered_together() {
    // In a task, so that it reads as soon as something was written.
    let together = tokio::spawn(async {
        let mut client = Client::connect(&[]).await;
        client.pass(Duration::from_millis(1)).await;
        client.burst(40).await
    });
    assert_eq!(together.await.unwrap(), 40);
}

#[tokio::test(start_paused = true)]
async fn a_body_of_any_length_is_received_in_windows_that_open_again() {
    const LENGTH: usize = 3 << 20;
    let mut client = Client::connect(&[]).await;
    client.post(1, "/echo").await;
    client.upload(1, LENGTH).await;
    client.open_window(1, LENGTH as u32).await;
    client.open_window(0, LENGTH as u32).await;
    assert_eq!(
        client.head_of(1).await.headers["content-length"],
        LENGTH.to_string()
    );
    assert_eq!(client.body_of(1).await.len(), LENGTH);
}

/// What is sent to a handler that does not want it is in nobody's way.
#[tokio::test(start_paused = true)]
async fn bodies_that_nobody_reads_do_not_fill_the_window_of_the_connection() {
    let mut client = Client::connect(&[]).await;
    for stream in [1, 3, 5] {
        client.post(stream, "/deaf").await;
        client.upload_without_end(stream, 1 << 19).await;
    }
    client.post(7, "/echo").await;
    client.upload(7, 1 << 19).await;
    assert_eq!(client.head_of(7).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_stream_whose_client_does_not_read_is_reset_alone() {
    let mut client = Client::connect(&[(setting::INITIAL_WINDOW_SIZE, 10)]).await;
    client.get(1, "/endless").await;
    client.get(3, "/endless").await;
    let began = tokio::time::Instant::now();
    loop {
        // Stream 3 is read, and pings come as well.
        client.open_window(3, 1_000).await;
        client.ping().await;
        let reset = client.pass(Duration::from_secs(1)).await;
        let Some(reset) = reset.into_iter().find(|seen| seen.kind == kind::RST_STREAM) else {
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "stream 1 is kept"
            );
            continue;
        };
        assert_eq!((reset.stream, reset.code()), (1, ErrorCode::Cancel as u32));
        break;
    }
    let took = began.elapsed().as_secs();
    assert!((20..=26).contains(&took), "{took} seconds");
    client.get(5, "/a").await;
    assert_eq!(client.head_of(5).await.status, 200);
    client.open_window(3, 1_000).await;
    let later = client.pass(Duration::from_secs(30)).await;
    assert!(later.iter().any(|seen| seen.is_data(3)), "{later:?}");
}

/// A window of the connection that hardly opens must not keep a hundred streams.
#[tokio::test(start_paused = true)]
async fn streams_that_share_too_little_of_the_connections_window_are_reset() {
    let mut client = Client::connect(&[(setting::INITIAL_WINDOW_SIZE, 1 << 20)]).await;
    for stream in 0..20 {
        client.get(stream * 2 + 1, "/endless").await;
    }
    let mut resets = 0;
    for _ in 0..40 {
        client.open_window(0, 10).await;
        let passed = client.pass(Duration::from_secs(1)).await;
        resets += passed
            .iter()
            .filter(|seen| seen.kind == kind::RST_STREAM)
            .count();
    }
    assert!(resets >= 19, "{resets}");
}

#[tokio::test(start_paused = true)]
async fn no_more_of_responses_is_asked_for_than_a_connection_may_hold() {
    for window in [0, 1, 1 << 20] {
        let mut client = Client::connect(&[(setting::INITIAL_WINDOW_SIZE, window)]).await;
        for stream in 0..100 {
            client.get(stream * 2 + 1, "/endless").await;
        }
        client.pass(Duration::from_secs(10)).await;
        let asked = client.handler.asked.load(Ordering::Relaxed);
        assert!(asked < 1 << 20, "{asked} bytes with windows of {window}");
    }
}

#[tokio::test(start_paused = true)]
async fn frames_that_are_no_requests_do_not_keep_a_connection() {
    let mut client = Client::connect(&[]).await;
    client.get(1, "/a").await;
    client.head_of(1).await;
    client.body_of(1).await;
    let (mut seconds, mut goaways) = (0, 0);
    while goaways == 0 {
        client.ping().await;
        client.open_window(0, 1).await;
        let passed = client.pass(Duration::from_secs(1)).await;
        goaways += passed
            .iter()
            .filter(|seen| seen.kind == kind::GOAWAY)
            .count();
        seconds += 1;
        assert!(seconds < 60, "it is kept");
    }
    assert!((19..=26).contains(&seconds), "{seconds} seconds");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_ends_answers_what_has_come_and_says_so_twice() {
    let mut client = Client::connect(&[]).await;
    client.get(1, "/a").await;
    client.head_of(1).await;
    client.body_of(1).await;
    client.end.send_replace(true);
    let goaway = client.until(kind::GOAWAY).await;
    assert_eq!((goaway.last_stream(), goaway.code()), (0x7fff_ffff, 0));
    let ping = client.until(kind::PING).await;
    client.get(3, "/late").await;
    assert_eq!(client.head_of(3).await.status, 200);
    client.body_of(3).await;
    client.pong(&ping.payload).await;
    let goaway = client.until(kind::GOAWAY).await;
    assert_eq!((goaway.last_stream(), goaway.code()), (3, 0));
    assert!(client.next().await.is_none(), "and closes");
}

/// A client that does not answer our PING has a moment.
#[tokio::test(start_paused = true)]
async fn a_process_that_ends_waits_for_no_client_that_is_silent() {
    let mut client = Client::connect(&[]).await;
    client.get(1, "/a").await;
    client.head_of(1).await;
    client.body_of(1).await;
    client.end.send_replace(true);
    client.until(kind::GOAWAY).await;
    let began = tokio::time::Instant::now();
    assert_eq!(client.until(kind::GOAWAY).await.last_stream(), 1);
    assert!(client.next().await.is_none());
    assert!(
        began.elapsed() < Duration::from_secs(3),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn urgent_responses_go_first_and_others_take_turns() {
    let mut client = Client::connect(&[(setting::INITIAL_WINDOW_SIZE, 1 << 24)]).await;
    let served = |seen: &[Seen]| -> Vec<u32> {
        seen.iter()
            .filter(|seen| seen.kind == kind::DATA)
            .map(|seen| seen.stream)
            .collect()
    };
    // The window of the connection is used up.
    client.get(1, "/endless").await;
    client.pass(Duration::from_secs(1)).await;
    client.get_with(3, "/endless", &[("priority", "u=6")]).await;
    client
        .get_with(5, "/endless", &[("priority", "u=1, i")])
        .await;
    client.get_with(7, "/endless", &[("priority", "u=1")]).await;
    client.pass(Duration::from_secs(1)).await;
    client.open_window(0, PART as u32 * 6).await;
    let mut seen = served(&client.pass(Duration::from_secs(1)).await);
    assert_eq!(
        (seen.len(), seen.contains(&1), seen.contains(&3)),
        (6, false, false)
    );
    seen.dedup();
    assert_eq!(seen.len(), 6, "they take turns");
    client.update_priority(3, "u=0").await;
    client.open_window(0, PART as u32 * 2).await;
    assert_eq!(served(&client.pass(Duration::from_secs(1)).await), [3, 3]);
}

#[tokio::test(start_paused = true)]
async fn many_requests_at_once_let_other_connections_go_on() {
    const SENT: u32 = 90;
    let mut greedy = Client::connect(&[]).await;
    let mut other = Client::connect(&[]).await;
    for client in [&mut greedy, &mut other] {
        client.get(1, "/a").await;
        client.head_of(1).await;
        client.body_of(1).await;
    }
    for stream in 1..SENT {
        greedy.get(stream * 2 + 1, "/a").await;
    }
    let handler = Arc::clone(&greedy.handler);
    // As a task, which has its turn among the others.
    let answered = tokio::spawn(async move {
        other.get(3, "/b").await;
        assert_eq!(other.head_of(3).await.status, 200);
        handler.requests.load(Ordering::Relaxed)
    });
    let answered = answered.await.unwrap();
    assert!(answered < SENT as usize / 2, "{answered} came before it");
    // All are answered in the end.
    greedy.get(SENT * 2 + 1, "/last").await;
    assert_eq!(greedy.head_of(SENT * 2 + 1).await.status, 200);
    assert_eq!(
        greedy.handler.requests.load(Ordering::Relaxed),
        SENT as usize + 1
    );
}

/// A reset that comes later, when the request was under way, is dearer for us and cheaper for the
/// client: people change their minds.
#[tokio::test(start_paused = true)]
async fn resets_with_their_headers_end_a_connection_before_later_ones() {
    let mut lengths = Vec::new();
    for is_at_once in [true, false] {
        let mut client = Client::connect(&[]).await;
        let mut streams = 0;
        while streams < 200 && !client.is_ended().await {
            client.get(streams * 2 + 1, "/never").await;
            if !is_at_once {
                client.pass(Duration::from_millis(1)).await;
            }
            client.reset(streams * 2 + 1).await;
            streams += 1;
        }
        lengths.push(streams);
    }
    assert!(lengths[0] <= 30, "{lengths:?}");
    assert_eq!(lengths[1], 200);
}

/// Short words can stand for a long field again and again.
#[tokio::test(start_paused = true)]
async fn a_header_that_unpacks_to_far_more_than_is_allowed_ends_its_connection() {
    const LONG: usize = 2_000;
    let mut client = Client::connect(&[]).await;
    client.get_with_copies(1, LONG, 2).await;
    assert_eq!(client.head_of(1).await.status, 200);
    client.body_of(1).await;
    client.get_with_copies(3, LONG, 10).await;
    let refused = client.until(kind::HEADERS).await;
    assert!(refused.stream == 3 && refused.is_last(), "refused alone");
    client.get_with_copies(5, LONG, 2).await;
    assert_eq!(client.head_of(5).await.status, 200);
    client.body_of(5).await;
    client.get_with_copies(7, LONG, 1_000).await;
    assert_eq!(
        client.until(kind::GOAWAY).await.code(),
        ErrorCode::Compression as u32
    );
}

/// A hundred streams that were reset have made room for others.
#[tokio::test(start_paused = true)]
async fn a_request_whose_client_resets_it_is_dropped() {
    let mut client = Client::connect(&[]).await;
    for stream in 0..100 {
        client.get(stream * 2 + 1, "/never").await;
    }
    client.pass(Duration::from_millis(1)).await;
    for stream in 0..100 {
        client.reset(stream * 2 + 1).await;
    }
    client.get(201, "/a").await;
    assert_eq!(client.head_of(201).await.status, 200);
}
