//! A service that tells Sluicegate the quota of each tenant, from plans in SQLite.
//!
//! `LIMITS_LISTEN` is the address to listen on, `LIMITS_DB` the database file, and `LIMITS_PLANS` a
//! file with the plans of a new database.
#![forbid(unsafe_code)]

use std::env;
use std::error::Error;

use limits_service::{SqlitePlans, limits_router};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let file = env::var("LIMITS_DB").unwrap_or_else(|_| "limits.db".to_owned());
    let listen = env::var("LIMITS_LISTEN").unwrap_or_else(|_| "127.0.0.1:8080".to_owned());
    let seed = match env::var("LIMITS_PLANS") {
        Ok(plans) => std::fs::read_to_string(plans)?,
        Err(_) => include_str!("../plans.json").to_owned(),
    };
    let plans = SqlitePlans::open(&file, &seed)?;
    let listener = TcpListener::bind(&listen).await?;
    println!(
        "limits of {file} at http://{}/limits",
        listener.local_addr()?
    );
    axum::serve(listener, limits_router(plans)).await?;
    Ok(())
}
