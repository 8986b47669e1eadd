//! The front doors, and one question in the words of each.

use std::net::IpAddr;

use serde_json::{Value, json};
use sluicegate_server::messages::envoy::service::ratelimit::v3::RateLimitResponse;
use sluicegate_server::messages::envoy::service::ratelimit::v3::rate_limit_response::Code;
use sluicegate_testkit::HttpRequest;
use tonic::Status;

use crate::decisions;
use crate::envoy_rls;
use crate::resp;
use crate::running::Sluicegate;

/// A way to ask whether a request may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrontDoor {
    Http1,
    Http2,
    ForwardAuth,
    Json,
    Grpc,
    Resp,
    /// The tower layer, in the process of the test.
    Layer,
}

impl FrontDoor {
    pub const ALL: [Self; 7] = [
        Self::Http1,
        Self::Http2,
        Self::ForwardAuth,
        Self::Json,
        Self::Grpc,
        Self::Resp,
        Self::Layer,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Http1 => "proxy, HTTP/1",
            Self::Http2 => "proxy, HTTP/2",
            Self::ForwardAuth => "forward-auth",
            Self::Json => "JSON",
            Self::Grpc => "gRPC",
            Self::Resp => "RESP",
            Self::Layer => "tower layer",
        }
    }

    /// The label in `sluicegate_decisions_total`; `None` for the proxy, which counts requests, and
    /// for the layer, which counts nothing.
    pub fn protocol(self) -> Option<&'static str> {
        match self {
            Self::Http1 | Self::Http2 | Self::Layer => None,
            Self::ForwardAuth => Some("authorize"),
            Self::Json => Some("http"),
            Self::Grpc => Some("grpc"),
            Self::Resp => Some("resp"),
        }
    }

    /// The client that asks here: each door has a counter of its own.
    pub fn client(self) -> IpAddr {
        IpAddr::from([203, 0, 113, 10 + self as u8])
    }

    /// The trace that a question here belongs to.
    pub fn trace_id(self) -> String {
        format!("0af7651916cd43dd8448eb211c8031{:02x}", self as u8)
    }

    fn traceparent(self) -> String {
        format!("00-{}-b7ad6b7169203331-01", self.trace_id())
    }
}

/// How a limit finds its counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyedBy {
    /// `client_ip`, by the limit `per-client`.
    Address,
    /// `header:X-Tenant`, by the limit `per-tenant`. A question names no tenant unless its headers do.
    Tenant,
}

/// A request that every door is asked about.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    pub path: &'static str,
    pub headers: &'static [(&'static str, &'static str)],
    pub keyed_by: KeyedBy,
}

/// The answer of a door, in words that are the same at all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub verdict: String,
    /// What a client learns about its limit: `left 0/1, retry`, a part of it, or `-`.
    pub tells: String,
}

/// Asks a door of the running program.
pub fn ask(sluicegate: &Sluicegate, door: FrontDoor, question: &Question) -> Answer {
    match door {
        FrontDoor::Http1 => of_response(&request(door, question).send(sluicegate.proxy)),
        FrontDoor::Http2 => of_response(&request(door, question).send_http2(sluicegate.proxy)),
        FrontDoor::ForwardAuth => {
            let request = request_to("/v1/authorize/forward-auth", door, question).headers(&[
                "X-Forwarded-Method: GET".to_owned(),
                format!("X-Forwarded-Uri: {}", question.path),
                "X-Forwarded-Host: a.example".to_owned(),
            ]);
            of_response(&request.send(sluicegate.decisions.unwrap()))
        }
        FrontDoor::Json => ask_json(sluicegate, question),
        FrontDoor::Grpc => ask_grpc(sluicegate, question),
        FrontDoor::Resp => ask_resp(sluicegate, question),
        FrontDoor::Layer => panic!("the layer is not in the program"),
    }
}

fn request(door: FrontDoor, question: &Question) -> HttpRequest {
    request_to(question.path, door, question)
}

fn request_to(target: &str, door: FrontDoor, question: &Question) -> HttpRequest {
    let own = question.headers.iter();
    let own: Vec<String> = own
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    HttpRequest::get(target).headers(&own).headers(&[
        format!("X-Forwarded-For: {}", door.client()),
        format!("traceparent: {}", door.traceparent()),
    ])
}

fn of_response(response: &sluicegate_testkit::HttpResponse) -> Answer {
    of_http(response.status(), |name| {
        response.header(name).map(str::to_owned)
    })
}

/// The answer in a status and headers.
pub fn of_http(status: u16, header: impl Fn(&str) -> Option<String>) -> Answer {
    let verdict = match status {
        200 => "allowed",
        400 => "refused",
        401 => "unauthorized",
        403 => "denied",
        429 => "limited",
        503 => "unavailable",
        _ => {
            return Answer {
                verdict: format!("status {status}"),
                tells: "-".to_owned(),
            };
        }
    };
    let left = header("x-ratelimit-remaining").zip(header("x-ratelimit-limit"));
    Answer {
        verdict: verdict.to_owned(),
        tells: tells(left, header("retry-after").is_some()),
    }
}

