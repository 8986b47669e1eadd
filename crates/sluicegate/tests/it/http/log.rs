//! The log: one line for each request over its limit.

use sluicegate::{Limit, Quota};

use super::{App, get};
use crate::log::Log;

fn once() -> Limit {
    Limit::per_client("per-ip", Quota::per_hour(1))
}
#[tokio::test]
async fn a_rejection_is_one_line_with_the_real_address() {
    let log = Log::default();
    let _guard = log.start();
    let app = App::new([once()]);
    app.send(get("203.0.113.50", "/W").header("host", "Y.Z:80"))
        .await;
    assert_eq!(log.lines(), [""; 0], "what passes is not logged");
    app.send(get("203.0.113.50", "/W?secret=1").header("host", "Y.Z:80"))
        .await;
    app.send(get("203.0.113.50", "/W")).await;
    let written = log.lines();
    let prefix = written[0]
        .strip_suffix("RATE_LIMIT client_ip=203.0.113.50 host=y.z path=/W status=429")
        .unwrap();
    assert_eq!(
        written[1],
        format!("{prefix}RATE_LIMIT client_ip=203.0.113.50 host=- path=/W status=429")
    );
    assert!(
        prefix.contains("INFO") && prefix.contains("sluicegate"),
        "{prefix}"
    );
    assert_eq!(written.len(), 2);
}
#[tokio::test]
async fn the_log_has_the_address_and_not_its_prefix() {
    let log = Log::default();
    let _guard = log.start();
    let app = App::new([once()]);
    app.send(get("2001:db8::1", "/")).await;
    app.send(get("2001:db8::2", "/")).await;
    assert!(log.lines()[0].ends_with("RATE_LIMIT client_ip=2001:db8::2 host=- path=/ status=429"));
}
#[tokio::test]
async fn no_path_or_host_breaks_the_line() {
    let log = Log::default();
    let _guard = log.start();
    let app = App::new([once()]);
    app.send(get("203.0.113.50", "/")).await;
    for (host, path) in [
        ("a\"b", "/a\"b"),
        ("a\tb", "/caf\u{e9}"),
        ("a=b status=200", "/status=200"),
        ("\u{e9}", "/{\"a\":1}"),
        ("[31m", "/%1B[31m"),
        ("a%0Ab", "/a%25b"),
    ] {
        let status = app
            .status(get("203.0.113.50", path).header("host", host.as_bytes()))
            .await;
        let written = log.lines();
        assert_eq!(written.len(), usize::from(status == 429), "{path}");
        for line in written {
            assert!(
                line.is_ascii() && !line.contains(['"', '\u{1b}']),
                "{line:?}"
            );
            let (_, message) = line.split_once("RATE_LIMIT ").unwrap();
            assert_eq!(message.split(' ').count(), 4, "{line:?}");
            assert!(message.ends_with(" status=429"), "{line:?}");
        }
    }
}
#[tokio::test]
async fn the_line_can_be_switched_off_and_other_answers_have_none() {
    let log = Log::default();
    let _guard = log.start();
    let quiet = App::with([once()], |layer| layer.log_rejections(false));
    quiet.send(get("203.0.113.50", "/")).await;
    assert_eq!(quiet.status(get("203.0.113.50", "/")).await, 429);
    assert_eq!(quiet.status(get("203.0.113.50", "/a%2Fb")).await, 400);
    assert_eq!(log.lines(), [""; 0]);
}
#[tokio::test]
async fn a_server_that_hides_its_peers_is_told_once() {
    let log = Log::default();
    let _guard = log.start();
    let app = App::new([once()]);
    for _ in 0..3 {
        assert_eq!(app.status(http::Request::get("/")).await, 400);
    }
    let written = log.lines();
    assert_eq!(written.len(), 1);
    assert!(
        written[0].contains("WARN") && written[0].contains("requests carry no peer address"),
        "{}",
        written[0]
    );
}
