//! `external`: the service that knows callers' quotas, and the bounds on its answers.

use std::path::PathBuf;

use sluicegate_core::{HostPattern, Nanos};

use super::names::host_and_port;
use super::redis;
use crate::field::{Field, Section};
use crate::tree::Value;
use crate::typed::{
    BackendScheme, BackendUrlSettings, ExternalService, ExternalSettings, GrpcCodec, HeaderFilter,
    Principals, ServiceAddress, Store,
};

/// The schemes of servers that answers may name.
const SCHEMES: [(&str, BackendScheme); 2] = [
    ("http", BackendScheme::Http),
    ("https", BackendScheme::Https),
];

/// The settings; `None` when the section is off, or the address of the service cannot be read.
pub(super) fn external(field: &Field<'_>, store: &Store) -> Option<ExternalSettings> {
    field.section(|section| {
        let is_on = section.enabled();
        let service = service(section);
        let timeout = Nanos::MILLISECOND..=Nanos::MINUTE;
        let cache_ttl = Nanos::SECOND..=Nanos::DAY;
        let settings = ExternalSettings {
            timeout: section.read("timeout", Nanos::from_secs(5), |field| {
                field.duration(timeout)
            }),
            cache_ttl: section.read("cache_ttl", Nanos::MINUTE, |field| {
                field.duration(cache_ttl)
            }),
            max_concurrent_requests: section
                .read("max_concurrent_requests", 50, |field| {
                    field.whole_number(1..=10_000)
                })
                .try_into()
                .unwrap_or(usize::MAX),
            // Never used: without a service there are no settings.
            service: service.clone().unwrap_or(ExternalService::Http {
                at: ServiceAddress::default(),
                path: String::new(),
            }),
            headers: section
                .subsection("header_filter")
                .map(|field| header_filter(&field))
                .unwrap_or_default(),
            cache_redis: section
                .subsection("cache_redis")
                .filter(|field| !matches!(field.node.value, Value::Null))
                .and_then(|field| redis::cache_redis(&field, &store.kind))
                .map(Box::new),
            backend_url: section
                .subsection("backend_url")
                .map(|field| backend_url(&field))
                .unwrap_or_default(),
        };
        service.filter(|_| is_on).map(|_| settings)
    })?
}

/// Holds back the headers that callers are verified by, whatever they are called.
pub(super) fn hold_back_credentials(external: &mut ExternalSettings, principals: &Principals) {
    if let HeaderFilter::AllBut(names) = &mut external.headers {
        names.extend(principals.api_keys.iter().map(|keys| keys.header.clone()));
        names.extend(principals.jwt.iter().map(|jwt| jwt.header.clone()));
    }
}

/// Exactly one of `http` and `grpc`.
fn service(section: &mut Section<'_>) -> Option<ExternalService> {
    let http = section.subsection("http").map(|field| http(&field));
    let grpc = section.subsection("grpc").map(|field| grpc(&field));
    match (http, grpc) {
        (Some(service), None) | (None, Some(service)) => service,
        (Some(_), Some(_)) => {
            section.refuse("grpc", "cannot be combined with http: one service is asked");
            None
        }
        (None, None) if section.is_off() => None,
        (None, None) => {
            section
                .field()
                .note("needs http or grpc: the service to ask");
            None
        }
    }
}

/// `http: { url, tls }`
fn http(field: &Field<'_>) -> Option<ExternalService> {
    field.section(|section| {
        let url = section
            .need("url", "where to ask, such as http://limits:8080/limits")
            .and_then(|field| {
                let text = field.text()?;
                parse_url(text).map_err(|why| field.note(why)).ok()
            });
        let (_, ca_file) = tls(section, false);
        // Without a readable URL nobody knows whether the section is wrong.
        let is_plain = url.as_ref().is_some_and(|(at, _)| !at.tls);
        if is_plain {
            section.refuse("tls", "needs a url with https://");
        }
        let (at, path) = url?;
        Some(ExternalService::Http {
            at: ServiceAddress { ca_file, ..at },
            path,
        })
    })?
}