fn tells(left: Option<(impl ToString, impl ToString)>, has_retry: bool) -> String {
    let left = left.map(|(left, most)| format!("left {}/{}", left.to_string(), most.to_string()));
    let retry = has_retry.then(|| "retry".to_owned());
    let parts: Vec<String> = left.into_iter().chain(retry).collect();
    if parts.is_empty() {
        "-".to_owned()
    } else {
        parts.join(", ")
    }
}

fn ask_json(sluicegate: &Sluicegate, question: &Question) -> Answer {
    let headers: serde_json::Map<String, Value> = question
        .headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), json!(value)))
        .collect();
    let subject = json!({ "subject": {
        "client_ip": FrontDoor::Json.client(), "path": question.path, "host": "a.example", "headers": headers,
    } });
    let line = format!("traceparent: {}", FrontDoor::Json.traceparent());
    let request = decisions::request("/v1/check", &[&line], &subject.to_string());
    let response = decisions::exchange(sluicegate, request.as_bytes());
    if response.status() != 200 {
        return of_response(&response);
    }
    let answer = decisions::body(&response);
    let limits = answer["limits"].as_array().unwrap();
    let verdict = match (&answer["allowed"], &answer["degraded"]) {
        (Value::Bool(true), _) => "allowed",
        _ if limits.iter().any(|limit| limit["allowed"] == false) => "limited",
        (_, Value::Bool(true)) => "unavailable",
        _ => "denied",
    };
    let left = limits
        .first()
        .map(|limit| (&limit["remaining"], &limit["limit"]));
    let wait = answer["retry_after_us"].as_u64();
    Answer {
        verdict: verdict.to_owned(),
        tells: tells(left, wait.is_some_and(|wait| wait > 0)),
    }
}

fn ask_grpc(sluicegate: &Sluicegate, question: &Question) -> Answer {
    let descriptor = match question.keyed_by {
        KeyedBy::Address => {
            envoy_rls::descriptor("remote_address", &FrontDoor::Grpc.client().to_string())
        }
        KeyedBy::Tenant => envoy_rls::descriptor("tenant", "acme"),
    };
    let traceparent = FrontDoor::Grpc.traceparent();
    let response = envoy_rls::client(sluicegate, async |channel| {
        let request = envoy_rls::request([descriptor]);
        envoy_rls::ask_with(&channel, request, Some(("traceparent", &traceparent))).await
    });
    match response {
        Ok(response) => of_rate_limit_response(&response),
        Err(status) => of_status(&status),
    }
}

fn of_rate_limit_response(response: &RateLimitResponse) -> Answer {
    let header = |name: &str| {
        let mut lines = response.response_headers_to_add.iter();
        lines
            .find(|line| line.key == name)
            .map(|line| line.value.clone())
    };
    let has_limit = response
        .statuses
        .iter()
        .any(|status| status.current_limit.is_some());
    let verdict = match (response.overall_code(), has_limit) {
        (Code::Ok, _) => "allowed",
        (_, true) => "limited",
        (_, false) => "denied",
    };
    let left = header("x-ratelimit-remaining").zip(header("x-ratelimit-limit"));
    Answer {
        verdict: verdict.to_owned(),
        tells: tells(left, header("retry-after").is_some()),
    }
}

fn of_status(status: &Status) -> Answer {
    let verdict = match status.code() {
        tonic::Code::Unavailable => "unavailable",
        tonic::Code::InvalidArgument => "refused",
        tonic::Code::PermissionDenied => "denied",
        tonic::Code::Unauthenticated => "unauthorized",
        other => {
            return Answer {
                verdict: format!("{other:?}"),
                tells: "-".to_owned(),
            };
        }
    };
    let has_retry = status.metadata().contains_key("retry-after");
    Answer {
        verdict: verdict.to_owned(),
        tells: tells(None::<(u8, u8)>, has_retry),
    }
}

fn ask_resp(sluicegate: &Sluicegate, question: &Question) -> Answer {
    let command = match question.keyed_by {
        KeyedBy::Address => format!("SG.CHECK per-client {}\r\n", FrontDoor::Resp.client()),
        KeyedBy::Tenant => "SG.CHECK per-tenant\r\n".to_owned(),
    };
    let reply = resp::say(sluicegate, command.as_bytes());
    let Some(numbers) = reply.strip_prefix("*5\r\n") else {
        let verdict = match reply.split(' ').next() {
            Some("-ERR") => "refused",
            Some("-UNAVAILABLE") => "unavailable",
            Some("-DENIED") => "denied",
            _ => &reply,
        };
        return Answer {
            verdict: verdict.to_owned(),
            tells: "-".to_owned(),
        };
    };
    let numbers: Vec<i64> = numbers
        .lines()
        .map(|line| line.trim_start_matches(':').parse().unwrap())
        .collect();
    let [is_denied, most, left, retry, _reset] = numbers[..] else {
        panic!("five numbers: {reply:?}");
    };
    Answer {
        verdict: if is_denied == 1 { "limited" } else { "allowed" }.to_owned(),
        tells: tells((left >= 0).then_some((left, most)), retry >= 0),
    }
}
