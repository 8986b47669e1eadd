//! Short forms of the scenarios.

mod outages;
mod topologies;
