//! Everything that is made to go wrong.

pub mod outages;
pub mod replicas;
pub mod topologies;
