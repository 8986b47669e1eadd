//! `sluicegate serve`: runs until it is told to end.

use std::path::PathBuf;

use sluicegate_server::{Program, Ready};

use crate::{FAILED, FINE, check};

pub fn run(path: Option<PathBuf>) -> u8 {
    let loaded = match check::read(path.as_deref()) {
        Ok(loaded) => loaded,
        Err(mistakes) => {
            check::show(&mistakes);
            return FAILED;
        }
    };
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
    match program.run(|ready| introduce(ready, path.as_deref())) {
        Ok(()) => FINE,
        Err(mistakes) => {
            mistakes
                .iter()
                .for_each(|mistake| eprintln!("sluicegate: {mistake}"));
            FAILED
        }
    }
}

/// Where everything is, and something to try.
fn introduce(ready: &Ready, path: Option<&std::path::Path>) {
    match path {
        Some(path) => println!(
            "sluicegate: runs {}; changes to it are taken over",
            path.display()
        ),
        None => println!(
            "sluicegate: runs the built-in configuration; give it yours with --config FILE"
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
        let plain = if ready.is_decisions_tls {
            ""
        } else {
            " -plaintext"
        };
        println!("try it: grpcurl{plain} {address} list");
    }
}
