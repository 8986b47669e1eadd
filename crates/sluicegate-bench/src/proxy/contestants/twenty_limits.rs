//! The limits of the mixed load besides the one of every client address, in the words of each contestant.
//!
//! Each holds for one path and lets one request of a client address pass in a second. Requests ask for one of the
//! paths; the other limits are there to be passed by. What the contestants cannot say alike: HAProxy counts requests
//! in a sliding second instead of a bucket, and compares paths rule by rule; Envoy compares the whole path.

use super::super::loads::MIXED_LIMITS;
use super::super::requests::BenchRequest;

/// The paths with a limit of their own.
fn paths() -> impl Iterator<Item = String> {
    let others = (2..MIXED_LIMITS).map(|number| format!("/part{number}"));
    others.chain([BenchRequest::Scarce.path().to_string()])
}

fn lines(line: impl Fn(usize, &str) -> String) -> String {
    let numbered = paths().enumerate();
    numbered
        .map(|(number, path)| line(number + 1, &path))
        .collect()
}

/// The blocks that templates have a place for, by name.
pub fn blocks(per_ip_burst: &str) -> [(&'static str, String); 8] {
    [
        ("sluicegate_limits", sluicegate_limits()),
        ("nginx_zones", nginx_zones()),
        ("nginx_locations", nginx_locations(per_ip_burst)),
        ("haproxy_tracks", haproxy_tracks()),
        ("haproxy_denials", haproxy_denials()),
        ("haproxy_tables", haproxy_tables()),
        ("envoy_actions", envoy_actions()),
        ("envoy_descriptors", envoy_descriptors()),
    ]
}

fn sluicegate_limits() -> String {
    lines(|number, path| {
        format!(
            "  - name: part-{number}\n    match: {{ path: {path} }}\n    key: [client_ip]\n    rate: 1/s\n    burst: 1\n"
        )
    })
}

fn nginx_zones() -> String {
    lines(|number, _| {
        format!("    limit_req_zone $binary_remote_addr zone=part{number}:1m rate=1r/s;\n")
    })
}

fn nginx_locations(per_ip_burst: &str) -> String {
    lines(|number, path| {
        format!(
            "        location {path} {{\n            limit_req zone=per_ip {per_ip_burst};\n            \
             limit_req zone=part{number};\n            proxy_pass http://backend;\n        }}\n"
        )
    })
}

fn haproxy_tracks() -> String {
    lines(|number, path| {
        format!("    http-request track-sc1 src table part{number} if {{ path_beg {path} }}\n")
    })
}

fn haproxy_denials() -> String {
    "    http-request deny deny_status 429 if { sc_http_req_rate(1) gt 1 }\n".to_string()
}

fn haproxy_tables() -> String {
    lines(|number, _| {
        format!(
            "\nbackend part{number}\n    stick-table type ip size 10k expire 60s store http_req_rate(1s)\n"
        )
    })
}

fn envoy_actions() -> String {
    let indent = " ".repeat(24);
    format!(
        "{indent}- actions: [{{ remote_address: {{}} }}, \
         {{ request_headers: {{ header_name: \":path\", descriptor_key: path }} }}]\n"
    )
}

fn envoy_descriptors() -> String {
    let indent = " ".repeat(24);
    lines(|_, path| {
        format!(
            "{indent}- entries: [{{ key: remote_address }}, {{ key: path, value: {path} }}]\n\
             {indent}  token_bucket: {{ max_tokens: 1, tokens_per_fill: 1, fill_interval: 1s }}\n"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_the_one_of_the_address_there_are_twenty() {
        assert_eq!(paths().count() + 1, MIXED_LIMITS);
        for (name, block) in blocks("") {
            let once = ["haproxy_denials", "envoy_actions"].contains(&name);
            assert!(once || block.contains("part"), "{name}: {block}");
        }
        assert_eq!(sluicegate_limits().matches("rate:").count(), 19);
        assert_eq!(nginx_locations("").matches("location ").count(), 19);
    }

    #[test]
    fn no_path_is_the_beginning_of_another() {
        let paths: Vec<String> = paths().collect();
        for path in &paths {
            let covers = |other: &&String| other.starts_with(path.as_str());
            assert_eq!(paths.iter().filter(covers).count(), 1, "{path}");
        }
    }
}
