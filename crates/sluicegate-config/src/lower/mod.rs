//! From the file to what the rest of Sluicegate sees: one file for each section.
//!
//! Everything is read, so that every mistake is found. Where a value could not be read, its mistake has been noted and a
//! default stands in for it; [`load`](crate::load) gives the result away only if nothing was noted.

mod access;
mod admin;
mod client_ip;
mod decisions;
mod external;
mod failure;
mod limits;
mod names;
mod principals;
mod proxy;
mod quota;
mod redis;
mod redis_url;
mod response;
mod store;
mod traces;
mod upstream;

use std::sync::Arc;

use crate::item::Item;
use crate::typed::Config;

/// The whole configuration; `None` when the file is no section.
pub(crate) fn config(item: &Item<'_>) -> Option<Config> {
    item.section(|top| {
        let (client_ip, prefixes) = client_ip::client_ip(top.sub("client_ip").as_ref());
        let store = store::store(top.sub("store").as_ref());
        let config = Config {
            proxy: top.sub("proxy").and_then(|proxy| proxy::proxy(&proxy)),
            decisions: decisions::decisions(top.sub("decisions").as_ref()),
            admin: admin::admin(top.sub("admin").as_ref()),
            client_ip,
            principals: principals::principals(top.sub("principals").as_ref()),
            access: access::access(top.sub("access").as_ref()),
            policy: Arc::new(limits::policy(
                top.get("limits").as_ref(),
                limits::Around {
                    prefixes,
                    on_failure: store.on_failure,
                    has_external: top.has("external"),
                },
            )),
            external: top
                .sub("external")
                .and_then(|item| external::external(&item, &store)),
            store,
            response: response::response(top.sub("response").as_ref()),
            log: response::log(top.sub("log").as_ref()),
            traces: top.sub("traces").and_then(|item| traces::traces(&item)),
        };
        admin::tell_if_shared(&config, top);
        decisions::tell_if_shared(&config, top);
        config
    })
}
