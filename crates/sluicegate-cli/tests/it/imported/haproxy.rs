//! HAProxy with stick tables. Periods are long, so that nothing is forgotten while a test runs.

use super::{Asked, Pair, system_program};

const FILE: &str = r"
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s

backend per_key
    stick-table type string len 64 size 1k expire 10m store http_req_rate(10m)

backend per_login
    stick-table type ipv6 size 1k expire 10m store http_req_rate(10m)

frontend www
    bind 127.0.0.1:8000
    stick-table type ipv6 size 1k expire 10m store http_req_rate(10m)
    acl office src 127.0.0.3
    acl login path_beg /login
    acl export path_beg /export
    http-request allow if office
    http-request track-sc0 src if !login !export
    http-request track-sc1 src table per_login if login METH_POST
    http-request track-sc2 req.hdr(X-Api-Key) table per_key if export
    http-request deny deny_status 429 if { sc_http_req_rate(0) gt 6 }
    http-request deny deny_status 429 if { sc1_http_req_rate ge 3 }
    http-request deny deny_status 429 if { sc_http_req_rate(2,per_key) gt 1 }
    default_backend app

backend app
    server one 127.0.0.1:3000
";

#[test]
fn imported_limits_of_haproxy_let_the_same_requests_pass() {
    let mut haproxy = system_program("haproxy");
    haproxy.args(["-db", "-f", "haproxy.cfg"]);
    let pair = Pair::start("haproxy", &[("haproxy.cfg", FILE)], &mut haproxy);
    pair.passes(&Asked::get("/"), 6);
    pair.is_not_limited(&Asked::get("/login"), 9);
    pair.passes(&Asked::post("/login"), 2);
    pair.is_not_limited(&Asked::get("/export"), 9);
    pair.keys_pass("/export", 1);
    pair.is_not_limited(&Asked::get("/").by_bob(), 9);
    assert!(pair.told.contains("rejected requests too"), "{}", pair.told);
}
