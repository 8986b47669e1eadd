//! Real servers, faults and checks for the tests of this workspace.
//!
//! Everything blocks, every wait has an end, and everything started here is killed when its value is dropped, also when
//! the test panics or is killed. A helper that cannot do its work panics with the reason: a test has nothing better to do with it.

mod alone;
pub mod needs;
mod processes;
pub mod watchdog;

mod builder;
mod inspect;
mod server;

mod cluster;
mod replication;
mod sentinel;
mod tls;

mod clock_shim;
mod fault_proxy;

mod bound;
mod latency;

pub use alone::{alone, assert_passed, is_alone, run_alone, run_alone_by};
pub use bound::{Admission, Bound, KeyReport, Report, Worst};
pub use builder::RedisBuilder;
pub use clock_shim::{ClockShim, ShimClock};
pub use cluster::RedisCluster;
pub use fault_proxy::{Fault, FaultProxy};
pub use latency::Latencies;
pub use processes::{free_port, wait_until};
pub use replication::Replication;
pub use sentinel::SentinelGroup;
pub use server::RedisServer;
pub use tls::{ClientAuth, TlsFiles};
