//! The older text format of Prometheus (0.0.4), for scrapers that do not ask for OpenMetrics.
//!
//! It is converted from the OpenMetrics text. In the older format a family has the name of its
//! series (`a_total`, not `a`), there is no type `info`, and there are no units, exemplars or end
//! marks.

use std::collections::HashMap;

use http::HeaderMap;
use http::header::ACCEPT;

use super::Metrics;

/// The `Content-Type` of the older format.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

impl Metrics {
    /// All series in the format that `Accept` asks for, and its content type: OpenMetrics, unless
    /// the header names only plain text.
    pub fn encode_for(&self, headers: &HeaderMap) -> (&'static str, String) {
        let text = self.encode();
        if wants_prometheus_text(headers) {
            (CONTENT_TYPE, to_prometheus_text(&text))
        } else {
            (Self::CONTENT_TYPE, text)
        }
    }
}

/// Returns true when `Accept` names plain text and not OpenMetrics.
fn wants_prometheus_text(headers: &HeaderMap) -> bool {
    let names = |wanted: &str| {
        let mut values = headers
            .get_all(ACCEPT)
            .iter()
            .filter_map(|value| value.to_str().ok());
        values.any(|value| value.to_ascii_lowercase().contains(wanted))
    };
    names("text/plain") && !names("application/openmetrics-text")
}

/// Converts OpenMetrics text to the older format.
fn to_prometheus_text(open_metrics: &str) -> String {
    let types: HashMap<&str, &str> = open_metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
        .collect();
    let mut prometheus = String::with_capacity(open_metrics.len());
    for line in open_metrics.lines() {
        let about = line
            .strip_prefix("# HELP ")
            .or_else(|| line.strip_prefix("# TYPE "))
            .and_then(|rest| rest.split_once(' '));
        match about {
            Some((family, rest)) => {
                let kind = types.get(family).copied().unwrap_or_default();
                let word = &line[..7];
                let rest = if word == "# TYPE " {
                    prometheus_type(kind)
                } else {
                    rest
                };
                prometheus.extend([word, family, suffix(kind), " ", rest, "\n"]);
            }
            None if line.starts_with('#') => {}
            None => prometheus.extend([without_exemplar(line), "\n"]),
        }
    }
    prometheus
}

/// The suffix that the series of a type have and their family lacks.
fn suffix(kind: &str) -> &'static str {
    match kind {
        "counter" => "_total",
        "info" => "_info",
        _ => "",
    }
}

/// The type of a family in the older format.
fn prometheus_type(kind: &str) -> &str {
    match kind {
        "info" | "stateset" => "gauge",
        "unknown" => "untyped",
        kind => kind,
    }
}

/// A line without its exemplar, which begins at a `#` outside of quotes; inside, it belongs to a
/// label.
fn without_exemplar(line: &str) -> &str {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let end = line.find(|letter| {
        let was_escaped = std::mem::take(&mut is_escaped);
        match letter {
            '\\' if is_quoted && !was_escaped => is_escaped = true,
            '"' if !was_escaped => is_quoted = !is_quoted,
            _ => {}
        }
        letter == '#' && !is_quoted
    });
    line[..end.unwrap_or(line.len())].trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_bear_the_names_of_their_series() {
        let open_metrics = "\
# HELP a What \\\"a\\\" is.
# TYPE a counter
a_total{x=\"1 # {\\\"} 2\"} 3 # {trace_id=\"7\"} 1.0
# HELP b_seconds Time.
# TYPE b_seconds histogram
# UNIT b_seconds seconds
b_seconds_bucket{le=\"+Inf\"} 1 # {trace_id=\"7\"} 0.5
# HELP c The program.
# TYPE c info
c_info{version=\"1\"} 1
# HELP d Now.
# TYPE d gauge
d 4
# EOF
";
        let prometheus = "\
# HELP a_total What \\\"a\\\" is.
# TYPE a_total counter
a_total{x=\"1 # {\\\"} 2\"} 3
# HELP b_seconds Time.
# TYPE b_seconds histogram
b_seconds_bucket{le=\"+Inf\"} 1
# HELP c_info The program.
# TYPE c_info gauge
c_info{version=\"1\"} 1
# HELP d Now.
# TYPE d gauge
d 4
";
        assert_eq!(to_prometheus_text(open_metrics), prometheus);
    }

    #[test]
    fn openmetrics_is_what_everybody_gets_who_does_not_name_plain_text_alone() {
        for (accept, expected) in [
            (None, Metrics::CONTENT_TYPE),
            (Some("*/*"), Metrics::CONTENT_TYPE),
            (
                Some(
                    "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.4",
                ),
                Metrics::CONTENT_TYPE,
            ),
            (Some("text/plain;version=0.0.4;q=1,*/*;q=0.1"), CONTENT_TYPE),
            (Some("Text/Plain"), CONTENT_TYPE),
        ] {
            let headers = accept
                .map(|accept| (ACCEPT, accept.parse().unwrap()))
                .into_iter()
                .collect();
            let (kind, text) = Metrics::new().encode_for(&headers);
            assert_eq!(kind, expected, "{accept:?}");
            assert_eq!(text.ends_with("# EOF\n"), kind == Metrics::CONTENT_TYPE);
        }
    }
}
