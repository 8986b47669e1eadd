//! The factor of a caller and the quota that the limits service says.

use serde_json::{Value, json};
use sluicegate_testkit::{RedisServer, UpstreamRecorder};

use super::super::decisions::{body, exchange, request};
use super::super::running::Sluicegate;
use super::{config, service, url};

#[test]
fn a_factor_divides_the_quota_of_the_service_and_zero_asks_nobody() {
    let (redis, upstream) = (RedisServer::start(), UpstreamRecorder::start());
    let service = service(|key| match key {
        "known" => r#"{"average": 8, "burst": 40, "period": "1h"}"#.to_owned(),
        _ => "no JSON".to_owned(),
    });
    let factor = "burst: 20\n    factor: { claim: role, map: { slow: 2, gold: 0.5, staff: 0 } }";
    let config = config(&url(&service), &redis, &upstream, "").replace("burst: 1", factor);
    // Without credentials nobody would have a factor.
    let directory = tempfile::tempdir().unwrap();
    let digest = "ca64daa8b294dc4835d29ca02a6a47427ebc6a225ea3ac2e15f8417fb6601db2";
    let keys = format!("- {{ id: ann, sha256: {digest} }}\n");
    let principals = "principals: { api_keys: { file: keys.yaml } }\n";
    for (name, text) in [
        ("keys.yaml", keys),
        ("sluicegate.yaml", config + principals),
    ] {
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    let sluicegate = Sluicegate::start_in(directory);
    let limit = |tenant: &str, role: &str| -> Value {
        let subject = json!({
            "headers": { "X-Tenant-Id": tenant },
            "principal": { "id": "ann", "claims": { "role": role } },
        });
        let check = json!({ "subject": subject }).to_string();
        let answer = exchange(&sluicegate, request("/v1/check", &[], &check).as_bytes());
        body(&answer)["limits"][0]["limit"].clone()
    };
    for (tenant, role, expected) in [
        ("staff-only", "staff", Value::Null),
        ("known", "none", json!(40)),
        ("known", "slow", json!(20)),
        ("known", "gold", json!(80)),
        ("known", "staff", Value::Null),
        ("stranger", "none", json!(20)),
        ("stranger", "slow", json!(10)),
    ] {
        assert_eq!(limit(tenant, role), expected, "{tenant} {role}");
        if tenant == "staff-only" {
            assert_eq!(service.count(), 0, "there is nothing to ask");
        }
    }
}
