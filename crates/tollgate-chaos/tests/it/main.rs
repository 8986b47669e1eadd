//! Short forms of the scenarios.
