//! The running program, asked by real clients over real sockets.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests may unwrap like the tests themselves"
)]

mod load;
mod running;

mod admission;
mod answers;
mod authorize;
mod changed_quotas;
mod check_and_diff;
mod check_files;
mod clients;
mod commands;
mod counted_answers;
mod dashboard;
mod decisions;
mod descriptors;
mod documented;
mod envoy_rls;
mod exhaustion;
mod external;
mod first_minute;
mod forwarding;
mod frameworks;
mod gateways;
mod greedy_client;
mod grpc;
mod guessing;
mod h2_attacks;
mod handover;
mod hostile;
mod http2_load;
mod imported;
mod jwks_url;
mod limit_options;
mod logs;
mod memory_budget;
mod operator;
mod operator_commands;
mod packaging;
mod peer_defaults;
mod prometheus;
mod protocols;
mod quickstart;
mod redis;
mod rejections;
mod reload;
mod resp;
mod restart;
mod rewriting;
mod slow_clients;
mod slowhttptest;
mod stalled;
mod switches;
mod systemd;
mod traces;
mod trailers;
mod upstreams;
mod websocket_http2;
