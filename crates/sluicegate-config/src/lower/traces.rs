//! `traces`: spans of requests for a collector.

use super::external::parse_url;
use crate::item::Item;
use crate::typed::{ServiceAddress, TRACES_ONE_IN, Traces};

/// Off unless it says where to.
pub(super) fn traces(item: &Item<'_>) -> Option<Traces> {
    item.section(|section| {
        let otlp = section.need(
            "otlp",
            "where spans go by OTLP over gRPC, such as http://127.0.0.1:4317",
        );
        let otlp = otlp.and_then(|item| {
            let text = item.text()?;
            match parse_url(text) {
                Ok((at, path)) if path == "/" => Some(at),
                Ok(_) => {
                    item.note("must have no path: OTLP over gRPC has its own");
                    None
                }
                Err(why) => {
                    item.note(why);
                    None
                }
            }
        });
        let one_in = section.read("one_in", TRACES_ONE_IN, |item| {
            item.whole(1..=1_000_000_000)
        });
        let service_name = section
            .text_or_none("service_name")
            .unwrap_or_else(|| "sluicegate".to_owned());
        let is_plain = otlp.as_ref().is_some_and(|otlp| !otlp.tls);
        let ca_file = section.optional("ca_file", |item| {
            if is_plain {
                item.note("is for a collector with https://");
            }
            item.file()
        });
        Some(Traces {
            otlp: ServiceAddress { ca_file, ..otlp? },
            one_in,
            service_name,
        })
    })?
}
