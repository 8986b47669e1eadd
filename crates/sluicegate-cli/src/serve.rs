//! `sluicegate serve`: loads the configuration, runs the server until a signal ends it, and prints at
//! the start where everything listens. The server itself is `sluicegate_server::Program`.

use std::path::PathBuf;

use sluicegate_server::{Program, Ready};

use crate::check;
use crate::exit_code::{FAILED, FINE};

/// Runs the server. Returns when a signal has ended it, or at once if it cannot start.
pub fn run(path: Option<PathBuf>) -> u8 {
    let loaded = match check::read(path.as_deref()) {
        Ok(loaded) => loaded,
        Err(mistakes) => {
            check::show(&mistakes);
            return FAILED;
        }
    };
    // A reload reads the same file with the same environment as the start did.
    let read_again = {
        let path = path.clone();
        move || check::read(path.as_deref()).map_err(|mistakes| mistakes.to_string())
    };
    let log_filter = std::env::var("SLUICEGATE_LOG").ok();
    let program = Program {
        loaded,
        file: path.clone(),
        read_again: Box::new(read_again),
        log_filter,
    };
    match program.run(|ready| print_addresses(ready, path.as_deref())) {
        Ok(()) => FINE,
        Err(mistakes) => {
            mistakes
                .iter()
                .for_each(|mistake| eprintln!("sluicegate: {mistake}"));
            FAILED
        }
    }
}

/// Prints the addresses, the limits in sentences, and a command to try. The last line begins with
/// `try it:`, so that scripts know when the list is complete.
fn print_addresses(ready: &Ready, path: Option<&std::path::Path>) {
    match path {
        Some(path) => println!(
            "sluicegate: running with {}; changes to the file are loaded automatically",
            path.display()
        ),
        None => println!(
            "sluicegate: running the built-in configuration; use your own with --config FILE"
        ),
    }
    for address in &ready.proxy {
        println!(
            "  proxy  {}://{address}",
            if ready.is_tls { "https" } else { "http" }
        );
    }
    let (http, redis) = if ready.is_decisions_tls {
        ("https", "rediss")
    } else {
        ("http", "redis")
    };
    if let Some(address) = ready.decisions {
        println!("  decisions  {http}://{address} (/v1/check, /v1/authorize/…, /openapi.json)");
    }
    if let Some(address) = ready.grpc {
        println!("  grpc   {http}://{address} (Envoy's rate limit service, health, reflection)");
    }
    if let Some(address) = ready.resp {
        println!("  resp   {redis}://{address} (CL.THROTTLE, SG.CHECK)");
    }
    if let Some(address) = ready.admin {
        println!("  admin  http://{address} (dashboard, /metrics, /healthz, /readyz)");
    }
    ready
        .words
        .iter()
        .for_each(|sentence| println!("  {sentence}"));
    if let Some(address) = ready.proxy.first() {
        let (scheme, insecure) = if ready.is_tls {
            ("https", " -k")
        } else {
            ("http", "")
        };
        println!("try it: curl -i{insecure} {scheme}://{address}/");
    } else if let Some(address) = ready.decisions {
        println!("try it: curl {http}://{address}/openapi.json");
    } else if let Some(address) = ready.resp {
        println!("try it: redis-cli -u {redis}://{address} CL.THROTTLE me 15 30 60");
    } else if let Some(address) = ready.grpc {
        let plaintext = if ready.is_decisions_tls {
            ""
        } else {
            " -plaintext"
        };
        println!("try it: grpcurl{plaintext} {address} list");
    }
}
