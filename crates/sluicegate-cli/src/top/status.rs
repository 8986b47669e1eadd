//! Fetches and parses the numbers of `top`. Every text is made safe to print here, so `draw` and `table`
//! need not think of it.

use serde_json::{Value, json};

use super::Order;
use crate::admin_args::{number, seconds, text};
use crate::admin_client::{AdminClient, encoded};
use crate::overrides;

/// Order and filter of the keys to fetch.
#[derive(Clone, Debug)]
pub struct TopQuery {
    pub by: Order,
    pub limit: Option<String>,
}

/// The numbers at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatusReport {
    /// True while the store is unavailable and the failure policy decides.
    pub is_degraded: bool,
    /// Version and the first digits of the hash.
    pub config: String,
    /// Replicas that share the store, this one included.
    pub replicas: usize,
    /// Open client connections of the proxy.
    pub connections: u64,
    /// Kind, state and latency of the store, in one line.
    pub store: String,
    /// Requests per second over the last five minutes, the newest last.
    pub allowed: Vec<u64>,
    pub denied: Vec<u64>,
    pub limits: Vec<LimitRates>,
    pub keys: Vec<KeyCounts>,
    /// Bans and overrides in force, one line each.
    pub orders: Vec<String>,
}

/// One limit, with its requests per second, the newest last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LimitRates {
    pub name: String,
    /// `enforce` or `shadow`.
    pub mode: String,
    pub allowed: Vec<u64>,
    pub denied: Vec<u64>,
}

/// One key and its estimated counts over the last minutes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeyCounts {
    /// The key as it is shown: limit, colon, escaped parts.
    pub text: String,
    pub requests: u64,
    pub denied: u64,
    /// The limit and the raw key parts, for a reset; never printed. `None` for a counter without a key.
    pub name: Option<(String, Vec<String>)>,
}

/// Statistics, top keys, bans and overrides in one JSON object.
pub fn fetch_json(client: &AdminClient, query: &TopQuery) -> Result<Value, String> {
    let limit = query
        .limit
        .as_ref()
        .map(|limit| format!("&limit={}", encoded(limit)))
        .unwrap_or_default();
    let stats = client.get("/v1/stats?history=true")?;
    let top = client.get(&format!("/v1/top?by={}&n=50{limit}", query.by.name()))?;
    let orders = client.get("/v1/orders")?;
    Ok(json!({ "stats": stats, "top": top, "orders": orders["orders"] }))
}

/// The same, parsed.
pub fn fetch_status(client: &AdminClient, query: &TopQuery) -> Result<StatusReport, String> {
    fetch_json(client, query).map(|response| parse_status(&response))
}

/// Parses the JSON of [`fetch_json`]. Missing fields are empty, so an older or newer server still works.
pub fn parse_status(response: &Value) -> StatusReport {
    let stats = &response["stats"];
    let history = &stats["history"];
    let limits = list(&stats["limits"]).map(|limit| {
        let past = list(&history["limits"]).find(|past| past["name"] == limit["name"]);
        let numbers = |name: &str| past.map(|past| numbers(&past[name])).unwrap_or_default();
        let (allowed, denied) = (numbers("allowed"), numbers("denied"));
        LimitRates {
            name: text(&limit["name"]),
            mode: text(&limit["mode"]),
            allowed,
            denied,
        }
    });
    let keys = list(&response["top"]["keys"]).map(|key| KeyCounts {
        text: text(&key["text"]),
        requests: number(&key["requests"]),
        denied: number(&key["denied"]),
        name: name_of(key),
    });
    let hash: String = text(&stats["config"]["hash"]).chars().take(8).collect();
    StatusReport {
        is_degraded: stats["store"]["degraded"] == true,
        config: format!("version {} ({hash})", number(&stats["config"]["version"])),
        replicas: list(&stats["replicas"]).count(),
        connections: number(&stats["connections"]),
        store: store_line(&stats["store"], history),
        allowed: numbers(&history["allowed"]),
        denied: numbers(&history["denied"]),
        limits: limits.collect(),
        keys: keys.collect(),
        orders: list(&response["orders"])
            .map(|order| overrides::line(order).trim_end().to_owned())
            .collect(),
    }
}

