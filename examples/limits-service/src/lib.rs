//! A limits service for Sluicegate, as a library: the messages of the contract, a router for axum,
//! and plans in SQLite.
//!
//! With plans from elsewhere, a service is one trait and one line:
//!
//! ```
//! use limits_service::{LimitsRequest, LimitsResponse, PlanSource, limits_router};
//!
//! struct SamePlanForAll;
//!
//! impl PlanSource for SamePlanForAll {
//!     type Error = std::convert::Infallible;
//!
//!     async fn limits(&self, request: LimitsRequest) -> Result<Option<LimitsResponse>, Self::Error> {
//!         let gold = LimitsResponse::per("1s", 100).burst(200).cached_for(300);
//!         Ok(request.tenant().map(|_| gold))
//!     }
//! }
//!
//! let router: axum::Router = limits_router(SamePlanForAll);
//! ```
#![forbid(unsafe_code)]

mod contract;
mod plans;
mod router;

pub use contract::{BackendProtocol, FailurePolicy, LimitsRequest, LimitsResponse};
pub use plans::{PlansError, SqlitePlans};
pub use router::{PlanSource, limits_router};
