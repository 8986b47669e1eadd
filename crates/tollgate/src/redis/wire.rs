//! The Redis protocol, as far as a client of ours needs it.
