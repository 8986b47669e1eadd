//! The attributes of spans, by the names of OpenTelemetry's semantic conventions where there is
//! one.
//!
//! The name of a span is never made from what a caller sends, as collectors group by it.

use opentelemetry::KeyValue;

/// The name and attributes of a span that ends.
pub struct SpanAttributes {
    pub(super) name: String,
    pub(super) attributes: Vec<KeyValue>,
    /// True when the status of the span is an error: our failure, not the caller's.
    pub(super) is_error: bool,
}

/// A request through the proxy.
pub struct RequestSummary<'a> {
    /// The method as the client sent it.
    pub method: &'a str,
    /// The normalized path, without the query.
    pub path: &'a str,
    /// The host in its one spelling.
    pub host: Option<&'a str>,
    /// The client's address, after trusted proxies were walked.
    pub client_ip: Option<String>,
    /// The status of the response.
    pub status: u16,
    /// By its name in the metrics.
    pub outcome: &'static str,
    /// The limit that denied it.
    pub limit: Option<&'a str>,
    /// The id that access log and response headers carry too.
    pub request_id: &'a str,
}

/// A request to the decision service.
pub struct DecisionSummary<'a> {
    /// The protocol that the request came in.
    pub transport: DecisionTransport<'a>,
    /// By its name in the metrics; `None` when the request could not be read.
    pub outcome: Option<&'static str>,
    /// The limit that denied it.
    pub limit: Option<&'a str>,
}

/// The protocol of a request to the decision service, with what it says about it.
pub enum DecisionTransport<'a> {
    /// HTTP; `route` is one of our routes, not the path of the caller.
    Http {
        /// The method of the request.
        method: &'a str,
        /// The pattern of the route.
        route: &'static str,
        /// The status of the response.
        status: u16,
    },
    /// gRPC.
    Grpc {
        /// The full name of the service.
        service: &'static str,
        /// The name of the method.
        method: &'static str,
    },
}

/// The methods that may name a span; others are invented by a caller.
const METHODS: [&str; 9] = [
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE",
];

/// The method, or `HTTP` for an unknown one, as the conventions ask.
fn known_method(method: &str) -> &'static str {
    METHODS
        .into_iter()
        .find(|own| *own == method)
        .unwrap_or("HTTP")
}

impl From<RequestSummary<'_>> for SpanAttributes {
    fn from(request: RequestSummary<'_>) -> Self {
        let mut attributes = vec![
            KeyValue::new("http.request.method", request.method.to_owned()),
            KeyValue::new("url.path", request.path.to_owned()),
            KeyValue::new("http.response.status_code", i64::from(request.status)),
            KeyValue::new("sluicegate.outcome", request.outcome),
            KeyValue::new("sluicegate.request_id", request.request_id.to_owned()),
        ];
        attributes.extend(
            request
                .host
                .map(|host| KeyValue::new("server.address", host.to_owned())),
        );
        attributes.extend(
            request
                .client_ip
                .map(|address| KeyValue::new("client.address", address)),
        );
        attributes.extend(request.limit.map(limit));
        Self {
            name: known_method(request.method).to_owned(),
            attributes,
            is_error: request.status >= 500,
        }
    }
}

impl From<DecisionSummary<'_>> for SpanAttributes {
    fn from(decision: DecisionSummary<'_>) -> Self {
        let (name, mut attributes, is_error) = match decision.transport {
            DecisionTransport::Http {
                method,
                route,
                status,
            } => {
                let attributes = vec![
                    KeyValue::new("http.request.method", method.to_owned()),
                    KeyValue::new("http.route", route),
                    KeyValue::new("http.response.status_code", i64::from(status)),
                ];
                (
                    format!("{} {route}", known_method(method)),
                    attributes,
                    status >= 500,
                )
            }
            DecisionTransport::Grpc { service, method } => {
                let system = KeyValue::new("rpc.system", "grpc");
                let attributes = vec![
                    system,
                    KeyValue::new("rpc.service", service),
                    KeyValue::new("rpc.method", method),
                ];
                (
                    format!("{service}/{method}"),
                    attributes,
                    decision.outcome == Some("unavailable"),
                )
            }
        };
        attributes.extend(
            decision
                .outcome
                .map(|outcome| KeyValue::new("sluicegate.outcome", outcome)),
        );
        attributes.extend(decision.limit.map(limit));
        Self {
            name,
            attributes,
            is_error,
        }
    }
}

/// The attribute of the limit that denied.
fn limit(name: &str) -> KeyValue {
    KeyValue::new("sluicegate.limit", name.to_owned())
}