/// Kind, state, latency and outages of the store, in one line.
fn store_line(store: &Value, history: &Value) -> String {
    let kind = text(&store["kind"]);
    let down: Vec<String> = list(&store["nodes"])
        .filter(|node| node["up"] == false)
        .map(|node| text(&node["endpoint"]))
        .collect();
    let latency = &store["latency"];
    let latency_text = match number(&latency["count"]) {
        0 => String::new(),
        _ => format!(
            ", latency p50 {} µs, p99 {} µs",
            number(&latency["p50_us"]),
            number(&latency["p99_us"])
        ),
    };
    let outage_seconds = numbers(&history["degraded"])
        .iter()
        .filter(|degraded| **degraded > 0)
        .count();
    let outage = if outage_seconds > 0 {
        format!(
            ", unavailable for {} of the last 5 min",
            seconds(outage_seconds as u64)
        )
    } else {
        String::new()
    };
    let down = if down.is_empty() {
        String::new()
    } else {
        format!(", down: {}", down.join(" "))
    };
    let state = if store["degraded"] == true {
        "degraded"
    } else {
        "healthy"
    };
    format!("{kind} {state}{down}{latency_text}{outage}")
}

/// The limit and the key parts of a top key.
fn name_of(key: &Value) -> Option<(String, Vec<String>)> {
    let parts = key["key"]
        .as_array()?
        .iter()
        .map(|part| part.as_str().map(str::to_owned));
    Some((
        key["limit"].as_str()?.to_owned(),
        parts.collect::<Option<_>>()?,
    ))
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn numbers(value: &Value) -> Vec<u64> {
    list(value).map(number).collect()
}

/// Requests per second, averaged over the last five seconds and rounded up, so that one request shows.
pub fn rate(values: &[u64]) -> u64 {
    const SECONDS: usize = 5;
    let last = &values[values.len().saturating_sub(SECONDS)..];
    if last.is_empty() {
        0
    } else {
        last.iter().sum::<u64>().div_ceil(last.len() as u64)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A response with a hostile key and a ban.
    pub fn sample_status() -> Value {
        json!({
            "stats": {
                "config": { "version": 3, "hash": "9c41f7d2a7b3e8" }, "connections": 12,
                "store": { "kind": "redis", "degraded": true, "nodes": [{ "endpoint": "127.0.0.1:6379", "up": false }],
                    "latency": { "count": 9, "p50_us": 180, "p99_us": 900 } },
                "limits": [{ "name": "per-client", "mode": "enforce" }, { "name": "sign-in", "mode": "shadow" }],
                "replicas": [{ "id": "a" }, { "id": "b" }],
                "history": { "allowed": [0, 5, 10], "denied": [0, 0, 40], "degraded": [0, 1, 1],
                    "limits": [{ "name": "per-client", "allowed": [1, 2, 3], "denied": [0, 0, 9] }] },
            },
            "top": { "keys": [
                { "limit": "per-client", "key": ["203.0.113.7"], "text": "per-client:203.0.113.7", "requests": 1000, "denied": 900 },
                { "limit": "tenant", "key": ["\u{1b}[2J"], "text": "tenant:\u{1b}[2J", "requests": 10, "denied": 1 },
                { "limit": "per-client", "key": null, "text": "per-client:?", "requests": 2, "denied": 0 },
            ] },
            "orders": [{ "id": "b-1", "kind": "ban", "what": "client_ip 203.0.113.0/24", "until": "later", "by": "ann", "reason": "scraping" }],
        })
    }

    #[test]
    fn a_response_is_parsed_and_made_safe_to_print() {
        let status = parse_status(&sample_status());
        assert!(status.is_degraded);
        assert_eq!(status.config, "version 3 (9c41f7d2)");
        assert_eq!(
            status.store,
            "redis degraded, down: 127.0.0.1:6379, latency p50 180 µs, p99 900 µs, unavailable for 2 s of the last 5 min"
        );
        assert_eq!(status.limits[0].denied, [0, 0, 9]);
        assert_eq!(status.limits[1].allowed, [0; 0]);
        assert_eq!(status.keys[1].text, "tenant:\\u{1b}[2J");
        assert_eq!(
            status.keys[1].name,
            Some(("tenant".to_owned(), vec!["\u{1b}[2J".to_owned()])),
            "the raw key"
        );
        assert_eq!(status.keys[2].name, None);
        assert_eq!(
            status.orders,
            ["b-1  client_ip 203.0.113.0/24: refused until later, by ann: scraping"]
        );
    }

    #[test]
    fn a_response_of_another_shape_is_an_empty_report() {
        for other in [
            json!(null),
            json!([]),
            json!({ "stats": 7, "top": { "keys": [1, null] }, "orders": "x" }),
        ] {
            assert_eq!(parse_status(&other).allowed, [0; 0]);
        }
    }

    #[test]
    fn a_rate_covers_the_last_seconds_and_is_rounded_up() {
        assert_eq!(rate(&[]), 0);
        assert_eq!(rate(&[100, 0, 0, 0, 0, 1]), 1);
    }
}
