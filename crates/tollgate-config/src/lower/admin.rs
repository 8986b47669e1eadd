//! `admin`: the operator's door.

use std::net::{Ipv4Addr, SocketAddr};

use crate::item::Item;
use crate::tree::Value;
use crate::typed::Admin;

const PORT: u16 = 9090;

/// On, at loopback, unless it is said otherwise; `admin: off` is off.
pub(super) fn admin(item: Option<&Item<'_>>) -> Admin {
    let by_default = Admin { listen: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, PORT))), token_file: None };
    let Some(item) = item else { return by_default };
    if is_off(item) {
        return Admin { listen: None, token_file: None };
    }
    let read = item.section(|section| {
        let listen = section.optional("listen", Item::socket);
        let token_file = section.optional("token_file", Item::file);
        let is_open = listen.is_some_and(|listen| !listen.ip().to_canonical().is_loopback());
        if is_open && !section.has("token_file") {
            section.need("token_file", "an address that is not loopback needs a token");
        }
        Admin { listen: listen.or(by_default.listen), token_file }
    });
    read.unwrap_or(by_default)
}

fn is_off(item: &Item<'_>) -> bool {
    match &item.node.value {
        Value::Switch(on) => !on,
        Value::Text(text) => matches!(text.as_str(), "off" | "false"),
        _ => false,
    }
}
