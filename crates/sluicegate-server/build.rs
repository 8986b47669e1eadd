//! Turns the messages of Envoy's rate limit service into types.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use prost::Message;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let files = protox::compile(["envoy/service/ratelimit/v3/rls.proto"], ["proto"])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    // What callers are told who ask which services there are.
    fs::write(out.join("messages.bin"), files.encode_to_vec())?;
    prost_build::Config::new()
        .include_file("messages.rs")
        .compile_fds(files)?;
    Ok(())
}
