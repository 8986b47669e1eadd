//! A Redis that goes away, is slow, is full or forgets, and what callers see of it meanwhile and afterwards.

pub(super) mod callers;
pub(super) mod stage;

pub mod away;
pub mod boot;
pub mod flapping;
pub mod foreign;
pub mod forgetful;
pub mod full;
pub mod herd;
pub mod slow;
pub mod traces;

use std::pin::Pin;

use crate::{Length, Report};

/// A scenario by name.
pub type Scenario = (
    &'static str,
    fn(Length) -> Pin<Box<dyn Future<Output = Report> + Send>>,
);

/// Every scenario here, in reading order.
pub fn all() -> Vec<Scenario> {
    vec![
        ("away::stopped", |length| Box::pin(away::stopped(length))),
        ("away::killed", |length| Box::pin(away::killed(length))),
        ("away::packets_dropped", |length| {
            Box::pin(away::packets_dropped(length))
        }),
        ("away::reset", |length| Box::pin(away::reset(length))),
        ("away::stalled", |length| Box::pin(away::stalled(length))),
        ("away::one_byte_per_second", |length| {
            Box::pin(away::one_byte_per_second(length))
        }),
        ("away::half_closed", |length| {
            Box::pin(away::half_closed(length))
        }),
        ("away::too_late", |length| Box::pin(away::too_late(length))),
        ("away::old_connections_swallowed", |length| {
            Box::pin(away::old_connections_swallowed(length))
        }),
        ("slow::by_latency", |length| {
            Box::pin(slow::by_latency(length))
        }),
        ("slow::by_load", |length| Box::pin(slow::by_load(length))),
        ("flapping::resets", |length| {
            Box::pin(flapping::resets(length))
        }),
        ("flapping::stops", |length| {
            Box::pin(flapping::stops(length))
        }),
        ("full::full", |length| Box::pin(full::full(length))),
        ("foreign::foreign", |length| {
            Box::pin(foreign::foreign(length))
        }),
        ("forgetful::scripts", |length| {
            Box::pin(forgetful::scripts(length))
        }),
        ("forgetful::counters", |length| {
            Box::pin(forgetful::counters(length))
        }),
        ("forgetful::connections", |length| {
            Box::pin(forgetful::connections(length))
        }),
        ("forgetful::pause", |length| {
            Box::pin(forgetful::pause(length))
        }),
        ("herd::herd", |length| Box::pin(herd::herd(length))),
        ("boot::boot", |length| Box::pin(boot::boot(length))),
        ("boot::idle", |length| Box::pin(boot::idle(length))),
        ("boot::loading", |length| Box::pin(boot::loading(length))),
        ("traces::dropped", |length| {
            Box::pin(traces::dropped(length))
        }),
        ("traces::runtime_ends", |length| {
            Box::pin(traces::runtime_ends(length))
        }),
    ]
}
