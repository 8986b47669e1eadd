//! Protocols of the decision service as plain functions, for the targets in `fuzz/`.

pub use crate::decisions::grpc::fuzz_internals::{
    ChargedDescriptors, charge_descriptors, compare_with_prost,
};
pub use crate::decisions::resp::fuzz_internals::{ParsedCommands, RespServer, parse_commands};
