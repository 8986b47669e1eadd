//! The settings of every section but `store`, `limits` and `access`.

use std::path::Path;

use super::Settings;
use super::store::{certificate, redis};
use crate::summary::{and, quota_in_words, share_in_words, upstream_in_words};
use crate::typed::{
    Admin, ApiKeys, BackendScheme, BackendUrlSettings, BodyStyle, Bounds, ClientIp, Config,
    CredentialPolicy, Decisions, DecisionsTls, ExternalService, ExternalSettings, GrpcCodec,
    HeaderFilter, HeaderStyle, JwksSource, JwksUrl, Jwt, Log, LogFormat, OnInvalid, Overload,
    Principals, Proxy, Response, Route, ServiceAddress, Timeouts, Traces, Upstream,
};

/// Every setting of these sections.
pub(super) fn list(config: &Config, settings: &mut Settings) {
    let Config {
        proxy,
        decisions,
        admin,
        overload,
        client_ip,
        principals,
        external,
        response,
        log,
        traces,
        // Compared elsewhere.
        access: _,
        store: _,
        policy: _,
        // Known by its absence from the settings.
        switched_off: _,
        // About the environment, which both share.
        warnings: _,
        // Their values are compared.
        value_files: _,
    } = config;
    if let Some(proxy) = proxy {
        self::proxy(proxy, settings);
    }
    listeners(decisions, admin, settings);
    let Overload { memory } = overload;
    settings.put("overload.memory", memory);
    let ClientIp {
        trusted_proxies,
        header,
        // A part of each limit, which is compared by itself.
        prefixes: _,
    } = client_ip;
    settings.put_list("client_ip.trusted_proxies", trusted_proxies);
    settings.put("client_ip.header", header.name());
    self::principals(principals, settings);
    if let Some(external) = external {
        self::external(external, settings);
    }
    output(response, log, settings);
    if let Some(Traces {
        otlp,
        sampling,
        service_name,
        // They come from the environment alone, which both files share.
        resource: _,
        headers: _,
        timeout: _,
        batch: _,
        variables: _,
    }) = traces
    {
        settings.put("traces.otlp", otlp.url());
        put_file("traces.ca_file", otlp.ca_file.as_deref(), settings);
        settings.put("traces.one_in", share_in_words(sampling.share));
        settings.put("traces.service_name", service_name);
    }
}

fn put_file(key: &str, file: Option<&Path>, settings: &mut Settings) {
    settings.put_some(key, file.map(Path::display));
}

fn proxy(proxy: &Proxy, settings: &mut Settings) {
    let Proxy {
        listen,
        routes,
        tls,
        timeouts,
        max_connections,
        max_connections_per_upstream,
        max_connections_per_client,
        max_buffered_per_connection,
        bounds,
        refused_requests,
        proxy_protocol_from,
        workers,
    } = proxy;
    settings.put_list("proxy.listen", listen);
    routes.iter().for_each(|one| route(one, settings));
    let upstreams = routes.iter().flat_map(|route| &route.upstreams);
    let ca_file = upstreams.clone().find_map(|upstream| match upstream {
        Upstream::Server { ca_file, .. } => ca_file.as_deref(),
        Upstream::Echo => None,
    });
    put_file("proxy.upstream_ca_file", ca_file, settings);
    certificate("proxy.tls", tls.as_ref(), settings);
    proxy_timeouts(timeouts, settings);
    let Bounds {
        header_bytes,
        headers,
        target_bytes,
        body_bytes,
    } = bounds;
    settings.put("proxy.max_connections", max_connections);
    settings.put(
        "proxy.max_connections_per_upstream",
        max_connections_per_upstream,
    );
    settings.put(
        "proxy.max_connections_per_client",
        max_connections_per_client.map_or_else(|| "any number".to_owned(), |most| most.to_string()),
    );
    settings.put(
        "proxy.max_buffered_per_connection",
        max_buffered_per_connection,
    );
    settings.put("proxy.max_header_bytes", header_bytes);
    settings.put("proxy.max_headers", headers);
    settings.put("proxy.max_target_bytes", target_bytes);
    settings.put_some("proxy.max_body", *body_bytes);
    settings.put(
        "proxy.refused_requests",
        refused_requests.map_or_else(|| "off".to_owned(), quota_in_words),
    );
    settings.put_list("proxy.proxy_protocol_from", proxy_protocol_from);
    settings.put_some("proxy.workers", *workers);
}

