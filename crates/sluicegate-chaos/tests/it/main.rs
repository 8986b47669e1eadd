//! Short forms of the scenarios.

mod outages;
mod replicas;
mod topologies;
