//! A Redis that goes away, is slow, is full or forgets, and what callers see of it meanwhile and afterwards.

mod callers;
mod stage;

pub mod away;
