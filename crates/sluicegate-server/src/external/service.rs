//! The service, in whichever way it is asked.

use std::time::Duration;

use sluicegate_config::{ExternalService, ExternalSettings};
use sluicegate_core::Nanos;

use super::error::CallError;
use super::grpc::GrpcService;
use super::http::HttpService;
use super::lifetime::CacheLifetime;
use super::reply::ServiceReply;
use super::request::LimitsRequest;

pub(super) enum LimitsService {
    Http(HttpService),
    Grpc(GrpcService),
    /// A service for tests that tell the time themselves.
    #[cfg(test)]
    Fake(super::fakes::FakeService),
}

impl LimitsService {
    /// Reads certificates; nothing is dialled.
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

    /// One call. Whoever makes it sees to it that it ends in time; `within` is what the service is told of that.
    pub(super) async fn ask(
        &self,
        request: &LimitsRequest,
        default: Nanos,
        within: Duration,
    ) -> Result<(ServiceReply, CacheLifetime), CallError> {
        match self {
            Self::Http(service) => service.ask(request, default).await,
            Self::Grpc(service) => service.ask(request, default, within).await,
            #[cfg(test)]
            Self::Fake(service) => service.ask(request).await,
        }
    }
}
