//! Traefik with `rateLimit`. Rates are low, so that nothing refills while a test runs.

use std::process::Command;

use sluicegate_testkit::{eventually, needs};

use super::{Asked, Pair};

const STATIC: &str = r#"
entryPoints:
  web:
    address: "127.0.0.1:8000"
providers:
  file:
    filename: routes.yaml
global:
  checkNewVersion: false
  sendAnonymousUsage: false
"#;

const ROUTES: &str = r#"
http:
  routers:
    site: { rule: "PathPrefix(`/`)", middlewares: [site], service: app }
    login: { rule: "PathPrefix(`/login`) && Method(`POST`)", middlewares: [both], service: app }
    health: { rule: "PathPrefix(`/health`)", service: app }
    keys: { rule: "PathPrefix(`/keys`)", middlewares: [keys], service: app }
  middlewares:
    site: { rateLimit: { average: 2, period: 1m, burst: 5 } }
    login: { rateLimit: { average: 1, period: 1m, burst: 2 } }
    both: { chain: { middlewares: [login] } }
    keys:
      rateLimit: { average: 1, period: 1m, sourceCriterion: { requestHeaderName: X-Api-Key } }
  services:
    app:
      loadBalancer:
        servers: [{ url: "http://127.0.0.1:3000" }]
"#;

#[test]
#[ignore = "needs Traefik"]
fn imported_limits_of_traefik_let_the_same_requests_pass() {
    let mut traefik = Command::new(needs::program("SLUICEGATE_TRAEFIK"));
    traefik.arg("--configFile=traefik.yaml");
    let files = [("routes.yaml", ROUTES), ("traefik.yaml", STATIC)];
    let pair = Pair::start("traefik", &files, &mut traefik);
    // It listens before it has read the routes.
    eventually("the routes are there", || {
        pair.send(&Asked::get("/health"), pair.original) == 200
    });
    pair.passes(&Asked::get("/"), 5);
    pair.is_not_limited(&Asked::get("/health"), 9);
    pair.passes(&Asked::post("/login"), 2);
    pair.keys_pass("/keys", 1);
    pair.passes(&Asked::get("/keys"), 1);
    pair.passes(&Asked::get("/").by_bob(), 5);
    assert!(
        pair.told.contains("Traefik delays a request"),
        "{}",
        pair.told
    );
}
