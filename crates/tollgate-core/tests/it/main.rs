//! Integration tests of the engine, in one binary.
