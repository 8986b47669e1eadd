//! nginx with `limit_req`. Rates are low, so that nothing refills while a test runs.

use super::{Asked, Pair, system_program};

const FILE: &str = r#"
daemon off;
master_process off;
pid nginx.pid;
error_log stderr;
events {}
http {
    access_log off;
    geo $known { default 1; 127.0.0.3/32 0; }
    map $known $client { 0 ""; 1 $binary_remote_addr; }
    map $request_method $writer { default ""; POST $binary_remote_addr; }
    limit_req_zone $client zone=site:1m rate=2r/m;
    limit_req_zone $client zone=login:1m rate=1r/m;
    limit_req_zone $writer zone=writes:1m rate=1r/m;
    limit_req_zone $http_x_api_key zone=keys:1m rate=1r/m;
    limit_req_zone $arg_user zone=users:1m rate=1r/m;
    limit_req_zone $cookie_sid zone=visits:1m rate=1r/m;
    limit_req_status 429;
    server {
        listen 127.0.0.1:8000;
        location / { limit_req zone=site burst=4 nodelay; proxy_pass http://127.0.0.1:3000; }
        location /login/ { limit_req zone=login burst=1 nodelay; proxy_pass http://127.0.0.1:3000; }
        location /once/ { limit_req zone=login; proxy_pass http://127.0.0.1:3000; }
        location /static/ { proxy_pass http://127.0.0.1:3000; }
        location /forms/ { limit_req zone=writes burst=2 nodelay; proxy_pass http://127.0.0.1:3000; }
        location /users/ { limit_req zone=users burst=1 nodelay; proxy_pass http://127.0.0.1:3000; }
        location /visits/ { limit_req zone=visits burst=1 nodelay; proxy_pass http://127.0.0.1:3000; }
        location /keys/ { limit_req zone=keys burst=1 nodelay; proxy_pass http://127.0.0.1:3000; }
    }
}
"#;

#[test]
fn imported_limits_of_nginx_let_the_same_requests_pass() {
    let mut nginx = system_program("nginx");
    // The directory with the files is the working directory.
    nginx.args(["-p", ".", "-c", "nginx.conf", "-e", "stderr"]);
    let pair = Pair::start("nginx", &[("nginx.conf", FILE)], &mut nginx);
    pair.passes(&Asked::get("/"), 5);
    pair.passes(&Asked::get("/login/"), 2);
    pair.is_not_limited(&Asked::get("/static/x"), 9);
    pair.is_not_limited(&Asked::get("/forms/x"), 9);
    pair.passes(&Asked::post("/forms/x"), 3);
    pair.is_not_limited(&Asked::get("/keys/x"), 9);
    pair.keys_pass("/keys/x", 2);
    pair.is_not_limited(&Asked::get("/users/x?other=ann"), 9);
    pair.passes(&Asked::get("/users/x?a=b&user=ann"), 2);
    pair.passes(&Asked::get("/users/x?user=ben"), 2);
    pair.is_not_limited(&Asked::get("/visits/x").with("Cookie: a=b"), 9);
    pair.passes(&Asked::get("/visits/x").with("Cookie: a=b; sid=one"), 2);
    pair.passes(&Asked::get("/visits/x").with("Cookie: sid=two"), 2);
    pair.is_not_limited(&Asked::get("/").by_bob(), 9);
    assert!(
        pair.told
            .contains("the original counts it together with login"),
        "{}",
        pair.told
    );
}
