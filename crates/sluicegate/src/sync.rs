//! The primitives that the model checker replaces.

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
