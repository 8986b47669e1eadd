//! Traces in sentences: which requests, to which collector, and what the environment says.

use super::and;
use crate::typed::{ParentSampling, TraceShare, Traces};

pub(super) fn in_words(traces: &Traces) -> Vec<String> {
    let url = traces.otlp.url();
    let of_peers = match traces.sampling.parent {
        ParentSampling::Decides => ", where no trusted peer decides",
        ParentSampling::Adds | ParentSampling::Ignored => "",
    };
    let mut words = vec![match traces.sampling.share {
        TraceShare::OneIn(one_in) => {
            format!("one of {one_in} requests is traced{of_peers}, to {url}")
        }
        share => format!(
            "{} of the requests are traced{of_peers}, to {url}",
            share_in_words(share)
        ),
    }];
    if !traces.variables.is_empty() {
        let setting = |(key, variable): &(&str, &str)| match *key {
            "headers" => format!("the headers {} ({variable})", and(&traces.headers.names())),
            key => format!("{key} ({variable})"),
        };
        let settings: Vec<String> = traces.variables.iter().map(setting).collect();
        words.push(format!(
            "the environment sets of traces: {}",
            settings.join(", ")
        ));
    }
    words
}

/// `7` for one in seven, or `12.5%`.
pub(crate) fn share_in_words(share: TraceShare) -> String {
    let per_billion = match share {
        TraceShare::OneIn(one_in) => return one_in.to_string(),
        TraceShare::PerBillion(per_billion) => per_billion,
    };
    let (whole, rest) = (per_billion / 10_000_000, per_billion % 10_000_000);
    let fraction = format!("{rest:07}");
    match fraction.trim_end_matches('0') {
        "" => format!("{whole}%"),
        digits => format!("{whole}.{digits}%"),
    }
}
