//! The built-in default, and the smaller sections: every key arrives, with its defaults.

use std::path::Path;

use sluicegate_config::{
    ApiKeys, BodyStyle, ClientIp, CredentialPolicy, HeaderStyle, JwksSource, JwksUrl, Jwt,
    JwtAlgorithm, Log, LogFormat, OnInvalid, ProxyHeader, Response, ServiceAddress, Source,
    Upstream, load,
};
use sluicegate_core::Nanos;
use sluicegate_core::address::Prefixes;

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
        prefixes: Prefixes::default(),
    };
    assert_eq!(good("").client_ip, by_default);
    let wide = good("client_ip: { ipv4_prefix: 24, ipv6_prefix: 48 }").client_ip;
    assert_eq!(wide.prefixes, Prefixes::new(24, 48).unwrap());
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
        keys: JwksSource::File("/etc/sluicegate/jwks.json".into()),
        issuer: None,
        audience: None,
        algorithms: vec![
            JwtAlgorithm::RS256,
            JwtAlgorithm::ES256,
            JwtAlgorithm::EdDSA,
        ],
        leeway: Nanos::from_secs(60),
        types: Vec::new(),
    };
    assert_eq!(principals.jwt, Some(jwt));
    assert!(!principals.required && principals.on_invalid == OnInvalid::Reject);
    assert_eq!(principals.credentials, CredentialPolicy::VerifyAll);
    let principals = good(
        "principals: { jwt: { jwks_file: /j, issuer: i, audience: \"\", algorithms: [HS256], leeway: 0s, header: X-Token }, \
         required: true, on_invalid: anonymous, credentials: strip_unverified }",
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
    assert_eq!(principals.credentials, CredentialPolicy::StripUnverified);
    let types = |typ: &str| {
        let config = good(&format!(
            "principals: {{ jwt: {{ jwks_file: j, typ: {typ} }} }}"
        ));
        config.principals.jwt.unwrap().types
    };
    assert_eq!(types("[At+JWT, Application/jwt]"), ["at+jwt", "jwt"]);
    assert_eq!(types("JWT"), ["jwt"]);
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
            "jwt: { jwks_file: j, typ: [] }",
            "principals.jwt.typ: must name at least one type; leave it out to accept any",
        ),
        (
            "jwt: { jwks_file: j, typ: [JWT, a/b] }",
            "principals.jwt.typ[1]: expected a type of tokens, such as at+jwt or JWT (got \"a/b\")",
        ),
        (
            "credentials: both",
            "principals.credentials: unknown value \"both\" (expected verify_all or strip_unverified)",
        ),
        (
            "on_invalid: pass",
            "principals.on_invalid: unknown value \"pass\" (expected reject or anonymous)",
        ),
    ] {
        assert_eq!(wrong(&format!("principals: {{ {keys} }}")), message);
    }
    assert_eq!(
        wrong("principals: { jwt: {} }"),
        "principals.jwt.jwks_file: is missing: the keys that tokens are signed with; or jwks_url, \
         where they can be fetched"
    );
    let none = wrong("principals: { jwt: { jwks_file: j, algorithms: [none] } }");
    assert!(
        none.starts_with("principals.jwt.algorithms[0]: unknown value \"none\" (expected RS256, "),
        "{none}"
    );
}

#[test]
fn keys_of_tokens_come_from_a_url() {
    let keys = |jwt: &str| {
        let config = good(&format!("principals: {{ jwt: {{ {jwt} }} }}"));
        config.principals.jwt.unwrap().keys
    };
    let by_default = JwksUrl {
        at: ServiceAddress {
            tls: true,
            host: "id.example".to_owned(),
            port: 443,
            ca_file: None,
        },
        path: "/keys?a=b".to_owned(),
        refresh: Nanos::from_secs(300),
        timeout: Nanos::from_secs(5),
        max_stale: Nanos::DAY,
    };
    assert_eq!(
        keys("jwks_url: \"https://id.example/keys?a=b\", jwks:"),
        JwksSource::Url(Box::new(by_default.clone()))
    );
    let JwksSource::Url(url) = keys(
        "jwks_url: \"https://id.example/keys?a=b\", \
         jwks: { ca_file: ca.pem, refresh: 30s, timeout: 1s, max_stale: 1m }",
    ) else {
        panic!("no URL")
    };
    assert_eq!(
        url.at.ca_file.as_deref(),
        Some(Path::new("/etc/sluicegate/ca.pem"))
    );
    assert_eq!(
        (url.refresh, url.timeout, url.max_stale),
        (Nanos::from_secs(30), Nanos::SECOND, Nanos::MINUTE)
    );
    assert_eq!(url.shown(), "https://id.example:443/keys?a=b");
    let plain = keys("jwks_url: \"http://[::1]:8080\", jwks: { ca_file: \"\" }");
    let JwksSource::Url(plain) = plain else {
        panic!("no URL")
    };
    assert_eq!(plain.shown(), "http://[::1]:8080/");
    let place = "principals.jwt";
    for (jwt, message) in [
        (
            "jwks_url: \"https://a/k\", jwks_file: f",
            "jwks_file: cannot be combined with jwks_url: the keys come from one place",
        ),
        (
            "jwks_file: f, jwks: { timeout: 1s }",
            "jwks: needs jwks_url: a file is read when it changes",
        ),
        (
            "jwks_url: id.example",
            "jwks_url: must begin with http:// or https://",
        ),
        (
            "jwks_url: \"https://ann:hunter2@a/k\"",
            "jwks_url: must not contain a user or password",
        ),
        (
            "jwks_url: \"http://a/k\", jwks: { ca_file: f }",
            "jwks.ca_file: needs a jwks_url with https://",
        ),
        (
            "jwks_url: \"https://a/k\", jwks: { refresh: 29s }",
            "jwks.refresh: must be 30s to 1d (got \"29s\")",
        ),
        (
            "jwks_url: \"https://a/k\", jwks: { refresh: 13h }",
            "jwks.refresh: max_stale must be at least twice refresh, so that one failed fetch does no harm",
        ),
        (
            "jwks_url: \"https://a/k\", jwks: { max_stale: 9m }",
            "jwks.max_stale: max_stale must be at least twice refresh, so that one failed fetch does no harm",
        ),
    ] {
        assert_eq!(
            wrong(&format!("principals: {{ jwt: {{ {jwt} }} }}")),
            format!("{place}.{message}"),
            "{jwt}"
        );
    }
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
