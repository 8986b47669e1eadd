//! What a server gets to see of a request, whatever either side speaks.

use http::{HeaderMap, Response, Version};
use http_body_util::Full;

use super::protocols::curl;
use super::running::{Sluicegate, status};
use super::upstream::{Seen, Speaks, Upstream};

fn upstream(speaks: Speaks) -> Upstream {
    Upstream::speaking(speaks, |_| Response::new(Full::from("ok")))
}

fn in_front_of(upstream: &Upstream, more: &str) -> Sluicegate {
    Sluicegate::start(&format!(
        "
proxy: {{ listen: '127.0.0.1:0', upstream: '{}' }}
admin: off
{more}
limits:
  - {{ name: per-client, key: [client_ip], rate: 1000/s, burst: 1000 }}
",
        upstream.url()
    ))
}

fn only_one(upstream: &Upstream) -> Seen {
    let seen = upstream.seen();
    assert_eq!(seen.len(), 1);
    seen[0].clone()
}

fn lines(headers: &HeaderMap, name: &str) -> Vec<String> {
    headers
        .get_all(name)
        .iter()
        .map(|line| line.to_str().unwrap().to_owned())
        .collect()
}

/// Nobody before us is trusted, so only our word counts; what belongs to the client's connection stays there.
const REQUEST: &[u8] = b"POST /a?b HTTP/1.1\r
Host: a.example:8443\r
Connection: close, X-Hop, X-Forwarded-For\r
X-Hop: 1\r
Keep-Alive: timeout=5\r
Proxy-Connection: keep-alive\r
Proxy-Authorization: Basic eA==\r
Proxy: http://203.0.113.1\r
TE: deflate, trailers\r
Expect: 100-continue\r
Transfer-Encoding: chunked\r
X-Forwarded-For: 203.0.113.9\r
X-Forwarded-Proto: https\r
X-Forwarded-Host: b.example\r
X-Forwarded-Port: 1\r
X-Forwarded-Prefix: /admin\r
X-Real-IP: 203.0.113.9\r
Forwarded: for=203.0.113.9\r
Via: 1.0 other\r
X-Own: stays\r
\r
2\r\nhi\r\n0\r\n\r\n";

#[test]
fn a_server_is_told_who_asked_and_nothing_of_the_connection() {
    for speaks in [Speaks::Http1, Speaks::Http2] {
        let upstream = upstream(speaks);
        let sluicegate = in_front_of(&upstream, "");
        let answer = sluicegate.exchange(REQUEST);
        assert!(answer.contains("HTTP/1.1 200"), "{answer}");
        let Seen { head, body, .. } = only_one(&upstream);
        assert_eq!((head.method.as_str(), body.as_ref()), ("POST", &b"hi"[..]));
        let headers = &head.headers;
        let expected = [
            ("x-forwarded-for", &["127.0.0.1"][..]),
            ("x-forwarded-proto", &["http"]),
            ("x-forwarded-host", &["a.example:8443"]),
            ("x-forwarded-port", &["8443"]),
            ("x-forwarded-prefix", &[]),
            ("x-real-ip", &["127.0.0.1"]),
            (
                "forwarded",
                &["for=127.0.0.1;host=\"a.example:8443\";proto=http"],
            ),
            ("via", &["1.0 other", "1.1 sluicegate"]),
            ("te", &["trailers"]),
            ("x-own", &["stays"]),
            ("connection", &[]),
            ("x-hop", &[]),
            ("keep-alive", &[]),
            ("proxy-connection", &[]),
            ("proxy-authorization", &[]),
            ("proxy", &[]),
            ("expect", &[]),
        ];
        for (name, values) in expected {
            assert_eq!(lines(headers, name), values, "{name} for {speaks:?}");
        }
        assert_eq!(lines(headers, "x-request-id").len(), 1);
        match speaks {
            Speaks::Http1 => {
                assert_eq!(
                    (head.version, head.uri.to_string().as_str()),
                    (Version::HTTP_11, "/a?b")
                );
                assert_eq!(lines(headers, "host"), ["a.example:8443"]);
                assert_eq!(lines(headers, "transfer-encoding"), ["chunked"]);
            }
            Speaks::Http2 => {
                assert_eq!(head.version, Version::HTTP_2);
                assert_eq!(head.uri.to_string(), "http://a.example:8443/a?b");
                assert!(
                    lines(headers, "host").is_empty()
                        && lines(headers, "transfer-encoding").is_empty()
                );
            }
        }
    }
}

