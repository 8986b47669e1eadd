//! Converts the sections of the file to the typed configuration: one file for each section.
//!
//! Everything is read, so that every mistake is found. Where a value could not be read, its mistake
//! has been noted and a default takes its place; [`load`](crate::load) returns the result only if
//! nothing was noted. So a converter need not care whether the values around its own are right.

mod access;
mod admin;
mod ban;
mod client_ip;
mod conditions;
mod cost;
mod counting;
mod decisions;
mod external;
mod factor;
mod failure;
mod limits;
mod names;
mod otel;
mod overload;
mod principals;
mod proxy;
mod quota;
mod redis;
mod redis_url;
mod reject;
mod response;
mod store;
mod traces;
mod upstream;

use std::sync::Arc;

use crate::field::Field;
use crate::typed::{Config, StoreKind};

/// The whole configuration; `None` when the file is not a section at its top.
pub(crate) fn config(field: &Field<'_>) -> Option<Config> {
    field.section(|top| {
        let client_ip = client_ip::client_ip(top.subsection("client_ip").as_ref());
        let prefixes = client_ip.prefixes;
        let store = store::store(top.subsection("store").as_ref());
        let external = top.subsection("external");
        let external_settings = external
            .as_ref()
            .and_then(|field| external::external(field, &store));
        let mut response = response::response(top.subsection("response").as_ref());
        let mut config = Config {
            proxy: top
                .subsection("proxy")
                .and_then(|proxy| proxy::proxy(&proxy)),
            decisions: decisions::decisions(top.subsection("decisions").as_ref()),
            admin: admin::admin(top.subsection("admin").as_ref()),
            overload: overload::overload(top.subsection("overload").as_ref()),
            client_ip,
            principals: principals::principals(top.subsection("principals").as_ref()),
            access: access::access(top.subsection("access").as_ref()),
            policy: Arc::new(limits::policy(
                top.get("limits").as_ref(),
                limits::LimitContext {
                    prefixes,
                    on_failure: store.on_failure,
                    external: match &external {
                        None => limits::ExternalSwitch::Absent,
                        Some(field) if field.is_switched_off() => limits::ExternalSwitch::Off,
                        Some(_) => limits::ExternalSwitch::On,
                    },
                    key_layout: match &store.kind {
                        StoreKind::Redis(redis) => Some(redis.key_layout),
                        StoreKind::Local { .. } => None,
                    },
                    reject: response.reject.as_ref(),
                },
            )),
            external: external_settings,
            store,
            response: {
                response.body_files = field.context.body_files.take();
                response
            },
            log: response::log(top.subsection("log").as_ref()),
            traces: traces::traces(top.subsection("traces").as_ref(), field.context),
            switched_off: field.context.switched_off.take(),
            warnings: field.context.warnings.take(),
            value_files: field.context.value_files.clone(),
        };
        if let Some(external) = &mut config.external {
            external::hold_back_credentials(external, &config.principals);
        }
        // Listeners are in several sections, so they are compared at the end.
        admin::note_shared_address(&config, top);
        decisions::note_shared_address(&config, top);
        config
    })
}
