//! The network engine from outside.

mod idle_memory;