/// Reads `http://host:port/path`. No error contains the text: it may contain a password.
pub(super) fn parse_url(text: &str) -> Result<(ServiceAddress, String), &'static str> {
    const SCHEMES: &str = "must begin with http:// or https://";
    let (scheme, rest) = text.split_once("://").ok_or(SCHEMES)?;
    let tls = match scheme.to_ascii_lowercase().as_str() {
        "http" => false,
        "https" => true,
        _ => return Err(SCHEMES),
    };
    // The path begins at the first character that a host and port cannot have.
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if path.contains('#') {
        return Err("must not contain a fragment");
    }
    if !path
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte))
    {
        return Err("the path must be visible ASCII, percent-encoded where it is not");
    }
    let (host, port) = host_and_port(authority)?;
    let path = if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("/{path}")
    };
    let port = port.unwrap_or(if tls { 443 } else { 80 });
    Ok((
        ServiceAddress {
            tls,
            host,
            port,
            ca_file: None,
        },
        path,
    ))
}

/// `grpc: { address, codec, tls }`
fn grpc(field: &Field<'_>) -> Option<ExternalService> {
    field.section(|section| {
        let address = section
            .need("address", "where to ask, such as limits:50052")
            .and_then(|field| {
                let text = field.text()?;
                match host_and_port(text) {
                    _ if text.contains("://") => {
                        field
                            .note("must be a host and a port without a scheme, as in limits:50052");
                        None
                    }
                    Ok((host, Some(port))) => Some((host, port)),
                    Ok((_, None)) => {
                        field.note("needs a port, as in limits:50052");
                        None
                    }
                    Err(why) => {
                        field.note(why);
                        None
                    }
                }
            });
        let codecs = [
            ("auto", GrpcCodec::Auto),
            ("protobuf", GrpcCodec::Protobuf),
            ("json", GrpcCodec::Json),
        ];
        let codec = section.read("codec", GrpcCodec::default(), |field| field.word(&codecs));
        let (tls, ca_file) = tls(section, true);
        let (host, port) = address?;
        Some(ExternalService::Grpc {
            at: ServiceAddress {
                tls,
                host,
                port,
                ca_file,
            },
            codec,
        })
    })?
}

/// True for TLS, and the authorities to trust. Where a URL decides about TLS, there is no
/// `enabled`.
fn tls(section: &mut Section<'_>, has_switch: bool) -> (bool, Option<PathBuf>) {
    let read = section.subsection("tls").and_then(|field| {
        field.section(|section| {
            let enabled = !has_switch || section.enabled();
            let ca_file = section.optional("ca_file", |field| match field.any_text() {
                Some("") => None,
                _ => field.file(),
            });
            (enabled, ca_file.filter(|_| enabled))
        })
    });
    read.unwrap_or_default()
}

/// Headers with credentials are sent only when an allow list names them; a deny list adds to those
/// that are held back.
fn header_filter(field: &Field<'_>) -> HeaderFilter {
    let read = field.section(|section| {
        let allowed = section.all("allow_list", Field::header_name);
        let denied = section.all("deny_list", Field::header_name);
        if allowed.is_empty() {
            return HeaderFilter::AllBut(denied);
        }
        if !denied.is_empty() {
            section.refuse(
                "deny_list",
                "cannot be combined with allow_list, which names every header that is sent",
            );
        }
        HeaderFilter::Only(allowed)
    });
    read.unwrap_or_default()
}

/// The bounds on servers that answers may name.
fn backend_url(field: &Field<'_>) -> BackendUrlSettings {
    let by_default = BackendUrlSettings::default();
    let read = field.section(|section| {
        let schemes = match section.has("schemes") {
            true => section.all("schemes", |field| field.word(&SCHEMES)),
            false => {
                // Asked for, so that it is a known key even when absent.
                section.optional("schemes", |_| Some(()));
                by_default.schemes.clone()
            }
        };
        if schemes.is_empty() {
            section
                .first_of(&["schemes"])
                .note("must name http, https or both");
        }
        BackendUrlSettings {
            allowed_hosts: section.all("allowed_hosts", allowed_host),
            deny_private_networks: section.read("deny_private_networks", true, Field::boolean),
            schemes,
        }
    });
    read.unwrap_or(by_default)
}

/// A name or address without a port, or `*.example` for all below it.
fn allowed_host(field: &Field<'_>) -> Option<String> {
    let text = field.text()?;
    // An IPv6 address has brackets in a URL; host names are compared without.
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    if let Some(Ok(address)) = bare.map(str::parse::<std::net::Ipv6Addr>) {
        return Some(address.to_string());
    }
    let pattern = field.parsed(str::parse::<HostPattern>)?;
    Some(match pattern {
        HostPattern::Exact(host) => host,
        HostPattern::Below(domain) => format!("*.{domain}"),
    })
}
