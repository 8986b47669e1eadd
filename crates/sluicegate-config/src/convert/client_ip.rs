//! `client_ip`: the proxies whose headers are believed, and the prefix of an address that makes a
//! caller.

use sluicegate_core::address::Prefixes;

use crate::field::Field;
use crate::typed::{ClientIp, ProxyHeader};

/// The headers that can be chosen, each by its own name.
const HEADERS: [ProxyHeader; 3] = [
    ProxyHeader::XForwardedFor,
    ProxyHeader::Forwarded,
    ProxyHeader::XRealIp,
];

/// The rules, with the prefixes that every limit counts by.
pub(super) fn client_ip(field: Option<&Field<'_>>) -> ClientIp {
    let read = field.and_then(|field| {
        field.section(|section| {
            let trusted_proxies = section.all("trusted_proxies", Field::cidr);
            let header = section.read("header", ProxyHeader::default(), header);
            let mut prefix = |key, default, most| {
                let bits = section.read(key, default, |field| field.whole_number(0..=most));
                u8::try_from(bits).unwrap_or(u8::MAX)
            };
            let prefixes = Prefixes::new(
                prefix("ipv4_prefix", 32, 32),
                prefix("ipv6_prefix", 64, 128),
            );
            ClientIp {
                trusted_proxies,
                header,
                prefixes: prefixes.unwrap_or_default(),
            }
        })
    });
    let by_default = ClientIp {
        trusted_proxies: Vec::new(),
        header: ProxyHeader::default(),
        prefixes: Prefixes::default(),
    };
    read.unwrap_or(by_default)
}

/// A header by its name, in any case.
fn header(field: &Field<'_>) -> Option<ProxyHeader> {
    let name = field.any_text()?.to_ascii_lowercase();
    let known = HEADERS.iter().find(|header| header.name() == name);
    if known.is_none() {
        field.note_unknown_word(&HEADERS.map(ProxyHeader::name));
    }
    known.copied()
}
