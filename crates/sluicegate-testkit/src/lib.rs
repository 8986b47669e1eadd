//! Real servers, faults, clients and checks for the tests of this workspace.
//!
//! Everything blocks, every wait has an end, and every process started here is killed when its value
//! is dropped, also when the test panics or is killed. A helper that cannot do its work panics with
//! the reason: a test has nothing better to do with it.
//!
//! | for | use |
//! |---|---|
//! | a Redis, alone or with replicas, sentinels or a cluster | [`RedisServer`], [`Replication`], [`SentinelGroup`], [`RedisCluster`] |
//! | a network that delays, cuts or swallows | [`FaultProxy`] |
//! | a Redis whose clock jumps | [`ClockShim`] |
//! | a request and its response, in HTTP/1.1 or HTTP/2 | [`HttpRequest`], [`HttpResponse`] |
//! | bytes that no client or server would send | [`raw_socket`] |
//! | HTTP/2 frames that are wrong or too many | [`h2_frames`] |
//! | a server behind the proxy that records its requests | [`UpstreamRecorder`] |
//! | open connections as the system sees them | [`count_sockets`] |
//! | certificates | [`TlsFiles`] |
//! | the number of admissions that a quota allows | [`Bound`] |
//! | times, and their percentiles | [`Latencies`] |
//! | a port, a wait, a process for a test alone | [`free_port`], [`eventually`], [`alone`](fn@alone) |
//!
//! A test with a Redis of its own:
//!
//! ```no_run
//! use sluicegate_testkit::RedisServer;
//!
//! let redis = RedisServer::start();
//! let config = format!("store: {{ kind: redis, redis: {{ endpoints: ['{}'] }} }}", redis.address());
//! # let _ = config;
//! // … use it; it ends with the test.
//! assert!(redis.keys("sluicegate:").is_empty());
//! ```
//!
//! A test with a server that records what it gets:
//!
//! ```
//! use sluicegate_testkit::{HttpRequest, UpstreamRecorder};
//!
//! let upstream = UpstreamRecorder::start();
//! // A test would send this to a proxy in front of the upstream.
//! let response = HttpRequest::get("/a").headers(&["X-Own: 1"]).send(upstream.address);
//! assert_eq!((response.status(), response.body()), (200, "ok"));
//! let request = upstream.only_request();
//! assert_eq!((request.target.as_str(), request.header("x-own")), ("/a", Some("1")));
//! ```

mod alone;
pub mod needs;
mod processes;
pub mod watchdog;

mod inspect;
mod server;

mod cluster;
mod replication;
mod sentinel;
mod tls;

mod clock_shim;
mod fault_proxy;

pub mod h2_frames;
pub mod http_client;
mod http_response;
pub mod raw_socket;
mod tcp_table;
pub mod upstream_recorder;

mod bound;
mod latency;

pub use alone::{alone, assert_passed, is_alone, run_alone, run_alone_by};
pub use bound::{Admission, Bound, KeyReport, Report, Worst};
pub use clock_shim::{ClockShim, ShimClock};
pub use cluster::RedisCluster;
pub use fault_proxy::{Fault, FaultProxy};
pub use http_client::HttpRequest;
pub use http_response::HttpResponse;
pub use latency::Latencies;
pub use processes::{STEP_TIMEOUT, eventually, free_port, wait_until, yield_to_others};
pub use replication::Replication;
pub use sentinel::SentinelGroup;
pub use server::{RedisBuilder, RedisServer};
pub use tcp_table::{TcpState, count_sockets};
pub use tls::{ClientAuth, TlsFiles};
pub use upstream_recorder::{
    RecordedRequest, UpstreamProtocol, UpstreamRecorder, UpstreamResponse,
};
