//! The local store as its users see it: bounded, exact under threads, and not to be bypassed by
//! flooding.

mod bounds;
mod limiter;
mod plain;
mod threads;
