//! The primitives that the model checker replaces.
//!
//! Code whose races are checked (`local/table.rs`, `redis/shadow/table.rs`) takes its atomics and
//! locks from here. Compiled with `--cfg sluicegate_loom` they are those of the loom crate, which
//! runs a test once for every order in which the threads can see each other's writes.

#[cfg(not(sluicegate_loom))]
pub(crate) use std::sync::atomic::AtomicU64;
#[cfg(not(sluicegate_loom))]
pub(crate) use std::sync::{Mutex, MutexGuard};
#[cfg(all(feature = "redis", not(sluicegate_loom)))]
pub(crate) use std::{hint::spin_loop, sync::atomic::fence, thread::yield_now};

#[cfg(sluicegate_loom)]
pub(crate) use loom::sync::atomic::AtomicU64;
#[cfg(sluicegate_loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard};
#[cfg(all(feature = "redis", sluicegate_loom))]
pub(crate) use loom::{hint::spin_loop, sync::atomic::fence, thread::yield_now};
