//! Statistics for the admin API: limits, store, replicas, top keys, and the configuration in force.

use std::sync::atomic::Ordering;
use std::time::SystemTime;

use serde_json::{Map, Value, json};
use sluicegate::NodeState;
use sluicegate_config::{counted_in_words, limit_quota_in_words};
use sluicegate_core::{Counting, Limit, Mode};
use sluicegate_gate::auth::{KeysGap, KeysStatus};
use sluicegate_gate::store::AnyStore;
use sluicegate_gate::telemetry::metrics::{DecisionAnswer, Label, RequestOutcome};
use sluicegate_gate::telemetry::rfc3339;
use sluicegate_gate::top_keys::{TopKey, TopKeysBy};

use super::history::StatsSample;
use super::{Operator, now_ms};
use crate::reload::ConfigStatus;

impl Operator {
    /// The numbers of `/v1/stats`, with the history of five minutes if wanted.
    pub(crate) fn stats(&self, with_history: bool) -> Value {
        let snapshot = self.gate.snapshot();
        let status = self.reloader.status();
        let limits: Vec<Value> = snapshot
            .policy
            .limits()
            .iter()
            .zip(snapshot.counts.totals())
            .map(|(limit, totals)| {
                json!({
                    "name": limit.name, "mode": if limit.mode == Mode::Enforce { "enforce" } else { "shadow" },
                    "words": words(limit),
                    "allowed": totals.allowed, "denied": totals.denied, "shadow_denied": totals.shadow_denied,
                })
            })
            .collect();
        let metrics = &self.gate.metrics;
        let mut stats = json!({
            "now": rfc3339(SystemTime::now()), "started_at": rfc3339(self.started_at),
            "build": env!("CARGO_PKG_VERSION"), "replica": self.replicas.id,
            "config": config(&status), "store": self.store(),
            "requests": by_label::<RequestOutcome>(&metrics.requests_so_far()),
            "decisions": by_label::<DecisionAnswer>(&metrics.decisions_so_far()),
            "connections": metrics.connections(), "limits": limits,
            "jwks": snapshot.auth.keys_status().map(|keys| jwks(&keys)),
            "replicas": self.replicas.json(now_ms()), "orders": self.gate.overrides.current().all.len(),
            "watching": self.gate.decision_stream.watching(),
        });
        if with_history {
            stats["history"] = self
                .history
                .lock()
                .expect("no holder of this lock panics")
                .json();
        }
        stats
    }

    /// The configuration in force, without secrets.
    pub(crate) fn config(&self) -> Value {
        let status = self.reloader.status();
        let mut json = config(&status);
        json["file"] = status
            .file
            .as_ref()
            .map(|file| file.display().to_string())
            .into();
        json["text"] = sluicegate_config::without_secrets(&status.text).into();
        json["words"] = status.words.into();
        json["build"] = json!({ "version": env!("CARGO_PKG_VERSION") });
        json
    }

    fn store(&self) -> Value {
        let engine = &self.gate.engine;
        let failures = engine.failures();
        let failures = json!({ "open": failures.unchecked, "closed": failures.refused, "local": failures.local });
        match engine.store() {
            AnyStore::Local(_) => json!({
                "kind": "local", "degraded": false, "nodes": [], "latency": null,
                "errors": { "timed_out": 0, "unavailable": 0 }, "failures": failures, "denied_from_memory": 0,
            }),
            AnyStore::Redis(redis) => {
                let health = redis.health();
                let nodes: Vec<Value> = health
                    .nodes
                    .iter()
                    .map(|node| {
                        let reason = match &node.state {
                            NodeState::Up => None,
                            NodeState::Connecting => Some("it is being dialled"),
                            NodeState::Away { error } => Some(error.as_str()),
                        };
                        json!({ "endpoint": node.endpoint.to_string(), "up": reason.is_none(), "reason": reason })
                    })
                    .collect();
                let waits = &health.waits;
                json!({
                    "kind": "redis", "degraded": self.is_degraded(), "nodes": nodes,
                    "latency": {
                        "count": waits.count(), "p50_us": waits.quantile_us(0.5), "p99_us": waits.quantile_us(0.99),
                    },
                    "errors": { "timed_out": waits.timed_out, "unavailable": waits.unavailable },
                    "failures": failures, "denied_from_memory": health.local_denials,
                })
            }
        }
    }

