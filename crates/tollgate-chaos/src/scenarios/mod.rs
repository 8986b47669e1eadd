//! Everything that is made to go wrong.

pub mod outages;
