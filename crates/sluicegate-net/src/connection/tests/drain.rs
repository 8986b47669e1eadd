//! The end of the process, as its connections see it.

use std::ops::Range;

use tokio::net::TcpListener;

use super::*;
use crate::lingering::Lingering;
use crate::supervisor::DRAIN_QUIET;

const GET: &str = "GET /a HTTP/1.1\r\nHost: c\r\n\r\n";
/// Longer than anything here takes.
const AGES: Duration = Duration::from_secs(30);

/// A connection over a socket, in the same thread as the test: it does nothing unless it is awaited.
async fn serve_socket(
    settings: ConnectionSettings,
) -> (TcpStream, JoinHandle<()>, watch::Sender<bool>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
    let (stream, peer) = accepted.unwrap();
    let (end, ending) = watch::channel(false);
    let server = Arc::new(HttpServer {
        counters: Arc::default(),
        proxy_protocol_from: Vec::new(),
        named_clients: None,
        ending,
    });
    let served = server.serve(Arc::new(PathHandler::default()), settings, stream, peer);
    (client.unwrap(), tokio::spawn(served), end)
}

/// Everything until the end of the connection, which must not be a reset.
async fn rest(client: &mut TcpStream) -> String {
    let mut text = String::new();
    let read = tokio::time::timeout(AGES, client.read_to_string(&mut text)).await;
    read.expect("it ends").expect("it is not reset");
    text
}

/// Of the answers in a text: how many there are, and which of them say that they are the last.
fn answers(text: &str) -> (usize, Vec<usize>) {
    let answers: Vec<&str> = text.split("HTTP/1.1 200 OK\r\n").skip(1).collect();
    let last = |place: &usize| answers[*place].contains("connection: close\r\n");
    (answers.len(), (0..answers.len()).filter(last).collect())
}

#[tokio::test]
async fn what_has_come_before_the_end_is_answered_and_the_last_answer_says_so() {
    for (count, has_rested) in [(1, false), (8, false), (1, true), (8, true), (200, true)] {
        let (mut client, served, end) = serve_socket(settings()).await;
        client.write_all(GET.as_bytes()).await.unwrap();
        let mut first = vec![0; 1024];
        let length = client.read(&mut first).await.unwrap();
        assert!(first[..length].ends_with(b"/a"));
        if has_rested {
            // bounded wait: longer than a quiet connection keeps its memory
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        // The system has it, and the runtime does not know it yet.
        client.try_write(GET.repeat(count).as_bytes()).unwrap();
        end.send_replace(true);
        let text = rest(&mut client).await;
        assert_eq!(
            answers(&text),
            (count, vec![count - 1]),
            "{has_rested}: {text}"
        );
        drop(client);
        served.await.unwrap();
    }
}

#[tokio::test]
async fn bytes_after_the_last_answer_reset_nothing() {
    let (mut client, served, end) = serve_socket(settings()).await;
    client.write_all(GET.as_bytes()).await.unwrap();
    end.send_replace(true);
    let mut text = vec![0; 1024];
    let length = client.read(&mut text).await.unwrap();
    assert!(String::from_utf8_lossy(&text[..length]).contains("connection: close\r\n"));
    for _ in 0..5 {
        client.write_all(&[b'a'; 10_000]).await.unwrap();
        tokio::task::yield_now().await;
    }
    assert_eq!(rest(&mut client).await, "");
    drop(client);
    served.await.unwrap();
}

/// The answers to `first`, which is read before the end of the process, and to `then`, whose parts
/// come after pauses from then on; and the time until the connection was closed.
async fn drained(first: &str, then: &[(Duration, &str)]) -> (String, Duration) {
    let mut served = serve();
    served.send(first).await;
    // bounded wait: the clock is paused, and goes on when everything was read
    tokio::time::sleep(Duration::from_millis(1)).await;
    served.end.send_replace(true);
    let began = Instant::now();
    for (pause, text) in then {
        // bounded wait: the clock is paused
        tokio::time::sleep(*pause).await;
        served.send(text).await;
    }
    let (text, _) = served.until_closed().await;
    (text, began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_quiet_connection_is_closed_after_a_moment_in_which_it_may_ask_once_more() {
    let soon = DRAIN_QUIET / 2;
    for first in ["", GET] {
        let had = answers(first).0 + usize::from(!first.is_empty());
        let (text, took) = drained(first, &[]).await;
        assert_eq!(answers(&text), (had, vec![]));
        assert_eq!(took.as_secs(), DRAIN_QUIET.as_secs());
        let (text, took) = drained(first, &[(soon, GET)]).await;
        assert_eq!(answers(&text), (had + 1, vec![had]));
        assert_eq!(took, soon, "nobody has to wait after the last answer");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_has_begun_is_waited_for_and_answered() {
    let (begun, rest) = GET.split_at(10);
    let pause = DRAIN_QUIET * 2;
    for first in [begun.to_owned(), format!("{GET}{begun}")] {
        let (text, took) = drained(&first, &[(pause, rest)]).await;
        let count = 1 + usize::from(first.len() > GET.len());
        assert_eq!(answers(&text), (count, vec![count - 1]), "{text}");
        assert_eq!(took, pause);
        let (_, took) = drained(&first, &[]).await;
        assert!(
            (3..=4).contains(&took.as_secs()),
            "it has the time of a header and no more"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_never_stops_asking_is_told_all_the_same() {
    const BOUNDS: Range<usize> = 100..300;
    let mut served = serve();
    served.end.send_replace(true);
    served.send(&GET.repeat(400)).await;
    let (text, _) = served.until_closed().await;
    let (count, last) = answers(&text);
    assert!(
        BOUNDS.contains(&count) && last == [count - 1],
        "{count} {last:?}"
    );
}

/// Its next request may be on the way: it is told the end, and not that there never was a connection.
#[tokio::test]
async fn a_connection_that_was_idle_for_too_long_is_not_reset() {
    for rests in [false, true] {
        let mut brief = settings();
        brief.timeouts = TimeoutPolicy::new(&HttpTimeouts {
            header: AGES,
            // A quiet connection keeps its memory for a tenth of a second.
            idle: Duration::from_millis(if rests { 500 } else { 50 }),
            unread: AGES,
            unread_bytes_min: 1,
        });
        let (mut client, served, _end) = serve_socket(brief).await;
        client.write_all(GET.as_bytes()).await.unwrap();
        let text = rest(&mut client).await;
        assert_eq!(answers(&text), (1, vec![]), "{text}");
        for _ in 0..5 {
            client
                .write_all(GET.as_bytes())
                .await
                .expect("it is not reset");
            // bounded wait: a reset would have come back by now
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        drop(client);
        served.await.unwrap();
    }
}

/// A client that reads nothing must not hold the process for longer than others.
#[tokio::test(start_paused = true)]
async fn a_client_that_stays_after_the_last_answer_is_left_after_a_while() {
    let mut served = serve();
    served.send(GET).await;
    served.end.send_replace(true);
    let began = Instant::now();
    served.task.await.unwrap();
    assert_eq!(
        began.elapsed().as_secs(),
        Lingering::<()>::SILENCE.as_secs()
    );
    drop(served.client);
}
