//! A relay between Sluicegate and a service, which compares both with the OpenAPI document.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use sluicegate_testkit::{HttpRequest, RecordedRequest, UpstreamRecorder, UpstreamResponse};

const DOCUMENT: &str = include_str!("../../../../../../docs/reference/limits-service.openapi.json");

/// Passes questions on to a service, and keeps them with their answers.
pub(super) struct RecordingRelay {
    relay: UpstreamRecorder,
    exchanges: Arc<Mutex<Vec<Exchange>>>,
}

struct Exchange {
    question: Value,
    status: u16,
    answer: Value,
}

impl RecordingRelay {
    pub(super) fn start(service: u16) -> Self {
        let service = SocketAddr::from((Ipv4Addr::LOCALHOST, service));
        let exchanges = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&exchanges);
        let relay = UpstreamRecorder::answering(move |recorded| {
            let (exchange, response) = relayed(recorded, service);
            kept.lock().unwrap().push(exchange);
            response
        });
        Self { relay, exchanges }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/limits", self.relay.address)
    }

    /// Compares everything that was relayed with the document. There were at least so many
    /// exchanges, and the answers used every field that there is.
    pub(super) fn check(&self, exchanges_min: usize) {
        let document: Value = serde_json::from_str(DOCUMENT).unwrap();
        let [questions, answers] = ["LimitsRequest", "LimitsResponse"].map(|name| {
            let reference = format!("#/components/schemas/{name}");
            let schema = json!({ "$ref": reference, "components": document["components"] });
            jsonschema::validator_for(&schema).unwrap()
        });
        let exchanges = self.exchanges.lock().unwrap();
        assert!(exchanges.len() >= exchanges_min, "{}", exchanges.len());
        let mut fields = BTreeSet::new();
        for Exchange {
            question,
            status,
            answer,
        } in exchanges.iter()
        {
            let wrong: Vec<_> = questions.iter_errors(question).collect();
            assert!(wrong.is_empty(), "{question}: {wrong:?}");
            assert_eq!(*status, 200, "{question}");
            let wrong: Vec<_> = answers.iter_errors(answer).collect();
            assert!(wrong.is_empty(), "{answer}: {wrong:?}");
            fields.extend(answer.as_object().unwrap().keys().cloned());
        }
        let known = &document["components"]["schemas"]["LimitsResponse"]["properties"];
        let known: BTreeSet<String> = known.as_object().unwrap().keys().cloned().collect();
        assert_eq!(fields, known);
    }
}

fn relayed(recorded: &RecordedRequest, service: SocketAddr) -> (Exchange, UpstreamResponse) {
    let limit = recorded.header("x-sluicegate-limit").expect("it is named");
    let question = HttpRequest::post(&recorded.target, recorded.body.clone()).headers(&[
        "Content-Type: application/json".to_owned(),
        format!("X-Sluicegate-Limit: {limit}"),
    ]);
    let response = question.send(service);
    let exchange = Exchange {
        question: serde_json::from_slice(&recorded.body).unwrap(),
        status: response.status(),
        answer: serde_json::from_str(response.body()).unwrap_or_default(),
    };
    let passed_on = UpstreamResponse::ok(response.body().to_owned());
    let passed_on = UpstreamResponse {
        status: response.status(),
        ..passed_on
    };
    (
        exchange,
        passed_on.header("content-type", "application/json"),
    )
}
