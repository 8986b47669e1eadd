//! The service, in whichever way it is asked.

use std::time::Duration;

use sluicegate_config::{ExternalService, ExternalSettings};
use sluicegate_core::Nanos;

use super::answer::Answer;
use super::ask::Asked;
use super::error::CallError;
use super::grpc::GrpcService;
use super::http::HttpService;
use super::lifetime::Lifetime;

pub(super) enum Service {
    Http(HttpService),
    Grpc(GrpcService),
    /// A service for tests that tell the time themselves.
    #[cfg(test)]
    Pretended(super::pretended::PretendedService),
}

impl Service {
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
        asked: &Asked,
        default: Nanos,
        within: Duration,
    ) -> Result<(Answer, Lifetime), CallError> {
        match self {
            Self::Http(service) => service.ask(asked, default).await,
            Self::Grpc(service) => service.ask(asked, default, within).await,
            #[cfg(test)]
            Self::Pretended(service) => service.ask(asked).await,
        }
    }
}
