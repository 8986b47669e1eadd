//! `decisions`: the listeners at which other proxies ask for decisions.
//!
//! A caller can spend the quota of others, so beyond loopback it must show a token or a
//! certificate, unless the operator says that the network is closed.

use std::net::SocketAddr;

use super::names::share_port;
use super::proxy::certificate;
use crate::field::{Field, Section};
use crate::typed::{Config, Decisions, DecisionsTls};

/// Each protocol is off unless it has an address.
pub(super) fn decisions(field: Option<&Field<'_>>) -> Decisions {
    let read = field.and_then(|field| {
        field.section(|section| {
            let is_on = section.enabled();
            let decisions = Decisions {
                http: section.optional("http", Field::socket),
                token_file: section.optional("token_file", Field::file),
                allow_remote: section.read("allow_remote", false, Field::boolean),
                grpc: section.optional("grpc", Field::socket),
                resp: section.optional("resp", Field::socket),
                tls: section.subsection("tls").and_then(|field| field.section(tls)?),
            };
            // TLS without client certificates lets everybody in, so it does not count here.
            let is_open = decisions.addresses().any(|(_, address)| !address.ip().to_canonical().is_loopback());
            let asks_for_certificates = decisions.tls.as_ref().is_some_and(|tls| tls.client_ca_file.is_some());
            if is_open && !decisions.allow_remote && !asks_for_certificates && !section.has("token_file") {
                section.need(
                    "token_file",
                    "an address that is not loopback needs a token, or tls.client_ca_file, or allow_remote: true where the network keeps \
                     strangers away",
                );
            }
            is_on.then_some(decisions)
        })?
    });
    read.unwrap_or_default()
}

/// `{ enabled, cert, key, client_ca_file }`; `None` when it is off.
fn tls(section: &mut Section<'_>) -> Option<DecisionsTls> {
    let is_on = section.enabled();
    let server = certificate(section);
    let client_ca_file = section.optional("client_ca_file", Field::file);
    is_on.then_some(DecisionsTls {
        server,
        client_ca_file,
    })
}

/// Notes that two listeners are at one address: requests for one would end up at the other.
pub(super) fn note_shared_address(config: &Config, top: &Section<'_>) {
    let proxy = config
        .proxy
        .iter()
        .flat_map(|proxy| &proxy.listen)
        .map(|listen| ("proxy", *listen));
    let admin = config.admin.listen.map(|listen| ("admin", listen));
    let others: Vec<(&str, SocketAddr)> = proxy.chain(admin).collect();
    // Each listener is compared with those before it, so that a pair is noted once.
    let own: Vec<(&str, SocketAddr)> = config.decisions.addresses().collect();
    for (place, (name, address)) in own.iter().enumerate() {
        let taken = others
            .iter()
            .chain(&own[..place])
            .find(|(_, other)| share_port(*address, *other));
        if let Some((other, _)) = taken {
            let message = format!(
                "{name} and {other} listen at the same address and port: change one of them"
            );
            top.first_of(&["decisions"]).note(message);
        }
    }
}
