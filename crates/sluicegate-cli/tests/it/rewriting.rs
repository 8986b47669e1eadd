//! The request that a server gets, in either version on both sides.

use sluicegate_testkit::{HttpRequest, UpstreamProtocol, UpstreamRecorder};

use super::running::Sluicegate;

fn in_front_of(upstream: &UpstreamRecorder, more: &str) -> Sluicegate {
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
    for protocol in UpstreamProtocol::ALL {
        let upstream = UpstreamRecorder::start_with(protocol);
        let sluicegate = in_front_of(&upstream, "");
        let answer = sluicegate.exchange(REQUEST);
        assert_eq!(answer.status(), 200, "{answer}");
        let recorded = upstream.only_request();
        assert_eq!(
            (recorded.method.as_str(), &recorded.body[..]),
            ("POST", &b"hi"[..])
        );
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
            assert_eq!(
                recorded.header_values(name),
                values,
                "{name} for {protocol:?}"
            );
        }
        assert_eq!(recorded.header_values("x-request-id").len(), 1);
        assert_eq!(recorded.target, "/a?b");
        match protocol {
            UpstreamProtocol::Http1 => {
                assert_eq!(recorded.version, "HTTP/1.1");
                assert_eq!(recorded.header_values("host"), ["a.example:8443"]);
                assert_eq!(recorded.header_values("transfer-encoding"), ["chunked"]);
            }
            UpstreamProtocol::Http2 => {
                assert_eq!(recorded.version, "HTTP/2");
                assert_eq!(recorded.authority.as_deref(), Some("a.example:8443"));
                assert_eq!(
                    recorded
                        .header("host")
                        .or(recorded.header("transfer-encoding")),
                    None
                );
            }
        }
    }
}

#[test]
fn what_a_trusted_proxy_says_is_kept_and_added_to() {
    for protocol in UpstreamProtocol::ALL {
        let upstream = UpstreamRecorder::start_with(protocol);
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
        assert_eq!(answer.status(), 200, "{answer}");
        let recorded = upstream.only_request();
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
            assert_eq!(
                recorded.header_values(name),
                [value],
                "{name} for {protocol:?}"
            );
        }
    }
}

#[test]
fn a_client_that_speaks_http2_is_told_of_as_well() {
    for protocol in UpstreamProtocol::ALL {
        let upstream = UpstreamRecorder::start_with(protocol);
        let sluicegate = in_front_of(&upstream, "");
        let host = sluicegate.proxy.to_string();
        let answer = HttpRequest::post("/a?b", "hi")
            .host(&host)
            .headers(&["X-Forwarded-For: 203.0.113.9", "Content-Length: 2"])
            .send_http2(sluicegate.proxy);
        assert!(answer.text.starts_with("HTTP/2 200"), "{answer}");
        let recorded = upstream.only_request();
        assert_eq!(recorded.body, b"hi");
        for (name, value) in [
            ("x-forwarded-for", "127.0.0.1"),
            ("x-forwarded-proto", "http"),
            ("x-forwarded-host", &host),
            ("via", "2 sluicegate"),
            ("content-length", "2"),
        ] {
            assert_eq!(
                recorded.header_values(name),
                [value],
                "{name} for {protocol:?}"
            );
        }
        let named = match protocol {
            UpstreamProtocol::Http1 => recorded.header("host"),
            UpstreamProtocol::Http2 => recorded.authority.as_deref(),
        };
        assert_eq!(named, Some(host.as_str()));
    }
}

/// About the server as a whole, not about a path of it.
#[test]
fn a_question_about_the_server_as_a_whole_is_passed_on() {
    for protocol in UpstreamProtocol::ALL {
        let upstream = UpstreamRecorder::start_with(protocol);
        let sluicegate = in_front_of(&upstream, "");
        let answer = sluicegate
            .exchange(b"OPTIONS * HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
        assert_eq!(answer.status(), 200, "{protocol:?}: {answer}");
        let recorded = upstream.only_request();
        assert_eq!(
            (recorded.method.as_str(), recorded.target.as_str()),
            ("OPTIONS", "*"),
            "{protocol:?}"
        );
        for other in [
            "GET * HTTP/1.1",
            "OPTIONS ** HTTP/1.1",
            "OPTIONS *?a HTTP/1.1",
        ] {
            let answer = sluicegate.exchange(
                format!("{other}\r\nHost: a.example\r\nConnection: close\r\n\r\n").as_bytes(),
            );
            assert_eq!(answer.status(), 400, "{other}: {answer}");
        }
        assert_eq!(upstream.count(), 1);
    }
}
