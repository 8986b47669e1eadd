//! Parses the `traceparent` header (W3C Trace Context): `version-trace_id-parent_id-flags`.

use opentelemetry::trace::{SpanId, TraceId};

/// The contents of a `traceparent`.
#[derive(Debug, PartialEq)]
pub(super) struct TraceParent {
    pub(super) trace_id: TraceId,
    /// The span of the peer.
    pub(super) span_id: SpanId,
    /// True when the peer records this trace.
    pub(super) is_sampled: bool,
}

/// Parses a header value. Version 00 must match exactly; later versions may append parts, but must
/// begin in the same way. `None` for everything else, which is then treated as no header.
pub(super) fn parse_traceparent(text: &str) -> Option<TraceParent> {
    let mut parts = text.trim().split('-');
    let (version, trace_id, span_id, flags) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_hex = |part: &str, length: usize| {
        part.len() == length
            && part
                .bytes()
                .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    };
    let is_whole =
        is_hex(version, 2) && is_hex(trace_id, 32) && is_hex(span_id, 16) && is_hex(flags, 2);
    if !is_whole || version == "ff" || (version == "00" && parts.next().is_some()) {
        return None;
    }
    let trace_id = TraceId::from_hex(trace_id)
        .ok()
        .filter(|id| *id != TraceId::INVALID)?;
    let span_id = SpanId::from_hex(span_id)
        .ok()
        .filter(|id| *id != SpanId::INVALID)?;
    Some(TraceParent {
        trace_id,
        span_id,
        is_sampled: u8::from_str_radix(flags, 16).ok()? & 1 == 1,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) const PARENT: &str =
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn parents_are_read_as_they_are_written_and_nothing_else() {
        let parent = parse_traceparent(PARENT).unwrap();
        assert_eq!(
            parent.trace_id.to_string(),
            "0af7651916cd43dd8448eb211c80319c"
        );
        assert!(
            parent.is_sampled
                && !parse_traceparent(&PARENT.replace("-01", "-00"))
                    .unwrap()
                    .is_sampled
        );
        assert!(
            parse_traceparent(&PARENT.replace("00-0", "cc-0")).is_some(),
            "a later version"
        );
        assert!(parse_traceparent(&format!("{}-what", PARENT.replace("00-0", "cc-0"))).is_some());
        for wrong in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333é-01",
        ] {
            assert_eq!(parse_traceparent(wrong), None, "{wrong}");
        }
    }
}
