//! A response that a server has begun, with what is held until it ends.

use std::sync::Arc;

use sluicegate_net::{ClientPermit, HttpResponse};

use super::body::BodySource;
use super::upstream::UpstreamServer;

/// A server's response, and the server that sent it.
pub(super) struct ForwardedResponse {
    pub(super) answer: HttpResponse<BodySource>,
    pub(super) server: Arc<UpstreamServer>,
    /// Held until the response has ended.
    pub(super) share: ClientPermit,
}

impl ForwardedResponse {
    pub(super) fn of(
        server: &Arc<UpstreamServer>,
        share: ClientPermit,
    ) -> impl FnOnce(HttpResponse<BodySource>) -> Self {
        |mut answer| {
            let mut share = share;
            if let BodySource::Switched(Some(switched)) = &mut answer.body {
                // It outlives the response.
                let of_client = std::mem::replace(&mut share, ClientPermit::uncounted());
                let slot = std::mem::replace(&mut switched.slot, Box::new(()));
                switched.slot = Box::new((slot, of_client));
            }
            Self {
                answer,
                server: Arc::clone(server),
                share,
            }
        }
    }
}
