//! What the door says, taken apart. Every text is made harmless here.

use serde_json::{Value, json};

use super::Order;
use crate::admin_args::{number, seconds, text};
use crate::admin_client::{AdminClient, encoded};
use crate::overrides;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct TopQuery {
    pub by: Order,
    pub limit: Option<String>,
}

/// One moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatusReport {
    pub is_degraded: bool,
    pub config: String,
    pub replicas: usize,
    pub connections: u64,
    pub store: String,
    /// Per second, the newest last.
    pub allowed: Vec<u64>,
    pub denied: Vec<u64>,
    pub limits: Vec<LimitRates>,
    pub keys: Vec<KeyCounts>,
    pub orders: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct LimitRates {
    pub name: String,
    pub mode: String,
    pub allowed: Vec<u64>,
    pub denied: Vec<u64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeyCounts {
    pub text: String,
    pub requests: u64,
    pub denied: u64,
    /// The limit and the parts as they are, for asking about it; never shown. `None` where it cannot be named.
    pub name: Option<(String, Vec<String>)>,
}

/// Everything at once, as it comes.
pub fn fetch_json(remote: &AdminClient, question: &TopQuery) -> Result<Value, String> {
    let limit = question
        .limit
        .as_ref()
        .map(|limit| format!("&limit={}", encoded(limit)))
        .unwrap_or_default();
    let stats = remote.get("/v1/stats?history=true")?;
    let top = remote.get(&format!("/v1/top?by={}&n=50{limit}", question.by.name()))?;
    let orders = remote.get("/v1/orders")?;
    Ok(json!({ "stats": stats, "top": top, "orders": orders["orders"] }))
}

/// Everything at once, taken apart.
pub fn fetch_status(remote: &AdminClient, question: &TopQuery) -> Result<StatusReport, String> {
    fetch_json(remote, question).map(|answer| parse_status(&answer))
}

pub fn parse_status(answer: &Value) -> StatusReport {
    let stats = &answer["stats"];
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
    let keys = list(&answer["top"]["keys"]).map(|key| KeyCounts {
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
        store: store(&stats["store"], history),
        allowed: numbers(&history["allowed"]),
        denied: numbers(&history["denied"]),
        limits: limits.collect(),
        keys: keys.collect(),
        orders: list(&answer["orders"])
            .map(|order| overrides::line(order).trim_end().to_owned())
            .collect(),
    }
}

/// What the store is like, in a line.
fn store(store: &Value, history: &Value) -> String {
    let kind = text(&store["kind"]);
    let down: Vec<String> = list(&store["nodes"])
        .filter(|node| node["up"] == false)
        .map(|node| text(&node["endpoint"]))
        .collect();
    let latency = &store["latency"];
    let took = match number(&latency["count"]) {
        0 => String::new(),
        _ => format!(
            ", half within {} µs, 99 of 100 within {} µs",
            number(&latency["p50_us"]),
            number(&latency["p99_us"])
        ),
    };
    let away = numbers(&history["degraded"])
        .iter()
        .filter(|away| **away > 0)
        .count();
    let away = if away > 0 {
        format!(", away for {} of the last 5 min", seconds(away as u64))
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
        "answers"
    };
    format!("{kind} {state}{down}{took}{away}")
}

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

/// Units per second over the last moments.
pub fn rate(values: &[u64]) -> u64 {
    const MOMENTS: usize = 5;
    let last = &values[values.len().saturating_sub(MOMENTS)..];
    if last.is_empty() {
        0
    } else {
        last.iter().sum::<u64>().div_ceil(last.len() as u64)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A moment with a hostile key and an order.
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
    fn an_answer_is_taken_apart_and_nothing_in_it_acts() {
        let status = parse_status(&sample_status());
        assert!(status.is_degraded);
        assert_eq!(status.config, "version 3 (9c41f7d2)");
        assert_eq!(
            status.store,
            "redis degraded, down: 127.0.0.1:6379, half within 180 µs, 99 of 100 within 900 µs, away for 2 s of the last 5 min"
        );
        assert_eq!(status.limits[0].denied, [0, 0, 9]);
        assert_eq!(status.limits[1].allowed, [0; 0]);
        assert_eq!(status.keys[1].text, "tenant:\\u{1b}[2J");
        assert_eq!(
            status.keys[1].name,
            Some(("tenant".to_owned(), vec!["\u{1b}[2J".to_owned()])),
            "asked for as it is"
        );
        assert_eq!(status.keys[2].name, None);
        assert_eq!(
            status.orders,
            ["b-1  client_ip 203.0.113.0/24: refused until later, by ann: scraping"]
        );
    }

    #[test]
    fn an_answer_of_another_shape_is_an_empty_moment() {
        for other in [
            json!(null),
            json!([]),
            json!({ "stats": 7, "top": { "keys": [1, null] }, "orders": "x" }),
        ] {
            assert_eq!(parse_status(&other).allowed, [0; 0]);
        }
    }

    #[test]
    fn a_rate_is_of_the_last_moments_and_rounded_up() {
        assert_eq!(rate(&[]), 0);
        assert_eq!(rate(&[100, 0, 0, 0, 0, 1]), 1);
    }
}
