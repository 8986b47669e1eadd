//! The service behind one type, whichever protocol it is called in.

use std::time::Duration;

use sluicegate_config::{ExternalService, ExternalSettings};
use sluicegate_core::Nanos;

use super::error::CallError;
use super::grpc::GrpcService;
use super::http::HttpService;
use super::lifetime::CacheLifetime;
use super::reply::ServiceReply;
use super::request::LimitsRequest;

/// A client of the service in its configured protocol.
pub(super) enum LimitsService {
    Http(HttpService),
    Grpc(GrpcService),
    /// A service in memory, for tests with a paused clock.
    #[cfg(test)]
    Fake(super::fakes::FakeService),
}

impl LimitsService {
    /// Reads certificates; no connection is made yet.
    pub(super) fn new(settings: &ExternalSettings) -> Result<Self, String> {
        let timeout = settings.timeout.into();
        match &settings.service {
            ExternalService::Http { at, path } => {
                HttpService::new(at, path, timeout, settings.max_concurrent_requests)
                    .map(Self::Http)
            }
            ExternalService::Grpc { at, codec } => {
                GrpcService::new(at, *codec, timeout).map(Self::Grpc)
            }
        }
    }

    /// Makes one call.
    ///
    /// The caller of this function ends it at the deadline. `time_left` is only passed on to the
    /// service, as the timeout of gRPC; `default_ttl` is the lifetime of a reply without its own.
    pub(super) async fn call(
        &self,
        request: &LimitsRequest,
        default_ttl: Nanos,
        time_left: Duration,
    ) -> Result<(ServiceReply, CacheLifetime), CallError> {
        match self {
            Self::Http(service) => service.call(request, default_ttl).await,
            Self::Grpc(service) => service.call(request, default_ttl, time_left).await,
            #[cfg(test)]
            Self::Fake(service) => service.call(request).await,
        }
    }
}
