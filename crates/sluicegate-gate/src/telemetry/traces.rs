//! Traces: a span for a sample of requests, sent to an OpenTelemetry collector.
//!
//! Off unless configured. Which requests are traced is decided in `sampler`. A traced request joins
//! the trace of its `traceparent`, trusted or not, so that logs can be matched.
//!
//! Spans go to the batch processor of the OpenTelemetry SDK, which sends from a thread of its own
//! and drops spans when its queue is full; no request waits for a collector.

mod attributes;
mod sampler;
mod traceparent;

use std::fmt;
use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use opentelemetry::trace::{
    SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::tonic_types::metadata::MetadataMap;
use opentelemetry_otlp::tonic_types::transport::ClientTlsConfig;
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithTonicConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SpanData, SpanEvents, SpanLinks, SpanProcessor,
};
use sluicegate_config as config;
use sluicegate_net::tls;
use tokio::runtime::Handle;

use crate::request_id::RequestId;
use attributes::SpanAttributes;
use sampler::Sampler;
use traceparent::parse_traceparent;

pub use attributes::{DecisionSummary, DecisionTransport, RequestSummary};

/// The sender of spans.
pub struct Traces {
    processor: BatchSpanProcessor,
    scope: InstrumentationScope,
    sampler: Sampler,
}

/// A request that is traced, from its beginning until [`Traces::end`].
#[derive(Debug)]
pub struct TraceSpan {
    context: SpanContext,
    /// The span of the peer; invalid when the trace begins here.
    parent: SpanId,
    started: SystemTime,
}

/// The header that carries a trace from hop to hop (W3C Trace Context).
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// The longest that the end of the process waits for the last spans.
const LAST_EXPORT: Duration = Duration::from_secs(2);

impl Traces {
    /// Prepares the sender; no connection is made before there is a span to send.
    pub(crate) fn new(settings: &config::Traces, background: &Handle) -> Result<Self, String> {
        let _entered = background.enter();
        let mut exporter = SpanExporter::builder()
            .with_tonic()
            .with_endpoint(settings.otlp.url())
            .with_timeout(settings.timeout.into())
            .with_metadata(metadata(&settings.headers)?);
        if settings.otlp.tls {
            let authorities = tls::authorities(settings.otlp.ca_file.as_deref());
            let authorities = authorities
                .map_err(|mistake| format!("{}: {mistake}", settings.origin("ca_file")))?;
            exporter =
                exporter.with_tls_config(ClientTlsConfig::new().trust_anchors(authorities.roots));
        }
        let exporter = exporter
            .build()
            .map_err(|error| format!("{}: {error}", settings.origin("otlp")))?;
        // Every setting of the batches is given, so that the SDK takes none from the environment.
        let batches = BatchConfigBuilder::default()
            .with_scheduled_delay(settings.batch.delay.into())
            .with_max_queue_size(settings.batch.queue_max)
            .with_max_export_batch_size(settings.batch.size_max);
        let mut processor = BatchSpanProcessor::builder(exporter)
            .with_batch_config(batches.build())
            .build();
        processor.set_resource(&resource(settings));
        let scope = InstrumentationScope::builder("sluicegate")
            .with_version(env!("CARGO_PKG_VERSION"))
            .build();
        Ok(Self {
            processor,
            scope,
            sampler: Sampler::new(settings.sampling),
        })
    }

    /// Starts the span of a request if it is sampled. A trace that begins here has the id of the
    /// request where that is a number, so that one leads to the other.
    pub fn begin(
        &self,
        id: &RequestId,
        headers: &HeaderMap,
        peer_is_trusted: bool,
    ) -> Option<Box<TraceSpan>> {
        let parent = headers
            .get(TRACEPARENT)
            .and_then(|value| value.to_str().ok())
            .and_then(parse_traceparent);
        let number = id.as_number().or_else(|| RequestId::next().as_number());
        let number = number.unwrap_or_default();
        let (high, low) = ((number >> 64) as u64, number as u64);
        // Ids count up, so they are mixed before they decide about sampling or become another id.
        let mixed = mix(low ^ high.rotate_left(32));
        let trusted = parent.as_ref().filter(|_| peer_is_trusted);
        if !self.sampler.samples(mixed, trusted) {
            return None;
        }
        let span_id = SpanId::from(mix(mixed).max(1));
        let (trace_id, parent) = match parent {
            Some(parent) => (parent.trace_id, parent.span_id),
            None => (TraceId::from(number.max(1)), SpanId::INVALID),
        };
        let context = SpanContext::new(
            trace_id,
            span_id,
            TraceFlags::SAMPLED,
            false,
            TraceState::default(),
        );
        Some(Box::new(TraceSpan {
            context,
            parent,
            started: SystemTime::now(),
        }))
    }

