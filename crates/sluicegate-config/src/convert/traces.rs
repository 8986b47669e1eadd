//! `traces`: the collector of spans, and how many requests are traced.

use super::external::parse_url;
use crate::field::Field;
use crate::typed::{ServiceAddress, TRACES_ONE_IN, Traces};

/// The settings; `None` when the section is off, or the address of the collector cannot be read.
pub(super) fn traces(field: &Field<'_>) -> Option<Traces> {
    field.section(|section| {
        let is_on = section.enabled();
        let otlp = section.need(
            "otlp",
            "where spans go by OTLP over gRPC, such as http://127.0.0.1:4317",
        );
        let otlp = otlp.and_then(|field| {
            let text = field.text()?;
            match parse_url(text) {
                Ok((at, path)) if path == "/" => Some(at),
                Ok(_) => {
                    field.note("must have no path: OTLP over gRPC has its own");
                    None
                }
                Err(why) => {
                    field.note(why);
                    None
                }
            }
        });
        let one_in = section.read("one_in", TRACES_ONE_IN, |field| {
            field.whole_number(1..=1_000_000_000)
        });
        let service_name = section
            .text_or_none("service_name")
            .unwrap_or_else(|| "sluicegate".to_owned());
        let is_plain = otlp.as_ref().is_some_and(|otlp| !otlp.tls);
        let ca_file = section.optional("ca_file", |field| {
            if is_plain {
                field.note("needs a collector with https://");
            }
            field.file()
        });
        let traces = Traces {
            otlp: ServiceAddress { ca_file, ..otlp? },
            one_in,
            service_name,
        };
        is_on.then_some(traces)
    })?
}
