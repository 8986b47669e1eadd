//! The number of cases that the property tests try.

use proptest::test_runner::{Config, RngSeed};

/// At least `usual` cases, the same in every run. `SLUICEGATE_CASES` asks for more, which then
/// differ from run to run.
pub fn cases(usual: u32) -> Config {
    let wanted: Option<u32> = std::env::var("SLUICEGATE_CASES")
        .ok()
        .and_then(|text| text.parse().ok());
    Config {
        cases: wanted.unwrap_or(usual).max(usual),
        rng_seed: if wanted.is_some() {
            RngSeed::Random
        } else {
            RngSeed::Fixed(0x7011_9a7e)
        },
        failure_persistence: None,
        max_local_rejects: u32::MAX,
        max_global_rejects: u32::MAX,
        ..Config::default()
    }
}
