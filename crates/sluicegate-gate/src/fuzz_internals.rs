//! Parsers and writers of this crate as plain functions, for the targets in `fuzz/`.

pub use crate::auth::fuzz_internals::parse_key_set;
pub use crate::external::fuzz_internals::{ReplyFormat, check_reply, stored_and_read};
pub use crate::telemetry::access_log::fuzz_internals::{
    access_json, access_text, rate_limit_json, rate_limit_text,
};
