//! Futures that are ready at once, in tests that have threads and no runtime.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// The value of a future that waits for nothing.
pub fn ready_value<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a store in this process made a request wait"),
    }
}
