//! A service that tells Sluicegate the quota of each tenant, from plans in SQLite.
//!
//! `LIMITS_DB` is the database file, `LIMITS_LISTEN` the address to listen on.
#![forbid(unsafe_code)]

mod plans;
mod service;

use std::env;
use std::error::Error;
use std::sync::Arc;

use plans::Plans;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let file = env::var("LIMITS_DB").unwrap_or_else(|_| "limits.db".to_owned());
    let listen = env::var("LIMITS_LISTEN").unwrap_or_else(|_| "127.0.0.1:8080".to_owned());
    let plans = Arc::new(Plans::open(&file)?);
    let listener = TcpListener::bind(&listen).await?;
    println!(
        "limits of {file} at http://{}/limits",
        listener.local_addr()?
    );
    axum::serve(listener, service::router(plans)).await?;
    Ok(())
}
