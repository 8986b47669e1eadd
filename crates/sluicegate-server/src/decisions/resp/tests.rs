//! Tests of whole connections: bytes in, bytes out.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use sluicegate_net::Transport;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::connection::RespConnection;
use crate::decisions::DecisionsState;
use crate::decisions::test_state::{state_of, state_with_token};

const LONGEST: Duration = Duration::from_secs(30);
const LIMITS: &str = "
admin: off
limits:
  - { name: per-ip, key: [client_ip], rate: 1/h, burst: 2 }
  - { name: watched, key: [principal], rate: 1/h, burst: 1, mode: shadow }
  - { name: all, key: [global], rate: 1/h, burst: 1 }
  - { name: free, key: [client_ip], average: 0 }
";

/// A client at its end of a connection.
struct Client {
    stream: DuplexStream,
    served: JoinHandle<std::io::Result<()>>,
    /// Ends the process when dropped.
    _ending: watch::Sender<bool>,
}

impl Client {
    fn of(config: &str) -> Self {
        Self::with_token(config, None)
    }

    fn with_token(config: &str, token: Option<&std::path::Path>) -> Self {
        let (state, ending) = state_with_token(config, token);
        let (stream, theirs) = duplex(1 << 16);
        Self {
            stream,
            served: tokio::spawn(serve(state, theirs)),
            _ending: ending,
        }
    }

    /// Sends bytes, closes its side, and returns everything that is answered.
    async fn say(mut self, words: impl AsRef<[u8]>) -> String {
        self.stream.write_all(words.as_ref()).await.unwrap();
        self.stream.shutdown().await.unwrap();
        let mut told = Vec::new();
        timeout(LONGEST, self.stream.read_to_end(&mut told))
            .await
            .unwrap()
            .unwrap();
        String::from_utf8_lossy(&told).into_owned()
    }

    /// Sends bytes and waits for the expected reply.
    async fn ask(&mut self, words: &str, expected: &str) {
        self.stream.write_all(words.as_bytes()).await.unwrap();
        let mut told = vec![0; expected.len()];
        timeout(LONGEST, self.stream.read_exact(&mut told))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&told), expected, "{words}");
    }
}

/// Serves a connection over a pipe.
async fn serve(state: Arc<DecisionsState>, theirs: DuplexStream) -> std::io::Result<()> {
    let transport = Transport::Other(Box::new(theirs));
    RespConnection::new(state, transport).run().await
}

/// The five numbers of each answer.
fn numbers(told: &str) -> Vec<String> {
    told.split("*5\r\n")
        .skip(1)
        .map(|answer| answer.trim_end().replace("\r\n", " ").replace(':', ""))
        .collect()
}

#[tokio::test]
async fn a_throttle_answers_with_the_five_numbers_that_clients_of_redis_cell_know() {
    let line = "CL.THROTTLE user123 15 30 60 1\r\n";
    let told = Client::of("admin: off").say(line.repeat(17)).await;
    let answers = numbers(&told);
    assert_eq!(answers.len(), 17, "{told}");
    assert_eq!(answers[0], "0 16 15 -1 2");
    assert_eq!(answers[15], "0 16 0 -1 32");
    assert_eq!(answers[16], "1 16 0 2 32");
    let told = Client::of("admin: off")
        .say("cl.throttle a 1 1 60 3\r\nCL.THROTTLE a 1 1 60 0\r\nCL.THROTTLE b 1 1 60\r\n")
        .await;
    assert_eq!(
        numbers(&told),
        ["1 2 2 -1 0", "0 2 2 -1 0", "0 2 1 -1 60"],
        "too much ever; a look; another key"
    );
}

#[tokio::test]
async fn configured_limits_are_asked_by_name() {
    let told = Client::of(LIMITS)
        .say(
            "SG.CHECK per-ip 203.0.113.7\nSG.CHECK per-ip 203.0.113.7 COST 2\nSG.PEEK per-ip 203.0.113.7\n\
             SG.PEEK per-ip 203.0.113.7 COST 2\nSG.REFUND per-ip 203.0.113.7\nSG.CHECK per-ip 203.0.113.7 COST 2\n\
             SG.CHECK per-ip 203.0.113.8\nSG.CHECK watched ann\nSG.CHECK watched ann\nSG.CHECK free 203.0.113.7\n\
             SG.CHECK all\nSG.CHECK all\n",
        )
        .await;
    let expected = [
        "0 2 1 -1 3600",
        "1 2 1 3600 3600",
        "0 2 1 -1 3600",
        "1 2 1 -1 3600",
        "0 2 2 -1 0",
        "0 2 0 -1 7200",
        "0 2 1 -1 3600",
        "0 1 0 -1 3600",
        "0 1 0 -1 3600",
        "0 -1 -1 -1 -1",
        "0 1 0 -1 3600",
        "1 1 0 3600 3600",
    ];
    assert_eq!(numbers(&told), expected, "{told}");
    let told = Client::of(LIMITS)
        .say("SG.CHECK all\nSG.RESET all\nSG.CHECK all\n")
        .await;
    assert!(
        told.contains("+OK\r\n")
            && numbers(&told.replace("+OK\r\n", ""))
                .iter()
                .all(|all| all.starts_with('0'))
    );
}