fn proxy_timeouts(timeouts: &Timeouts, settings: &mut Settings) {
    let Timeouts {
        header,
        idle,
        stalled_client,
        stalled_server,
        connect,
        upstream_wait,
        request,
        drain,
    } = timeouts;
    settings.put("proxy.timeouts.header", header);
    settings.put("proxy.timeouts.idle", idle);
    settings.put("proxy.timeouts.stalled_client", stalled_client);
    settings.put("proxy.timeouts.stalled_server", stalled_server);
    settings.put("proxy.timeouts.connect", connect);
    settings.put("proxy.timeouts.upstream_wait", upstream_wait);
    settings.put("proxy.timeouts.request", request);
    settings.put("proxy.timeouts.drain", drain);
}

/// A route, known by its host and path.
fn route(route: &Route, settings: &mut Settings) {
    let Route {
        host,
        path,
        upstreams,
    } = route;
    let key = match (host, path) {
        (None, None) => "proxy.upstream".to_owned(),
        (host, path) => format!(
            "proxy.routes[{}{}]",
            host.as_deref().unwrap_or_default(),
            path.as_ref().map(ToString::to_string).unwrap_or_default()
        ),
    };
    let upstreams: Vec<String> = upstreams.iter().map(upstream_in_words).collect();
    settings.put(key, and(&upstreams));
}

fn listeners(decisions: &Decisions, admin: &Admin, settings: &mut Settings) {
    let Decisions {
        http,
        grpc,
        resp,
        token_file,
        tls,
        allow_remote,
    } = decisions;
    settings.put_some("decisions.http", *http);
    settings.put_some("decisions.grpc", *grpc);
    settings.put_some("decisions.resp", *resp);
    put_file("decisions.token_file", token_file.as_deref(), settings);
    settings.put("decisions.allow_remote", allow_remote);
    if let Some(DecisionsTls {
        server,
        client_ca_file,
    }) = tls
    {
        certificate("decisions.tls", Some(server), settings);
        put_file(
            "decisions.tls.client_ca_file",
            client_ca_file.as_deref(),
            settings,
        );
    }
    let Admin { listen, token_file } = admin;
    settings.put_some("admin.listen", *listen);
    put_file("admin.token_file", token_file.as_deref(), settings);
}

fn principals(principals: &Principals, settings: &mut Settings) {
    let Principals {
        api_keys,
        jwt,
        required,
        on_invalid,
        credentials,
    } = principals;
    settings.put("principals.required", required);
    let on_invalid = match on_invalid {
        OnInvalid::Reject => "reject",
        OnInvalid::Anonymous => "anonymous",
    };
    settings.put("principals.on_invalid", on_invalid);
    let credentials = match credentials {
        CredentialPolicy::VerifyAll => "verify_all",
        CredentialPolicy::StripUnverified => "strip_unverified",
    };
    settings.put("principals.credentials", credentials);
    if let Some(ApiKeys { header, file }) = api_keys {
        settings.put("principals.api_keys.header", header);
        settings.put("principals.api_keys.file", file.display());
    }
    if let Some(Jwt {
        header,
        keys,
        issuer,
        audience,
        algorithms,
        leeway,
        types,
    }) = jwt
    {
        settings.put("principals.jwt.header", header);
        jwks(keys, settings);
        settings.put_some("principals.jwt.issuer", issuer.as_ref());
        settings.put_some("principals.jwt.audience", audience.as_ref());
        let names: Vec<String> = algorithms.iter().map(|name| format!("{name:?}")).collect();
        settings.put_list("principals.jwt.algorithms", &names);
        settings.put("principals.jwt.leeway", leeway);
        settings.put_list("principals.jwt.typ", types);
    }
}

