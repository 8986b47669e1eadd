//! Fuzz targets: one function of bytes for each.
//!
//! A target returns, or panics: then the bytes are an input that our code takes wrongly. Each one
//! asserts more than that nothing panics: that bytes mean the same however they arrive, that what
//! was read can be written and read again, that a second and simpler implementation agrees.
//!
//! The same functions run in two ways. `cargo xtask fuzz` links each with libFuzzer, which searches
//! for inputs by the code that they reach; `tests/it` runs each over the inputs in `seeds/` and
//! `regressions/`, in every test run. docs/fuzzing.md tells how to add a target.
#![forbid(unsafe_code)]

mod input;
mod limits;
mod written_client;

// Sent by clients.
pub mod chunked;
pub mod forwarded;
pub mod hpack;
pub mod http1_hyper;
pub mod http1_request;
pub mod http2_server;
pub mod jwt;
pub mod path;
pub mod proxy_protocol;

// Sent by servers, services and stores.
pub mod external_reply;
pub mod http1_response;
pub mod jwks;
pub mod redis_replies;

// Sent by callers of the decision service.
pub mod grpc_descriptors;
pub mod resp_commands;
pub mod resp_server;

// Written by operators.
pub mod config_import;
pub mod config_toml;
pub mod config_yaml;
pub mod rates;

// Written by ourselves.
pub mod log_lines;
pub mod lua;

pub mod planted;

/// A target.
pub struct Target {
    /// Its name: that of its module, its program and its folders.
    pub name: &'static str,
    /// Takes an input; panics if our code takes it wrongly.
    pub run: fn(&[u8]),
}

macro_rules! targets {
    ($($name:ident),* $(,)?) => {
        /// Every target.
        pub const TARGETS: &[Target] = &[
            $(Target {
                name: stringify!($name),
                run: $name::run,
            }),*
        ];
    };
}

targets![
    chunked,
    config_import,
    config_toml,
    config_yaml,
    external_reply,
    forwarded,
    grpc_descriptors,
    hpack,
    http1_hyper,
    http1_request,
    http1_response,
    http2_server,
    jwks,
    jwt,
    log_lines,
    lua,
    path,
    proxy_protocol,
    rates,
    redis_replies,
    resp_commands,
    resp_server,
];
