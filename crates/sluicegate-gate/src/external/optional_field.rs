//! The fields of a reply that are ignored alone when they are wrong: the quota holds without them.

/// A field of a reply beside `average`, `burst` and `period`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionalField {
    /// The counter to charge.
    TenantKey,
    /// The failure policy.
    FailurePolicy,
    /// The status of refusals.
    FailureCode,
    /// The server for the caller's requests.
    BackendUrl,
    /// The version of HTTP towards that server.
    BackendProtocol,
    /// The longest wait for that server.
    RequestTimeout,
    /// The lifetime of the reply.
    CacheMaxAge,
    /// The wish not to be stored.
    CacheNoStore,
}

impl OptionalField {
    /// Every field, in the order of their counters.
    pub const ALL: [Self; 8] = [
        Self::TenantKey,
        Self::FailurePolicy,
        Self::FailureCode,
        Self::BackendUrl,
        Self::BackendProtocol,
        Self::RequestTimeout,
        Self::CacheMaxAge,
        Self::CacheNoStore,
    ];

    /// The name in the protocol, which also labels its counter.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TenantKey => "tenant_key",
            Self::FailurePolicy => "failure_policy",
            Self::FailureCode => "failure_code",
            Self::BackendUrl => "backend_url",
            Self::BackendProtocol => "backend_protocol",
            Self::RequestTimeout => "request_timeout",
            Self::CacheMaxAge => "cache_max_age_seconds",
            Self::CacheNoStore => "cache_no_store",
        }
    }
}

/// A field that was ignored, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IgnoredField {
    pub(super) field: OptionalField,
    pub(super) why: &'static str,
}