fn jwks(keys: &JwksSource, settings: &mut Settings) {
    let url = match keys {
        JwksSource::File(file) => {
            return settings.put("principals.jwt.jwks_file", file.display());
        }
        JwksSource::Url(url) => url,
    };
    let JwksUrl {
        at,
        path,
        refresh,
        timeout,
        max_stale,
    } = &**url;
    settings.put_url(
        "principals.jwt.jwks_url",
        format_args!("{}{path}", at.url()),
    );
    put_file(
        "principals.jwt.jwks.ca_file",
        at.ca_file.as_deref(),
        settings,
    );
    settings.put("principals.jwt.jwks.refresh", refresh);
    settings.put("principals.jwt.jwks.timeout", timeout);
    settings.put("principals.jwt.jwks.max_stale", max_stale);
}

fn external(external: &ExternalSettings, settings: &mut Settings) {
    let ExternalSettings {
        timeout,
        cache_ttl,
        max_concurrent_requests,
        service,
        headers,
        cache_redis,
        backend_url,
    } = external;
    settings.put("external.timeout", timeout);
    settings.put("external.cache_ttl", cache_ttl);
    settings.put("external.max_concurrent_requests", max_concurrent_requests);
    external_service(service, settings);
    match headers {
        HeaderFilter::Only(names) => settings.put_list("external.header_filter.allow_list", names),
        HeaderFilter::AllBut(names) => settings.put_list("external.header_filter.deny_list", names),
    }
    if let Some(cache) = cache_redis {
        redis("external.cache_redis", cache, settings);
    }
    let BackendUrlSettings {
        allowed_hosts,
        deny_private_networks,
        schemes,
    } = backend_url;
    let path = "external.backend_url";
    settings.put_list(format!("{path}.allowed_hosts"), allowed_hosts);
    settings.put(
        format!("{path}.deny_private_networks"),
        deny_private_networks,
    );
    let scheme = |scheme: &BackendScheme| match scheme {
        BackendScheme::Http => "http",
        BackendScheme::Https => "https",
    };
    let schemes: Vec<&str> = schemes.iter().map(scheme).collect();
    settings.put_list(format!("{path}.schemes"), &schemes);
}

fn external_service(service: &ExternalService, settings: &mut Settings) {
    let ServiceAddress { ca_file, .. } = service.at();
    match service {
        ExternalService::Http { at, path } => {
            settings.put_url("external.http.url", format_args!("{}{path}", at.url()));
            put_file("external.http.tls.ca_file", ca_file.as_deref(), settings);
        }
        ExternalService::Grpc { at, codec } => {
            let codec = match codec {
                GrpcCodec::Auto => "auto",
                GrpcCodec::Protobuf => "protobuf",
                GrpcCodec::Json => "json",
            };
            settings.put("external.grpc.address", at.url());
            settings.put("external.grpc.codec", codec);
            put_file("external.grpc.tls.ca_file", ca_file.as_deref(), settings);
        }
    }
}

fn output(response: &Response, log: &Log, settings: &mut Settings) {
    let Response {
        headers,
        body,
        // Compared elsewhere.
        reject: _,
        body_files: _,
    } = response;
    let style = |style: &HeaderStyle| match style {
        HeaderStyle::Ietf => "ietf",
        HeaderStyle::XRateLimit => "x-ratelimit",
        HeaderStyle::Clear => "clear",
    };
    let headers: Vec<&str> = headers.iter().map(style).collect();
    settings.put_list("response.headers", &headers);
    let body = match body {
        BodyStyle::Auto => "auto",
        BodyStyle::Text => "text",
        BodyStyle::Json => "json",
    };
    settings.put("response.body", body);
    let Log {
        format,
        access,
        rate_limit_line,
    } = log;
    let format = match format {
        LogFormat::Json => "json",
        LogFormat::Text => "text",
    };
    settings.put("log.format", format);
    settings.put("log.access", access);
    settings.put("log.rate_limit_line", rate_limit_line);
}
