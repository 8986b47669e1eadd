//! `admin`: the operator's door.

use std::net::{Ipv4Addr, SocketAddr};

use crate::field::Field;
use crate::section::Section;
use crate::tree::Value;
use crate::typed::{Admin, Config};

const PORT: u16 = 9090;

/// On, at loopback, unless it is said otherwise; `admin: off` is off.
pub(super) fn admin(field: Option<&Field<'_>>) -> Admin {
    let by_default = Admin {
        listen: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, PORT))),
        token_file: None,
    };
    let Some(field) = field else {
        return by_default;
    };
    if is_off(field) {
        return Admin {
            listen: None,
            token_file: None,
        };
    }
    let read = field.section(|section| {
        let listen = section.optional("listen", Field::socket);
        let token_file = section.optional("token_file", Field::file);
        let is_open = listen.is_some_and(|listen| !listen.ip().to_canonical().is_loopback());
        if is_open && !section.has("token_file") {
            section.need(
                "token_file",
                "an address that is not loopback needs a token",
            );
        }
        Admin {
            listen: listen.or(by_default.listen),
            token_file,
        }
    });
    read.unwrap_or(by_default)
}

/// Notes that the proxy listens where the operator's door is: requests of strangers could end up
/// there.
pub(super) fn note_shared_address(config: &Config, top: &Section<'_>) {
    let Some(admin) = config.admin.listen.filter(|listen| listen.port() != 0) else {
        return;
    };
    let is_shared = |listen: &SocketAddr| {
        let is_same_host = listen.ip() == admin.ip()
            || listen.ip().is_unspecified()
            || admin.ip().is_unspecified();
        listen.port() == admin.port() && is_same_host
    };
    if config
        .proxy
        .iter()
        .flat_map(|proxy| &proxy.listen)
        .any(is_shared)
    {
        top.first_of(&["admin", "proxy"])
            .note("the proxy and admin listen at the same address and port: change one of them");
    }
}

fn is_off(field: &Field<'_>) -> bool {
    match &field.node.value {
        Value::Bool(on) => !on,
        Value::Text(text) => matches!(text.as_str(), "off" | "false"),
        _ => false,
    }
}
