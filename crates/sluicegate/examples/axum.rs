//! An axum server with a limit on each client: one request a second, five at once.
//!
//! ```sh
//! cargo run -p sluicegate --example axum
//! ```
//!
//! Another port: `PORT=8080`. In your own project: `cargo add sluicegate --features axum`.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};

use axum::{Router, routing::get};
use sluicegate::{Limit, Limiter, Quota, RateLimitLayer};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_ansi(false).init();

    let per_ip = Limit::per_client("per-ip", Quota::per_second(1).burst(5));
    let limiter = Limiter::local([per_ip])?;
    let app = Router::new()
        .route("/", get(|| async { "hello\n" }))
        .layer(RateLimitLayer::new(limiter));

    let port = std::env::var("PORT").map_or(Ok(3000), |port| port.parse())?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    let address = listener.local_addr()?;
    println!(
        "try it, the sixth is one too many:  for i in 1 2 3 4 5 6; do curl -si http://{address}/; done"
    );

    // Without connect info no client address is known, and every request is answered 400.
    axum::serve(
        listener,
        app.into_make_service_with_connect_info::<SocketAddr>(),
    )
    .await?;
    Ok(())
}
