//! The messages of Envoy's rate limit service, made from the files in `proto`.
#![expect(
    missing_docs,
    reason = "the modules are made from the names of packages, which have no words"
)]

include!(concat!(env!("OUT_DIR"), "/messages.rs"));
