use proptest::prelude::*;

use super::*;

fn bounds() -> Bounds {
    Bounds {
        header_bytes: 8 * 1024,
        headers: 4,
        target_bytes: 4 * 1024,
        body_bytes: None,
    }
}

fn head(text: &str) -> Result<RequestHead, HeadError> {
    head_with_parts(text).map(|(head, _)| head)
}

fn head_with_parts(text: &str) -> Result<(RequestHead, RequestParts), HeadError> {
    let (mut input, mut parts) = (BytesMut::from(text), RequestParts::none());
    let head = RequestHeadReader::default().take(&mut input, &bounds(), || false, &mut parts)?;
    Ok((head.expect("a whole head"), parts))
}

fn status(text: &str) -> Option<u16> {
    match head(text) {
        Ok(_) | Err(HeadError::Closed) => None,
        Err(HeadError::Malformed(status, _)) => Some(status.as_u16()),
    }
}

#[test]
fn a_head_is_read_as_it_stands() {
    let (RequestHead { framing, reply, .. }, parts) =
        head_with_parts("POST /a?b HTTP/1.1\r\nHost: a\r\nX-Twice: 1\r\nx-twice: 2\r\nContent-Length: 5\r\n\r\nhello").unwrap();
    assert_eq!(
        (
            parts.method.clone(),
            parts.uri.to_string().as_str(),
            parts.version
        ),
        (Method::POST, "/a?b", Version::HTTP_11)
    );
    assert_eq!(parts.headers.get_all("x-twice").iter().count(), 2);
    assert!(matches!(framing, Framing::Length(5)) && reply.keep_alive && !reply.expects_continue);
}

#[test]
fn a_head_keeps_its_bytes_if_somebody_wants_them() {
    let text = "GET / HTTP/1.1\r\nX-Tenant-ID: t\r\n\r\n";
    let parts = |keeps_bytes: bool| {
        let mut input = BytesMut::from(&format!("{text}GET /next")[..]);
        let mut reader = RequestHeadReader::default();
        let mut parts = RequestParts::none();
        let head = reader.take(&mut input, &bounds(), || keeps_bytes, &mut parts);
        head.unwrap().expect("a whole head");
        parts.into_inner()
    };
    assert!(parts(false).extensions.is_empty());
    let kept = parts(true).extensions;
    let kept = kept.get::<HeadBytes>().expect("they are kept");
    assert_eq!(kept.0, text, "and none of the next request");
    assert_eq!(kept.header_names(), ["X-Tenant-ID"]);
}

#[test]
fn a_connection_goes_on_if_both_versions_and_words_say_so() {
    for (version, connection, keeps) in [
        ("1.1", "", true),
        ("1.1", "Connection: Close\r\n", false),
        (
            "1.1",
            "Connection: keep-alive\r\nConnection: x, close\r\n",
            false,
        ),
        ("1.0", "", false),
        ("1.0", "Connection: Keep-Alive\r\n", true),
        ("1.0", "Connection: keep-alive, close\r\n", false),
    ] {
        let reply = head(&format!("GET / HTTP/{version}\r\n{connection}\r\n"))
            .unwrap()
            .reply;
        assert_eq!(reply.keep_alive, keeps, "HTTP/{version} {connection:?}");
    }
}

#[test]
fn a_client_waits_for_a_word_only_if_there_is_a_body_to_come() {
    let waits = |version: &str, length: u8| {
        let text = format!(
            "PUT / HTTP/{version}\r\nExpect: 100-continue\r\nContent-Length: {length}\r\n\r\n"
        );
        head(&text).unwrap().reply.expects_continue
    };
    assert!(waits("1.1", 1));
    assert!(!waits("1.1", 0) && !waits("1.0", 1));
}

