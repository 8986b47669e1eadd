//! Scripts: what goes into a call, and what its answer means.
