//! Makes a program of a target.
//!
//! Each target is a program of its own, because a fuzzer looks at every counter of its program after
//! each input: one that holds only what its target reaches is many times faster.

#[cfg(sluicegate_fuzz)]
pub use libfuzzer_sys;

/// A program that runs a target. Without `cfg(sluicegate_fuzz)`, which `cargo xtask fuzz` sets, it
/// only says so.
#[cfg(sluicegate_fuzz)]
#[macro_export]
macro_rules! program {
    ($run:path) => {
        $crate::libfuzzer_sys::fuzz_target!(|data: &[u8]| $run(data));
    };
}

/// A program that runs a target. Without `cfg(sluicegate_fuzz)`, which `cargo xtask fuzz` sets, it
/// only says so.
#[cfg(not(sluicegate_fuzz))]
#[macro_export]
macro_rules! program {
    ($run:path) => {
        fn main() {
            let _: fn(&[u8]) = $run;
            eprintln!("this program is built by `cargo xtask fuzz`");
        }
    };
}