#[test]
fn a_body_whose_end_is_in_doubt_is_none() {
    for lines in [
        "Content-Length: 5\r\nContent-Length: 5\r\n",
        "Content-Length: 05\r\n",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
    ] {
        let head = head(&format!("POST / HTTP/1.1\r\n{lines}\r\n")).unwrap();
        assert!(head.framing.is_over(), "{lines:?}");
        assert!(head.end.unwrap_err().closes(), "{lines:?}");
    }
}

#[test]
fn what_is_no_request_is_refused() {
    for text in [
        "\u{16}\u{3}\u{1}\u{2}",
        "GET / HTTP/2.0\r\n\r\n",
        "GET /\r\n\r\n",
        "GET / HTTP/1.1\r\nA : b\r\n\r\n",
        "GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
        "GET / HTTP/1.1\r\nA: b\0c\r\n\r\n",
        "GET / HTTP/1.1\r\nA: b\rc\r\n\r\n",
        "GET  / HTTP/1.1\r\n\r\n",
        "CONNECT / HTTP/1.1\r\n\r\n",
        "G@T / HTTP/1.1\r\n\r\n",
    ] {
        assert_eq!(status(text), Some(400), "{text:?}");
    }
}

#[test]
fn heads_and_targets_have_a_bound() {
    let lines = |count| format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(count));
    assert_eq!(
        status(&lines(5)),
        None,
        "one too many is counted by those who validate"
    );
    assert_eq!(status(&lines(6)), Some(431));
    assert_eq!(
        status(&format!("GET / HTTP/1.1\r\na: {}", "b".repeat(9_000))),
        Some(431)
    );
    assert_eq!(status(&format!("GET /{}", "b".repeat(9_000))), Some(414));
    assert_eq!(
        status(&format!("GET /{} HTTP/1.1\r\n\r\n", "b".repeat(70_000))),
        Some(414)
    );
}

/// The head that is read when the bytes come in parts of this length, with the unread bytes; or the
/// status of the refusal.
fn meaning(bytes: &[u8], part: usize) -> Option<Result<(String, usize), HeadError>> {
    let (mut input, mut reader) = (BytesMut::new(), RequestHeadReader::default());
    let mut parts = bytes.chunks(part.max(1));
    while let Some(part) = parts.next() {
        input.extend_from_slice(part);
        let mut request = RequestParts::none();
        match reader.take(&mut input, &bounds(), || false, &mut request) {
            Ok(None) => {}
            Ok(Some(head)) => {
                let left = input.len() + parts.map(<[u8]>::len).sum::<usize>();
                return Some(Ok((
                    format!("{request:?} {:?} {:?}", head.framing, head.reply),
                    left,
                )));
            }
            Err(unreadable) => return Some(Err(unreadable)),
        }
    }
    None
}

/// Bytes that come near to a request.
fn request_like() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        Just("Content-Length: 5\r\n".to_owned()),
        Just("Transfer-Encoding: chunked\r\n".to_owned()),
        Just("Connection: close, x-a\r\n".to_owned()),
        Just("Host: a\n".to_owned()),
        "[ -~\r\n]{0,12}",
    ];
    let first = prop_oneof![
        Just("GET / HTTP/1.1\r\n"),
        Just("\r\nPUT /a HTTP/1.0\n"),
        Just("OPTIONS * HTTP/1.1\r\n"),
        Just("")
    ];
    (first, proptest::collection::vec(line, 0..4), "[ -~]{0,12}").prop_map(
        |(first, lines, body)| format!("{first}{}\r\n{body}", lines.concat()).into_bytes(),
    )
}

proptest! {
    #[test]
    fn whatever_a_client_sends_means_the_same_in_one_piece_and_in_many(
        bytes in prop_oneof![request_like(), proptest::collection::vec(any::<u8>(), 0..64)],
        part in 1..40_usize,
    ) {
        // Garbage is seen the sooner the more there is of it.
        match (meaning(&bytes, part), meaning(&bytes, bytes.len())) {
            (Some(Ok(many)), one) => prop_assert_eq!(one, Some(Ok(many))),
            (_, Some(Ok(one))) => prop_assert!(false, "only whole it is a request: {:?}", one),
            _ => {}
        }
    }
}

