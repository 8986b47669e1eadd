//! The running program, asked by real clients over real sockets.

mod running;
mod upstream;

mod first_minute;
mod forwarding;
