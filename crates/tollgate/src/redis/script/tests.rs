//! The scripts through a real Redis.