/// A head as the same reader and parts understand it after another one.
fn after(first: &[u8], second: &[u8]) -> Option<Result<String, HeadError>> {
    let (mut reader, mut parts) = (RequestHeadReader::default(), RequestParts::none());
    let mut last = None;
    for text in [first, second] {
        let mut input = BytesMut::from(text);
        last = match reader.take(&mut input, &bounds(), || false, &mut parts) {
            Ok(None) => return None,
            Ok(Some(head)) => {
                let RequestHead {
                    framing,
                    reply,
                    end,
                } = head;
                Some(Ok(format!(
                    "{:?} {end:?} {framing:?} {reply:?} {input:?}",
                    *parts
                )))
            }
            Err(unreadable) => Some(Err(unreadable)),
        };
        parts.end();
    }
    last
}

#[test]
fn lines_that_come_again_mean_what_they_meant() {
    let lines = "Host: a\r\nConnection: close\r\nContent-Length: 3\r\n\r\n";
    let first = format!("GET /a HTTP/1.1\r\n{lines}");
    for second in ["PUT /b?c HTTP/1.1", "HEAD * HTTP/1.1", "GET /a HTTP/1.0"] {
        let second = format!("{second}\r\n{lines}abc");
        let remembered = after(first.as_bytes(), second.as_bytes());
        assert!(remembered.as_ref().is_some_and(Result::is_ok), "{second}");
        assert_eq!(
            remembered,
            after(b"GET / HTTP/1.1\r\n\r\n", second.as_bytes())
        );
    }
}

#[test]
fn headers_that_were_changed_are_read_again() {
    let text = "GET / HTTP/1.1\r\nHost: a\r\nX-Api-Key: k\r\n\r\n";
    let (mut reader, mut parts) = (RequestHeadReader::default(), RequestParts::none());
    for changes in [true, false, true, false] {
        let mut input = BytesMut::from(text);
        let head = reader.take(&mut input, &bounds(), || false, &mut parts);
        assert!(head.unwrap().is_some());
        assert_eq!(
            parts.headers.len(),
            2,
            "both lines, whatever the last request did"
        );
        if changes {
            parts.edit().headers.remove("x-api-key");
        }
        parts.end();
    }
}

#[test]
fn lines_are_remembered_up_to_a_bound_and_apart_from_the_buffer() {
    for (bytes, is_remembered) in [(1_000, true), (3_000, false)] {
        let text = format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "x".repeat(bytes));
        let (mut input, mut parts) = (BytesMut::from(&text[..]), RequestParts::none());
        let head = RequestHeadReader::default().take(&mut input, &bounds(), || false, &mut parts);
        assert!(head.unwrap().is_some());
        parts.end();
        assert_eq!(parts.remembered().is_some(), is_remembered, "{bytes}");
        assert_eq!(parts.headers.is_empty(), !is_remembered, "{bytes}");
        // Nobody else holds the buffer, so its memory is used again.
        assert!(input.try_reclaim(text.len()), "{bytes}");
    }
}

proptest! {
    #[test]
    fn what_was_read_before_changes_nothing(first in request_like(), second in request_like(), cut in 0..40_usize) {
        // Often the same lines behind another first line.
        let end = |text: &[u8]| text.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let same = [&b"GET /x HTTP/1.1\r\n"[..], &first[end(&first)..]].concat();
        let shorter = &same[..same.len().saturating_sub(cut)];
        for second in [&second[..], &same[..], shorter] {
            if let Some(remembered) = after(&first, second) {
                let alone = after(b"GET / HTTP/1.1\r\nx-unlike: 1\r\n\r\n", second);
                prop_assert_eq!(Some(remembered), alone);
            }
        }
    }
}