    /// Adds a sample to the history; called once a second.
    pub(super) fn remember(&self) {
        let snapshot = self.gate.snapshot();
        let limits = snapshot
            .policy
            .limits()
            .iter()
            .zip(snapshot.counts.totals());
        let limits = limits
            .map(|(limit, totals)| {
                (
                    limit.name.clone(),
                    totals.allowed,
                    totals.denied + totals.shadow_denied,
                )
            })
            .collect();
        let metrics = &self.gate.metrics;
        let (requests, decisions) = (metrics.requests_so_far(), metrics.decisions_so_far());
        let passed = requests[RequestOutcome::Forwarded.index()]
            + requests[RequestOutcome::UpstreamError.index()];
        let all = (
            passed + decisions[DecisionAnswer::Allowed.index()],
            requests[RequestOutcome::Limited.index()] + decisions[DecisionAnswer::Limited.index()],
        );
        let p99_us = self.last_p99_us();
        let sample = StatsSample {
            all,
            limits,
            p99_us,
            is_degraded: self.is_degraded(),
        };
        self.history
            .lock()
            .expect("no holder of this lock panics")
            .add(sample, now_ms());
    }

    /// Returns true when the store is away. Reads of the shared list tell it also while no request
    /// comes.
    fn is_degraded(&self) -> bool {
        let answers =
            self.answers.load(Ordering::Relaxed) && !self.has_failed_lately.load(Ordering::Relaxed);
        !answers || self.gate.has_node_away()
    }

    fn last_p99_us(&self) -> u64 {
        let AnyStore::Redis(redis) = self.gate.engine.store() else {
            return 0;
        };
        let waits = redis.health().waits;
        let mut before = self
            .waits_before
            .lock()
            .expect("no holder of this lock panics");
        let lately = waits.since(&before);
        self.has_failed_lately
            .store(lately.timed_out + lately.unavailable > 0, Ordering::Relaxed);
        let p99_us = lately.quantile_us(0.99).unwrap_or(0);
        *before = waits;
        p99_us
    }

    /// The keys with the most requests or denials.
    pub(crate) fn top(&self, by: TopKeysBy, limit: Option<&str>, most: usize) -> Value {
        let keys: Vec<Value> = self
            .gate
            .top_keys
            .top(by, limit, most)
            .into_iter()
            .map(caller)
            .collect();
        json!({ "by": if by == TopKeysBy::Denied { "denied" } else { "requests" }, "keys": keys })
    }
}

fn caller(
    TopKey {
        limit,
        parts,
        text,
        requests,
        denied,
    }: TopKey,
) -> Value {
    json!({ "limit": limit, "key": parts, "text": text, "requests": requests, "denied": denied })
}

/// The keys of tokens that are fetched.
fn jwks(status: &KeysStatus) -> Value {
    json!({
        "url": status.url, "state": status.gap.map_or("loaded", KeysGap::as_str),
        "keys": status.keys, "skipped": status.skipped,
        "age_seconds": status.age.map(|age| age.as_secs()),
        "next_fetch_seconds": status.next_fetch.as_secs(), "last_error": status.last_error,
    })
}

/// The numbers of a limit, and which requests it counts if not all.
fn words(limit: &Limit) -> String {
    let quota = limit.quota.map_or_else(
        || "no limit".to_owned(),
        |quota| limit_quota_in_words(limit, quota),
    );
    match limit.counting {
        Counting::Always => quota,
        Counting::When(_) | Counting::RefundWhen(_) => {
            format!("{quota}; counts {}", counted_in_words(&limit.counting))
        }
    }
}

fn config(status: &ConfigStatus) -> Value {
    let last_error = status
        .last_error
        .as_ref()
        .map(|(at, mistakes)| json!({ "at": rfc3339(*at), "mistakes": mistakes }));
    json!({
        "version": status.version.number, "hash": status.version.hash,
        "loaded_at": rfc3339(status.version.loaded_at), "last_error": last_error,
    })
}

fn by_label<L: Label>(counts: &[u64]) -> Value {
    let pairs = L::ALL
        .iter()
        .zip(counts)
        .map(|(label, count)| (label.as_str().to_owned(), Value::from(*count)));
    Value::Object(pairs.collect::<Map<_, _>>())
}
