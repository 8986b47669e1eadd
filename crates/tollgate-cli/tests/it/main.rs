//! The running program, asked by real clients over real sockets.
#![expect(clippy::unwrap_used, reason = "helpers of tests may unwrap like the tests themselves")]

mod frames;
mod load;
mod running;
mod upstream;

mod commands;
mod descriptors;
mod exhaustion;
mod first_minute;
mod forwarding;
mod h2_attacks;
mod logs;
mod protocols;
mod redis;
mod reload;
mod restart;
mod slow_clients;
mod slowhttptest;
mod upstreams;
