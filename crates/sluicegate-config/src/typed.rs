//! The configuration as the rest of Sluicegate sees it: checked, complete, with every default
//! filled in.
//!
//! One file for each group of sections. Spans are [`Nanos`](sluicegate_core::Nanos), sizes are
//! bytes, files are absolute or relative to the directory of the configuration; nothing here has to
//! be checked again.

mod callers;
mod external;
mod listeners;
mod output;
mod overload;
mod proxy;
mod store;
mod traces;

use std::path::PathBuf;
use std::sync::Arc;

use sluicegate_core::Policy;

pub use sluicegate_core::{HeaderStyle, KeyLayout, ProxyHeader, RedisClock};

pub use callers::{
    Access, AccessList, ApiKeys, ClientIp, CredentialPolicy, JwksSource, JwksUrl, Jwt,
    JwtAlgorithm, OnInvalid, Principals,
};
pub use external::{
    BackendScheme, BackendUrlSettings, ExternalService, ExternalSettings, GrpcCodec, HeaderFilter,
    ServiceAddress,
};
pub use listeners::{Admin, Decisions, DecisionsTls};
pub use output::{BodyFile, BodyStyle, Log, LogFormat, Response};
pub use overload::{MemoryBudget, Overload};
pub use proxy::{Bounds, Proxy, Route, ServerTls, Timeouts, Upstream, UpstreamHttp};
pub use store::{Redis, RedisMode, RedisTls, SecretSource, Store, StoreKind};
pub use traces::{ParentSampling, SecretHeaders, TraceBatch, TraceSampling, TraceShare, Traces};

/// A whole configuration, made by [`load`](crate::load).
#[derive(Debug)]
pub struct Config {
    /// The reverse proxy; `None` is off.
    pub proxy: Option<Proxy>,
    /// The decision service.
    pub decisions: Decisions,
    /// The listener of the admin API.
    pub admin: Admin,
    /// The memory that the process may use.
    pub overload: Overload,
    /// The rules that find the client's address.
    pub client_ip: ClientIp,
    /// The credentials that callers may show.
    pub principals: Principals,
    /// Callers that are never limited, and callers that are always rejected.
    pub access: Access,
    /// The place of the counters.
    pub store: Store,
    /// The limits, checked. Every limit's `on_failure` is filled in from the store's.
    pub policy: Arc<Policy>,
    /// The service that knows callers' quotas; present whenever a limit asks it.
    pub external: Option<ExternalSettings>,
    /// Headers and bodies of our own responses.
    pub response: Response,
    /// The log: its format and its optional lines.
    pub log: Log,
    /// The collector of spans; `None` is off.
    pub traces: Option<Traces>,
    /// The paths of the sections that `enabled: false` turns off, such as `principals.jwt`. Limits
    /// that are off are in the policy.
    pub switched_off: Vec<String>,
    /// Sentences about the environment: variables that cannot be used, and what follows.
    pub warnings: Vec<String>,
    /// The files that values were taken from by `${file:…}`.
    pub value_files: Vec<ValueFile>,
}

/// A file whose first line is a value of the configuration, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueFile {
    /// The key of the value, such as `limits[0].rate`.
    pub place: String,
    /// The file.
    pub path: PathBuf,
}
