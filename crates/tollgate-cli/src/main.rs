//! The `tollgate` binary: arguments in, exit code out.

fn main() {}
