//! `admin`: the listener of the admin API.
//!
//! On loopback it needs no token: only users of this computer can connect.

use std::net::{Ipv4Addr, SocketAddr};

use super::names::share_port;
use crate::field::{Field, Section};
use crate::typed::{Admin, Config};

/// The port without `admin.listen`.
const PORT: u16 = 9090;

/// On, at loopback, unless the section says otherwise; `admin: off` is off.
pub(super) fn admin(field: Option<&Field<'_>>) -> Admin {
    let by_default = Admin {
        listen: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, PORT))),
        token_file: None,
    };
    let Some(field) = field else {
        return by_default;
    };
    let off = Admin {
        listen: None,
        token_file: None,
    };
    if field.is_off() {
        return off;
    }
    let read = field.section(|section| {
        let is_on = section.enabled();
        let listen = section.optional("listen", Field::socket);
        let token_file = section.optional("token_file", Field::file);
        let is_open = listen.is_some_and(|listen| !listen.ip().to_canonical().is_loopback());
        if is_open && !section.has("token_file") {
            section.need(
                "token_file",
                "an address that is not loopback needs a token",
            );
        }
        match is_on {
            false => off,
            true => Admin {
                listen: listen.or(by_default.listen),
                token_file,
            },
        }
    });
    read.unwrap_or(by_default)
}

/// Notes that the proxy and the admin API listen at one address: requests from outside would reach
/// the admin API.
pub(super) fn note_shared_address(config: &Config, top: &Section<'_>) {
    let is_shared = |listen: &SocketAddr| {
        let admin = config.admin.listen;
        admin.is_some_and(|admin| share_port(*listen, admin))
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
