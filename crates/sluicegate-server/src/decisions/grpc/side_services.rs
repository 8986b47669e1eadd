//! Health and reflection, which tonic serves.

use std::convert::Infallible;
use std::sync::Arc;

use futures_util::FutureExt;
use http::{Request, Response};
use tonic::body::Body;
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::{HealthReporter, HealthService};
use tower::util::BoxCloneSyncService;

use super::SERVICE;

/// A service that is seldom called, so that the cost of its box does not matter.
pub(super) type BoxedService = BoxCloneSyncService<Request<Body>, Response<Body>, Infallible>;

/// The services besides the rate limit service.
pub(super) struct SideServices {
    pub(super) health: BoxedService,
    pub(super) reflection: BoxedService,
    pub(super) reflection_alpha: BoxedService,
}

impl SideServices {
    /// Health reports `SERVING` for as long as the process accepts requests.
    pub(super) fn new() -> Result<Arc<Self>, String> {
        const MESSAGES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/messages.bin"));
        let words = |error: tonic_reflection::server::Error| format!("reflection: {error}");
        let builder = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(MESSAGES)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        let reporter = HealthReporter::new();
        // Nobody else holds the state, so the future is ready at its first poll.
        let set = reporter
            .set_service_status(SERVICE, ServingStatus::Serving)
            .now_or_never();
        set.ok_or_else(|| "health: its state is held by somebody else".to_owned())?;
        let health = HealthServer::new(HealthService::from_health_reporter(reporter));
        Ok(Arc::new(Self {
            health: BoxCloneSyncService::new(health),
            reflection: BoxCloneSyncService::new(builder().build_v1().map_err(words)?),
            reflection_alpha: BoxCloneSyncService::new(builder().build_v1alpha().map_err(words)?),
        }))
    }
}