#[test]
fn what_a_trusted_proxy_says_is_kept_and_added_to() {
    for speaks in [Speaks::Http1, Speaks::Http2] {
        let upstream = upstream(speaks);
        let sluicegate = in_front_of(&upstream, "client_ip: { trusted_proxies: ['127.0.0.0/8'] }");
        let answer = sluicegate.get(
            "/",
            &[
                "X-Forwarded-For: 203.0.113.9",
                "X-Forwarded-Proto: https",
                "X-Forwarded-Host: b.example",
                "X-Forwarded-Port: 8443",
                "Forwarded: for=203.0.113.9",
            ],
        );
        assert_eq!(status(&answer), 200, "{answer}");
        let headers = only_one(&upstream).head.headers;
        for (name, value) in [
            ("x-forwarded-for", "203.0.113.9, 127.0.0.1"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "b.example"),
            ("x-forwarded-port", "8443"),
            ("x-real-ip", "203.0.113.9"),
            (
                "forwarded",
                "for=203.0.113.9, for=127.0.0.1;host=a.example;proto=http",
            ),
        ] {
            assert_eq!(lines(&headers, name), [value], "{name} for {speaks:?}");
        }
    }
}

#[test]
fn a_client_that_speaks_http2_is_told_of_as_well() {
    for speaks in [Speaks::Http1, Speaks::Http2] {
        let upstream = upstream(speaks);
        let sluicegate = in_front_of(&upstream, "");
        let host = sluicegate.proxy.to_string();
        let url = format!("http://{host}/a?b");
        let answer = curl(&[
            "--http2-prior-knowledge",
            "-d",
            "hi",
            "-H",
            "X-Forwarded-For: 203.0.113.9",
            &url,
        ]);
        assert!(answer.starts_with("HTTP/2 200"), "{answer}");
        let Seen { head, body, .. } = only_one(&upstream);
        assert_eq!(body.as_ref(), b"hi");
        for (name, value) in [
            ("x-forwarded-for", "127.0.0.1"),
            ("x-forwarded-proto", "http"),
            ("x-forwarded-host", &host),
            ("via", "2 sluicegate"),
            ("content-length", "2"),
        ] {
            assert_eq!(lines(&head.headers, name), [value], "{name} for {speaks:?}");
        }
        let named = match speaks {
            Speaks::Http1 => lines(&head.headers, "host").concat(),
            Speaks::Http2 => head.uri.authority().unwrap().to_string(),
        };
        assert_eq!(named, host);
    }
}

/// About the server as a whole, not about a path of it.
#[test]
fn a_question_about_the_server_as_a_whole_is_passed_on() {
    for speaks in [Speaks::Http1, Speaks::Http2] {
        let upstream = upstream(speaks);
        let sluicegate = in_front_of(&upstream, "");
        let answer = sluicegate
            .exchange(b"OPTIONS * HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
        assert_eq!(status(&answer), 200, "{speaks:?}: {answer}");
        let head = only_one(&upstream).head;
        assert_eq!(
            (head.method.as_str(), head.uri.path()),
            ("OPTIONS", "*"),
            "{speaks:?}"
        );
        for other in [
            "GET * HTTP/1.1",
            "OPTIONS ** HTTP/1.1",
            "OPTIONS *?a HTTP/1.1",
        ] {
            let answer = sluicegate.exchange(
                format!("{other}\r\nHost: a.example\r\nConnection: close\r\n\r\n").as_bytes(),
            );
            assert_eq!(status(&answer), 400, "{other}: {answer}");
        }
        assert_eq!(upstream.count(), 1);
    }
}
