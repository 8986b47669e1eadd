//! A collector of spans that keeps what it is sent, and reads the outcome of a trace out of it.

use sluicegate_testkit::{UpstreamProtocol, UpstreamRecorder, UpstreamResponse};

/// A collector of OpenTelemetry over gRPC.
pub struct SpanRecorder(UpstreamRecorder);

impl SpanRecorder {
    pub fn start() -> Self {
        // An empty message: nothing was rejected.
        let accept = |_: &_| {
            UpstreamResponse::ok(vec![0; 5])
                .header("content-type", "application/grpc")
                .trailer("grpc-status", "0")
        };
        Self(UpstreamRecorder::answering_with(
            UpstreamProtocol::Http2,
            accept,
        ))
    }

    /// The section of the configuration that sends spans here.
    pub fn config(&self) -> String {
        format!(
            "traces: {{ otlp: 'http://{}', one_in: 1 }}\n",
            self.0.address
        )
    }

    /// The `sluicegate.outcome` of the spans of a trace, or `-`. The proxy's `forwarded` is everybody's
    /// `allowed`.
    pub fn outcome(&self, trace_id: &str) -> String {
        let mut outcomes = Vec::new();
        for request in self.0.requests() {
            // The message comes after a flag and its length.
            let message = request.body.get(5..).unwrap_or_default();
            let resources = children(message, 1);
            let scopes = resources.flat_map(|resource| children(resource, 2));
            for span in scopes.flat_map(|scope| children(scope, 2)) {
                if children(span, 1).any(|id| hex(id) == trace_id) {
                    outcomes.extend(outcome_of(span));
                }
            }
        }
        if outcomes.is_empty() {
            "-".to_owned()
        } else {
            outcomes.join(" + ")
        }
    }
}

fn outcome_of(span: &[u8]) -> Option<String> {
    let is_outcome =
        |attribute: &&[u8]| children(attribute, 1).any(|name| name == b"sluicegate.outcome");
    let attribute = children(span, 9).find(is_outcome)?;
    let value = children(attribute, 2).next()?;
    let text = String::from_utf8(children(value, 1).next()?.to_vec()).unwrap();
    Some(text.replace("forwarded", "allowed"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The fields of a protobuf message with this number that hold bytes: texts and messages.
fn children(mut message: &[u8], number: u64) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        while !message.is_empty() {
            let tag = varint(&mut message);
            let length = match tag & 7 {
                0 => {
                    varint(&mut message);
                    continue;
                }
                1 => 8,
                2 => varint(&mut message) as usize,
                5 => 4,
                kind => panic!("fields of kind {kind} are not used by spans"),
            };
            let (value, rest) = message.split_at(length);
            message = rest;
            if tag == number << 3 | 2 {
                return Some(value);
            }
        }
        None
    })
}

fn varint(message: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = message.split_first().unwrap();
        *message = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}
