//! The running program, asked by real clients over real sockets.

mod load;
mod running;
mod upstream;

mod first_minute;
mod forwarding;
mod protocols;
mod redis;
mod reload;
mod restart;
