//! The built-in default, and the smaller sections: every key arrives, with its defaults.

use sluicegate_config::{
    ApiKeys, BodyStyle, ClientIp, HeaderStyle, Jwt, JwtAlgorithm, Log, LogFormat, OnInvalid,
    ProxyHeader, Response, Source, Upstream, load,
};
use sluicegate_core::Nanos;

use crate::{good, wrong};

#[test]
fn the_built_in_default_is_an_echo_behind_ten_requests_a_second() {
    let config = load(&Source::embedded(), &|_| None).unwrap();
    let proxy = config.proxy.unwrap();
    assert_eq!(proxy.listen, ["127.0.0.1:8080".parse().unwrap()]);
    assert_eq!(proxy.routes.len(), 1);
    assert_eq!(proxy.routes[0].upstreams, [Upstream::Echo]);
    assert_eq!(config.decisions.http, "127.0.0.1:8081".parse().ok());
    assert_eq!(config.admin.listen, "127.0.0.1:9090".parse().ok());
    let limit = &config.policy.limits()[0];
    assert_eq!(
        (limit.name.as_str(), limit.quota.unwrap().limit()),
        ("per-client", 20)
    );
}

#[test]
fn client_addresses_are_found_as_configured() {
    let by_default = ClientIp {
        trusted_proxies: vec![],
        header: ProxyHeader::XForwardedFor,
    };
    assert_eq!(good("").client_ip, by_default);
    let config =
        good("client_ip: { trusted_proxies: [10.0.0.0/8, 2001:db8::/32], header: Forwarded }");
    assert_eq!(
        (
            config.client_ip.trusted_proxies.len(),
            config.client_ip.header
        ),
        (2, ProxyHeader::Forwarded)
    );
    assert_eq!(
        good("client_ip: { header: X-Real-IP }").client_ip.header,
        ProxyHeader::XRealIp
    );
    for (keys, message) in [
        (
            "header: via",
            "client_ip.header: unknown value \"via\" (expected x-forwarded-for, forwarded or x-real-ip)",
        ),
        (
            "ipv4_prefix: 33",
            "client_ip.ipv4_prefix: must be 0 to 32 (got 33)",
        ),
        (
            "ipv6_prefix: 129",
            "client_ip.ipv6_prefix: must be 0 to 128 (got 129)",
        ),
        (
            "trusted_proxies: [any]",
            "client_ip.trusted_proxies[0]: expected addresses such as 10.0.0.0/8 or 2001:db8::/32 (got \"any\")",
        ),
    ] {
        assert_eq!(wrong(&format!("client_ip: {{ {keys} }}")), message);
    }
}

#[test]
fn principals_are_found_as_configured() {
    let principals =
        good("principals: { api_keys: { file: keys.yaml }, jwt: { jwks_file: jwks.json } }")
            .principals;
    assert_eq!(
        principals.api_keys,
        Some(ApiKeys {
            header: "x-api-key".into(),
            file: "/etc/sluicegate/keys.yaml".into()
        })
    );
    let jwt = Jwt {
        header: "authorization".into(),
        jwks_file: "/etc/sluicegate/jwks.json".into(),
        issuer: None,
        audience: None,
        algorithms: vec![
            JwtAlgorithm::RS256,
            JwtAlgorithm::ES256,
            JwtAlgorithm::EdDSA,
        ],
        leeway: Nanos::from_secs(60),
    };
    assert_eq!(principals.jwt, Some(jwt));
    assert!(!principals.required && principals.on_invalid == OnInvalid::Reject);
    let principals = good(
        "principals: { jwt: { jwks_file: /j, issuer: i, audience: \"\", algorithms: [HS256], leeway: 0s, header: X-Token }, \
         required: true, on_invalid: anonymous }",
    )
    .principals;
    let jwt = principals.jwt.unwrap();
    assert_eq!(
        (jwt.issuer.as_deref(), jwt.audience, jwt.leeway),
        (Some("i"), None, Nanos::ZERO)
    );
    assert_eq!(
        (jwt.algorithms, jwt.header.as_str()),
        (vec![JwtAlgorithm::HS256], "x-token")
    );
    assert!(principals.required && principals.on_invalid == OnInvalid::Anonymous);
    for (keys, message) in [
        (
            "required: true",
            "principals.required: needs api_keys or jwt: without them every request is rejected",
        ),
        (
            "api_keys: {}",
            "principals.api_keys.file: is missing: the list of keys",
        ),
        (
            "api_keys: { file: f, header: \"a b\" }",
            "principals.api_keys.header: expected a header name (got \"a b\")",
        ),
        (
            "jwt: { jwks_file: j, algorithms: [] }",
            "principals.jwt.algorithms: must name at least one algorithm",
        ),
        (
            "on_invalid: pass",
            "principals.on_invalid: unknown value \"pass\" (expected reject or anonymous)",
        ),
    ] {
        assert_eq!(wrong(&format!("principals: {{ {keys} }}")), message);
    }
    let none = wrong("principals: { jwt: { jwks_file: j, algorithms: [none] } }");
    assert!(
        none.starts_with("principals.jwt.algorithms[0]: unknown value \"none\" (expected RS256, "),
        "{none}"
    );
}

#[test]
fn access_response_and_log_are_read() {
    let config = good(
        "access: { allow: { cidrs: 10.0.0.0/8, keys: [ann] }, deny: { keys: [bob] } }\n\
         response: { headers: [clear], body: json }\nlog: { format: json, access: true, rate_limit_line: false }\n",
    );
    assert_eq!(
        config.access.allow.cidrs.len() + config.access.allow.keys.len(),
        2
    );
    assert_eq!(config.access.deny.keys, ["bob"]);
    assert_eq!(
        config.response,
        Response {
            headers: vec![HeaderStyle::Clear],
            body: BodyStyle::Json,
            reject: None,
            body_files: Vec::new(),
        }
    );
    assert_eq!(
        config.log,
        Log {
            format: LogFormat::Json,
            access: true,
            rate_limit_line: false
        }
    );
    let by_default = good("");
    assert_eq!(
        by_default.response.headers,
        [HeaderStyle::Ietf, HeaderStyle::XRateLimit]
    );
    assert_eq!(
        by_default.log,
        Log {
            format: LogFormat::Text,
            access: false,
            rate_limit_line: true
        }
    );
    assert_eq!(good("response: { headers: none }").response.headers, []);
    assert_eq!(
        wrong("response: { headers: [ietf, none] }"),
        "response.headers[1]: none cannot be combined with other styles"
    );
}
