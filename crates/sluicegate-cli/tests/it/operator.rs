//! The admin API of the running program: inspect, explain, reset, ban, override, watch.

mod automatic_bans;
mod bans_and_overrides;
mod documented;
mod explain;
mod series;
mod views;
mod watch;

use std::net::SocketAddr;

use serde_json::Value;
use sluicegate_testkit::{HttpRequest, HttpResponse};

use super::running::Sluicegate;

const CONFIG: &str = "
proxy: { listen: '127.0.0.1:0' }
admin: { listen: '127.0.0.1:0' }
decisions: { http: '127.0.0.1:0' }
client_ip: { trusted_proxies: [127.0.0.1/32] }
limits:
  - { name: per-client, key: [client_ip], rate: 1/h, burst: 5 }
  - { name: watched, key: ['header:X-Tenant'], rate: 1/h, burst: 2, mode: shadow, on_missing_key: shared }
";

/// A request with a JSON body to the admin API, and the status and JSON of the response.
#[track_caller]
pub fn ask(sluicegate: &Sluicegate, method: &str, path: &str, body: Option<&str>) -> (u16, Value) {
    let address = sluicegate.admin.expect("the admin API is on");
    let answer = exchange(address, method, path, "application/json", body);
    let json = serde_json::from_str(answer.body());
    (
        answer.status(),
        json.unwrap_or_else(|error| panic!("{error}: {answer}")),
    )
}

/// The response to a request with a body of this type.
fn exchange(
    address: SocketAddr,
    method: &str,
    path: &str,
    content_type: &str,
    body: Option<&str>,
) -> HttpResponse {
    let mut request = HttpRequest::new(method, path).host(address);
    if let Some(body) = body {
        request = request
            .headers(&[format!("Content-Type: {content_type}")])
            .body(body);
    }
    request.send(address)
}

/// The status that a client at this address gets.
fn from(sluicegate: &Sluicegate, client_ip: &str) -> u16 {
    sluicegate
        .get("/", &[&format!("X-Forwarded-For: {client_ip}")])
        .status()
}