#[tokio::test]
async fn a_throttle_and_a_limit_never_share_a_counter() {
    let told = Client::of(LIMITS)
        .say("SG.CHECK watched ann\nCL.THROTTLE ann 0 1 3600\nCL.THROTTLE watched:ann 0 1 3600\n")
        .await;
    assert_eq!(numbers(&told), ["0 1 0 -1 3600"; 3]);
}

#[tokio::test]
async fn clients_introduce_themselves() {
    let mut client = Client::of("admin: off");
    client
        .ask(
            "PING\r\nPING a\r\n*2\r\n$4\r\nECHO\r\n$3\r\na b\r\n",
            "+PONG\r\n$1\r\na\r\n$3\r\na b\r\n",
        )
        .await;
    client
        .ask(
            "CLIENT SETNAME me\nCLIENT GETNAME\nSELECT 0\n",
            "+OK\r\n$2\r\nme\r\n+OK\r\n",
        )
        .await;
    client
        .ask("SELECT 1\n", "-ERR there is no database but 0\r\n")
        .await;
    client
        .ask("COMMAND COUNT\nCOMMAND DOCS\n", ":13\r\n*0\r\n")
        .await;
    client
        .ask("HELLO 3\n", "%7\r\n$6\r\nserver\r\n$10\r\nsluicegate\r\n")
        .await;
    let told = client
        .say("COMMAND DOCS\nCOMMAND INFO get\nHELLO 4\nHELLO 2 X\nAUTH a\nECHO\n")
        .await;
    for expected in [
        "%0\r\n",
        "*1\r\n_\r\n",
        "-NOPROTO ",
        "-ERR expected HELLO",
        "-ERR no token is asked",
        "-ERR the number",
    ] {
        assert!(told.contains(expected), "{expected} is not in {told}");
    }
}

#[tokio::test]
async fn a_word_that_is_no_command_is_told_and_the_conversation_goes_on() {
    let told = Client::of("admin: off")
        .say("*2\r\n$3\r\nGET\r\n$1\r\na\r\n*1\r\n$4\r\nPING\r\n")
        .await;
    assert_eq!(told, "-ERR unknown command \"GET\"\r\n+PONG\r\n");
}

#[tokio::test]
async fn a_request_of_a_browser_is_obeyed_in_nothing() {
    let told = Client::of(LIMITS)
        .say("POST / HTTP/1.1\r\nHost: a\r\n\r\nSG.RESET all\r\n")
        .await;
    assert_eq!(told, "-ERR unknown command \"POST\"\r\n");
}

#[tokio::test]
async fn what_is_no_command_ends_the_conversation_after_what_came_before() {
    let told = Client::of("admin: off")
        .say("PING\r\n*1\r\n$x\r\nPING\r\n")
        .await;
    assert_eq!(
        told,
        "+PONG\r\n-ERR no command: a count or a length is no whole number\r\n"
    );
    let told = Client::of("admin: off").say("QUIT\r\nPING\r\n").await;
    assert_eq!(told, "+OK\r\n");
}

#[tokio::test]
async fn strangers_get_nothing_but_the_door() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    std::fs::write(&path, "0123456789abcdef").unwrap();
    let stranger = || Client::with_token(LIMITS, Some(&path));
    let refused = "-NOAUTH show the token first: AUTH token\r\n";
    for line in [
        "SG.CHECK all",
        "CL.THROTTLE a 1 1 1",
        "ECHO a",
        "COMMAND",
        "CLIENT ID",
        "SELECT 0",
        "SG.RESET all",
    ] {
        assert_eq!(stranger().say(format!("{line}\n")).await, refused, "{line}");
    }
    assert_eq!(stranger().say("PING\nQUIT\n").await, "+PONG\r\n+OK\r\n");
    let told = stranger()
        .say("HELLO 3\nHELLO 3 AUTH default 0123456789abcdeF\nAUTH 0\nECHO a\n")
        .await;
    assert!(
        told.starts_with("-NOAUTH ")
            && told.matches("-WRONGPASS ").count() == 2
            && told.ends_with(refused),
        "{told}"
    );
    assert_eq!(
        stranger().say("AUTH 0123456789abcdef\nECHO a\n").await,
        "+OK\r\n$1\r\na\r\n"
    );
    assert_eq!(
        stranger()
            .say("AUTH default 0123456789abcdef\nECHO a\n")
            .await,
        "+OK\r\n$1\r\na\r\n"
    );
    let told = stranger()
        .say("HELLO 3 AUTH default 0123456789abcdef SETNAME me\nCLIENT GETNAME\n")
        .await;
    assert!(
        told.starts_with("%7\r\n") && told.ends_with("$2\r\nme\r\n"),
        "{told}"
    );
    let told = stranger()
        .say("AUTH 0123456789abcdef\nAUTH wrong\nECHO a\n")
        .await;
    assert!(
        told.ends_with(refused),
        "a wrong token is a step back: {told}"
    );
}

