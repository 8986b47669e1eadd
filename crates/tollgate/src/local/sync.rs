//! The primitives that the model checker replaces.

#[cfg(not(tollgate_loom))]
pub(super) use std::sync::atomic::AtomicU64;
#[cfg(not(tollgate_loom))]
pub(super) use std::sync::{Mutex, MutexGuard};

#[cfg(tollgate_loom)]
pub(super) use loom::sync::atomic::AtomicU64;
#[cfg(tollgate_loom)]
pub(super) use loom::sync::{Mutex, MutexGuard};
