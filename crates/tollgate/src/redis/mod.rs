//! The store that all replicas share: counters in Redis or Valkey, one script call per decision.

#[cfg_attr(not(test), expect(dead_code, unused_imports, reason = "the connection driver follows"))]
mod dial;
mod endpoint;
mod options;
mod options_error;
#[cfg_attr(not(test), expect(dead_code, reason = "the connection driver follows"))]
mod recovery;
mod script;
mod secret;
#[cfg_attr(not(test), expect(dead_code, reason = "the connection driver follows"))]
pub(crate) mod slot;
mod url;
mod validate;
mod wire;

pub use endpoint::{Endpoint, ParseEndpointError};
pub use options::{ClientCert, RedisClock, RedisMode, RedisOptions, TlsOptions};
pub use options_error::OptionsError;
pub use recovery::Recovery;
pub use secret::{Credentials, Secret, SecretError};

use tollgate_core::Quota;

/// One charge on its way to Redis.
#[derive(Clone, Debug)]
struct Item {
    /// The counter's name there.
    key: String,
    quota: Quota,
    cost: u64,
    enforced: bool,
}
