//! The Tollgate library.