    /// Ends a span and queues it for sending.
    pub fn end(&self, span: &TraceSpan, attributes: impl Into<SpanAttributes>) {
        let SpanAttributes {
            name,
            attributes,
            is_error,
        } = attributes.into();
        self.processor.on_end(SpanData {
            span_context: span.context.clone(),
            parent_span_id: span.parent,
            parent_span_is_remote: span.parent != SpanId::INVALID,
            span_kind: SpanKind::Server,
            name: name.into(),
            start_time: span.started,
            end_time: SystemTime::now(),
            attributes,
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: if is_error {
                Status::error("")
            } else {
                Status::Unset
            },
            instrumentation_scope: self.scope.clone(),
        });
    }

    /// Sends the last spans. Blocks for up to two seconds, so not for threads that drive
    /// connections.
    pub fn close(&self) {
        if let Err(error) = self.processor.shutdown_with_timeout(LAST_EXPORT) {
            tracing::warn!(%error, "the last spans were not sent to the collector");
        }
    }
}

impl TraceSpan {
    /// The id of its trace, 32 hexadecimal digits.
    pub fn trace_id(&self) -> String {
        self.context.trace_id().to_string()
    }

    /// The `traceparent` for the server behind us: this span is its parent.
    pub fn traceparent(&self) -> HeaderValue {
        let text = format!(
            "00-{}-{}-01",
            self.context.trace_id(),
            self.context.span_id()
        );
        HeaderValue::try_from(text).expect("digits and dashes are a valid header value")
    }
}

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Traces")
    }
}

/// The headers for the collector. No error contains a value: they are secrets.
fn metadata(headers: &config::SecretHeaders) -> Result<MetadataMap, String> {
    let mut map = HeaderMap::new();
    for (name, value) in &headers.0 {
        let pair = (
            HeaderName::try_from(name.as_str()),
            HeaderValue::try_from(value.as_str()),
        );
        let (Ok(header), Ok(mut value)) = pair else {
            return Err(format!("the header {name:?} for the collector is invalid"));
        };
        value.set_sensitive(true);
        map.append(header, value);
    }
    Ok(MetadataMap::from_headers(map))
}

/// This service in traces: its name and version, and what the environment adds.
fn resource(settings: &config::Traces) -> Resource {
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let more = settings.resource.iter();
    let more = more.map(|(name, value)| KeyValue::new(name.clone(), value.clone()));
    Resource::builder_empty()
        .with_attribute(version)
        .with_attributes(more)
        .with_service_name(settings.service_name.clone())
        .build()
}

/// Spreads a counter over all 64 bits (the finalizer of SplitMix64).
fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use sluicegate_config::{
        SecretHeaders, ServiceAddress, TraceBatch, TraceSampling, TraceShare, Traces as Settings,
    };
    use sluicegate_core::Nanos;
    use tokio::runtime::Runtime;

    use super::traceparent::tests::PARENT;
    use super::*;

    fn traces(runtime: &Runtime, one_in: u64) -> Traces {
        let otlp = ServiceAddress {
            tls: false,
            host: "127.0.0.1".to_owned(),
            port: 1,
            ca_file: None,
        };
        Traces::new(
            &Settings {
                otlp,
                sampling: TraceSampling {
                    share: TraceShare::OneIn(one_in),
                    ..TraceSampling::default()
                },
                service_name: "test".to_owned(),
                resource: Vec::new(),
                headers: SecretHeaders::default(),
                timeout: Nanos::from_secs(1),
                batch: TraceBatch::default(),
                variables: Vec::new(),
            },
            runtime.handle(),
        )
        .unwrap()
    }

    #[test]
    fn about_one_of_so_many_is_traced_and_strangers_cannot_ask_for_it() {
        let runtime = Runtime::new().unwrap();
        let traces = traces(&runtime, 10);
        let asking = HeaderMap::from_iter([(TRACEPARENT, HeaderValue::from_static(PARENT))]);
        let count = |headers: &HeaderMap, is_trusted| {
            (0..10_000)
                .filter(|_| {
                    traces
                        .begin(&RequestId::next(), headers, is_trusted)
                        .is_some()
                })
                .count()
        };
        for headers in [&HeaderMap::new(), &asking] {
            let traced = count(headers, false);
            assert!((700..1_300).contains(&traced), "{traced}");
        }
        assert_eq!(count(&asking, true), 10_000);
    }

    #[test]
    fn a_span_stays_in_its_trace_and_has_a_name_of_its_own() {
        let runtime = Runtime::new().unwrap();
        let traces = traces(&runtime, 1);
        let asking = HeaderMap::from_iter([(TRACEPARENT, HeaderValue::from_static(PARENT))]);
        let span = traces.begin(&RequestId::next(), &asking, false).unwrap();
        let attributes = span.traceparent();
        let attributes = parse_traceparent(attributes.to_str().unwrap()).unwrap();
        assert_eq!(
            attributes.trace_id,
            parse_traceparent(PARENT).unwrap().trace_id
        );
        assert_ne!(attributes.span_id, span.parent);
        let id = RequestId::next();
        let alone = traces.begin(&id, &HeaderMap::new(), false).unwrap();
        assert_eq!(
            (alone.parent, alone.trace_id().as_str()),
            (SpanId::INVALID, id.as_str())
        );
    }
}
