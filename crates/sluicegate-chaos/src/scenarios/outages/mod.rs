//! A Redis that goes away, is slow, is full or forgets, and what callers see of it meanwhile and afterwards.

pub(super) mod callers;
pub(super) mod faulty_redis;

pub mod away;
pub mod boot;
pub mod debts;
pub mod flapping;
pub mod foreign;
pub mod forgetful;
pub mod full;
pub mod herd;
pub mod slow;
pub mod traces;