#[tokio::test(start_paused = true)]
async fn nobody_takes_for_ever_to_say_a_command_or_who_he_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    std::fs::write(&path, "0123456789abcdef").unwrap();
    let began = Instant::now();
    let mut client = Client::of("admin: off");
    // A silent client may stay for a day, and whole commands may come one by one.
    tokio::time::advance(Duration::from_secs(86_400)).await;
    client.ask("PING\r\n", "+PONG\r\n").await;
    client.ask("PI", "").await;
    for _ in 0..10 {
        tokio::time::advance(Duration::from_secs(3)).await;
        client.ask("NG\r\nPI", "+PONG\r\n").await;
    }
    drop(client);
    let mut slow = Client::of("admin: off");
    let begun = Instant::now();
    let mut told = Vec::new();
    for byte in b"*1\r\n$400\r\n" {
        let _ = slow.stream.write_all(&[*byte]).await;
        tokio::time::advance(Duration::from_secs(2)).await;
    }
    let _ = timeout(LONGEST, slow.stream.read_to_end(&mut told)).await;
    assert!(
        timeout(LONGEST, slow.served)
            .await
            .unwrap()
            .unwrap()
            .is_err()
    );
    assert!(
        begun.elapsed() < Duration::from_secs(30) && began.elapsed() > Duration::from_secs(86_400)
    );
    let stranger = Client::with_token(LIMITS, Some(&path));
    let begun = Instant::now();
    assert!(
        timeout(LONGEST, stranger.served)
            .await
            .unwrap()
            .unwrap()
            .is_err()
    );
    assert_eq!(begun.elapsed().as_secs(), 10);
}

#[tokio::test]
async fn a_process_that_ends_lets_its_clients_go() {
    let (state, ending) = state_of("admin: off");
    let (_stream, theirs) = duplex(64);
    let served = tokio::spawn(serve(state, theirs));
    ending.send_replace(true);
    timeout(LONGEST, served).await.unwrap().unwrap().unwrap();
}

/// A store that nobody ever reaches, with this policy.
fn away(policy: &str) -> String {
    format!(
        "{LIMITS}store: {{ kind: redis, on_failure: {policy}, redis: {{ endpoints: \"127.0.0.1:1\" }} }}\n"
    )
}

#[tokio::test]
async fn the_failure_policy_of_the_store_decides_while_it_is_away() {
    let asked = "PING\nCL.THROTTLE a 1 1 3600\nSG.CHECK per-ip 203.0.113.7\nPING\n";
    let told = Client::of(&away("closed")).say(asked).await;
    assert_eq!(told.matches("-UNAVAILABLE the store ").count(), 2, "{told}");
    assert!(
        told.starts_with("+PONG\r\n-") && told.ends_with("\r\n+PONG\r\n"),
        "in order: {told}"
    );
    let told = Client::of(&away("open")).say(asked).await;
    assert_eq!(
        numbers(&told.replace("+PONG\r\n", "")),
        ["0 2 -1 -1 -1", "0 -1 -1 -1 -1"]
    );
    let told = Client::of(&away("local")).say(asked).await;
    assert_eq!(
        numbers(&told.replace("+PONG\r\n", "")),
        ["0 2 1 -1 3600", "0 2 1 -1 3600"]
    );
    let told = Client::of(&away("open"))
        .say("SG.REFUND all\nSG.RESET all\n")
        .await;
    assert_eq!(told.matches("-UNAVAILABLE ").count(), 2, "{told}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn however_a_conversation_is_cut_its_answers_are_the_same(
        lines in proptest::collection::vec(proptest::sample::select(&[
            "PING\r\n", "*2\r\n$4\r\nECHO\r\n$5\r\na\r\nb \r\n", "HELLO 3\n", "CL.THROTTLE a 3 1 3600\r\n", "SG.CHECK all\n",
            "COMMAND INFO get\n", "GET\r\n", "*1\r\n$3\r\nGET\r\n", "*0\r\n", "\n", "*1\r\nx",
        ][..]), 0..12),
        cuts in proptest::collection::vec(any::<usize>(), 0..6),
    ) {
        let bytes = lines.concat().into_bytes();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).chain([0, bytes.len()]).collect();
        cuts.sort_unstable();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        // The number of a connection is its own.
        let same = |told: String| without_id(&told);
        let (whole, pieces) = runtime.block_on(async {
            let whole = Client::of(LIMITS).say(&bytes).await;
            let mut client = Client::of(LIMITS);
            for pair in cuts.windows(2) {
                if client.stream.write_all(&bytes[pair[0]..pair[1]]).await.is_err() {
                    break;
                }
                tokio::task::yield_now().await;
            }
            (whole, client.say("").await)
        });
        prop_assert_eq!(same(whole), same(pieces));
    }
}

/// An answer without the number that every connection has of its own.
fn without_id(told: &str) -> String {
    let mut parts = told.split("$2\r\nid\r\n");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| {
        all + part.split_once("\r\n").map_or("", |(_, rest)| rest)
    })
}
