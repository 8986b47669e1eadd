//! Handlers that wait for the whole body of their request, and responses that are sent at once.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::client::Client;
use super::{WHOLE_BYTES_MAX, WHOLE_LONGEST};
use crate::http2::frame::{ErrorCode, kind, setting};

/// Reads the answer to `/whole`: its text, and true when the stream was then reset.
async fn answer(client: &mut Client, stream: u32) -> (String, bool) {
    client.head_of(stream).await;
    let text = String::from_utf8(client.body_of(stream).await).unwrap();
    let trailers = client.next().await.unwrap();
    assert_eq!((trailers.kind, trailers.is_last()), (kind::HEADERS, true));
    client.ping().await;
    let next = client.next().await.unwrap();
    if next.kind == kind::RST_STREAM {
        assert_eq!(next.code(), ErrorCode::No as u32);
    }
    (text, next.kind == kind::RST_STREAM)
}

#[tokio::test(start_paused = true)]
async fn a_handler_runs_when_the_whole_body_is_here() {
    let mut client = Client::connect(&[]).await;
    client.post(1, "/whole").await;
    client.upload_without_end(1, 1_000).await;
    client.get(3, "/a").await;
    client.head_of(3).await;
    assert_eq!(client.body_of(3).await, b"/a");
    assert_eq!(client.handler.requests.load(Ordering::Relaxed), 1);
    client.upload(1, 500).await;
    assert_eq!(answer(&mut client, 1).await, ("1500 bytes".into(), false));
    for (stream, length) in [(5, 0), (7, 1), (9, WHOLE_BYTES_MAX)] {
        client.post(stream, "/whole").await;
        client.upload(stream, length).await;
        let expected = format!("{length} bytes");
        assert_eq!(answer(&mut client, stream).await, (expected, false));
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_too_large_is_not_waited_for() {
    let mut client = Client::connect(&[]).await;
    client.post(1, "/whole").await;
    client.upload_without_end(1, WHOLE_BYTES_MAX + 1).await;
    let (text, is_reset) = answer(&mut client, 1).await;
    assert!(text.contains("larger") && is_reset, "{text}");
    // What is still on its way is in nobody's way.
    client.upload_without_end(1, 1 << 20).await;
    client.get(3, "/a").await;
    client.head_of(3).await;
}

#[tokio::test(start_paused = true)]
async fn bodies_that_take_too_long_are_given_up_each_in_its_time() {
    let mut client = Client::connect(&[]).await;
    let began = Instant::now();
    client.post(1, "/whole").await;
    client.upload_without_end(1, 10).await;
    // bounded wait: the clock is paused
    tokio::time::sleep(Duration::from_secs(1)).await;
    client.post(3, "/whole").await;
    for (stream, after) in [
        (1, WHOLE_LONGEST),
        (3, WHOLE_LONGEST + Duration::from_secs(1)),
    ] {
        let (text, is_reset) = answer(&mut client, stream).await;
        assert!(text.contains("stopped") && is_reset, "{text}");
        assert_eq!(began.elapsed().as_secs(), after.as_secs());
    }
    client.post(5, "/whole").await;
    client.reset(5).await;
    let seen = client.pass(WHOLE_LONGEST * 2).await;
    let is_of_connection = seen.iter().all(|frame| frame.stream == 0);
    assert!(is_of_connection, "nobody is answered: {seen:?}");
    assert_eq!(client.handler.requests.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn a_whole_response_waits_for_the_window_of_its_client() {
    let mut client = Client::connect(&[(setting::INITIAL_WINDOW_SIZE, 4)]).await;
    client.post(1, "/whole").await;
    client.upload(1, 1).await;
    client.head_of(1).await;
    assert_eq!(client.next().await.unwrap().payload, b"1 by");
    assert!(client.pass(Duration::from_secs(1)).await.is_empty());
    client.open_window(1, 100).await;
    assert_eq!(client.body_of(1).await, b"tes");
    assert!(client.next().await.unwrap().is_last());
}
