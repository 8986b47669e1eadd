//! `proxy`: listeners, timeouts and bounds of the reverse proxy; its routes are in `upstream`.

use std::ops::RangeInclusive;

use sluicegate_core::{Nanos, Quota};

use super::quota::rate_and_burst;
use super::upstream;
use crate::field::{Field, Section};
use crate::typed::{Bounds, Proxy, ServerTls, Timeouts};

/// The range of timeouts. One of zero would end everything, and one of weeks is a typing error.
const TIMEOUT: RangeInclusive<Nanos> = Nanos::MILLISECOND..=Nanos::DAY;

/// The settings; `None` when the section is off or something else.
pub(super) fn proxy(field: &Field<'_>) -> Option<Proxy> {
    field.section(|section| {
        let is_on = section.enabled();
        let listen = section.need("listen", "an IP address and port, such as 127.0.0.1:8080");
        let proxy = Proxy {
            listen: listen.map(|field| listeners(&field)).unwrap_or_default(),
            routes: upstream::routes(section),
            tls: section.subsection("tls").and_then(|field| tls(&field)),
            timeouts: timeouts(section.subsection("timeouts").as_ref()),
            max_connections: number(section, "max_connections", 10_000, 1..=10_000_000),
            max_connections_per_upstream: number(
                section,
                "max_connections_per_upstream",
                1_024,
                1..=1_000_000,
            ),
            // Zero is any number, as for the factor of a limit.
            max_connections_per_client: Some(number(
                section,
                "max_connections_per_client",
                1_000,
                0..=10_000_000,
            ))
            .filter(|most| *most > 0),
            max_buffered_per_connection: to_usize(section.read(
                "max_buffered_per_connection",
                1 << 20,
                |field| field.size(128 << 10..=1 << 30),
            )),
            bounds: bounds(section),
            refused_requests: refused_requests(section.subsection("refused_requests").as_ref()),
            proxy_protocol_from: section.all("proxy_protocol_from", Field::cidr),
            workers: section
                .optional("workers", |field| field.whole_number(1..=1_024))
                .and_then(|count| count.try_into().ok()),
        };
        is_on.then_some(proxy)
    })?
}

/// `{ enabled, cert, key }`
fn tls(field: &Field<'_>) -> Option<ServerTls> {
    field.section(|section| {
        let is_on = section.enabled();
        let certificate = certificate(section);
        is_on.then_some(certificate)
    })?
}

/// One address or several, each once.
fn listeners(field: &Field<'_>) -> Vec<std::net::SocketAddr> {
    let fields = field.one_or_more();
    if fields.is_empty() {
        field.note("must name at least one address");
    }
    let mut addresses = Vec::new();
    for field in &fields {
        let Some(address) = field.socket() else {
            continue;
        };
        // The system picks a port for 0, a new one each time.
        if address.port() != 0 && addresses.contains(&address) {
            field.note("is listed twice");
        }
        addresses.push(address);
    }
    addresses
}

/// `{ cert, key }`, both required; also for other listeners and for client certificates.
pub(super) fn certificate(section: &mut Section<'_>) -> ServerTls {
    let cert = section
        .need("cert", "the file with the certificate")
        .and_then(|field| field.file());
    let key = section
        .need("key", "the file with the private key")
        .and_then(|field| field.file());
    ServerTls {
        cert: cert.unwrap_or_default(),
        key: key.unwrap_or_default(),
    }
}

/// `{ enabled, rate, burst }`: by default ten a second, and a hundred at once.
fn refused_requests(field: Option<&Field<'_>>) -> Option<Quota> {
    let by_default = Quota::per_second(10).burst(100).into();
    let Some(field) = field else {
        return Some(by_default);
    };
    field.section(|section| {
        let is_on = section.enabled();
        let quota = match section.present(&["rate", "burst"]).is_empty() {
            true => Some(by_default),
            false => rate_and_burst(section),
        };
        quota.filter(|_| is_on)
    })?
}

/// Every timeout, with its default.
fn timeouts(field: Option<&Field<'_>>) -> Timeouts {
    let by_default = Timeouts {
        header: Nanos::from_secs(10),
        idle: Nanos::from_secs(60),
        stalled_client: Nanos::from_secs(60),
        stalled_server: Nanos::from_secs(60),
        connect: Nanos::from_secs(5),
        upstream_wait: Nanos::SECOND,
        request: Nanos::from_secs(60),
        drain: Nanos::from_secs(30),
    };
    let read = field.and_then(|field| {
        field.section(|section| {
            let mut timeout =
                |key, default| section.read(key, default, |field| field.duration(TIMEOUT));
            Timeouts {
                header: timeout("header", by_default.header),
                idle: timeout("idle", by_default.idle),
                stalled_client: timeout("stalled_client", by_default.stalled_client),
                stalled_server: timeout("stalled_server", by_default.stalled_server),
                connect: timeout("connect", by_default.connect),
                upstream_wait: timeout("upstream_wait", by_default.upstream_wait),
                request: timeout("request", by_default.request),
                // Zero is a choice here: requests under way are ended at once.
                drain: section.read("drain", by_default.drain, |field| {
                    field.duration(Nanos::ZERO..=Nanos::DAY)
                }),
            }
        })
    });
    read.unwrap_or(by_default)
}

/// The bounds on a request. They are keys of `proxy` itself, not of a section.
fn bounds(section: &mut Section<'_>) -> Bounds {
    let mut size = |key, default| section.read(key, default, |field| field.size(1 << 10..=1 << 20));
    let header_bytes = to_usize(size("max_header_bytes", 16 << 10));
    let target_bytes = to_usize(size("max_target_bytes", 8 << 10));
    Bounds {
        header_bytes,
        headers: number(section, "max_headers", 100, 1..=10_000),
        target_bytes,
        body_bytes: section.optional("max_body", |field| field.size(0..=u64::MAX)),
    }
}

/// A number of things that fit into memory.
fn number(
    section: &mut Section<'_>,
    key: &'static str,
    default: u64,
    range: RangeInclusive<u64>,
) -> usize {
    to_usize(section.read(key, default, |field| field.whole_number(range)))
}

/// Saturates where `usize` has 32 bits.
fn to_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
