//! The codec of a gRPC service that somebody else has written: found out, or named in the log.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use sluicegate_testkit::{RedisServer, UpstreamRecorder};

use super::super::clients::{file, python};
use super::super::running::Sluicegate;
use super::config;

/// Python's gRPC, which ends with this value.
struct PythonService {
    child: Child,
    port: u16,
}

impl PythonService {
    fn start(codec: &str) -> Self {
        let protos = "../../examples/limits-service/proto";
        let mut child = Command::new(python())
            .arg(file("grpc_limits_service.py"))
            .arg(codec)
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(protos))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut printed = BufReader::new(child.stdout.take().unwrap());
        printed.read_line(&mut line).unwrap();
        let port = line.trim().parse().expect("it prints its port");
        Self { child, port }
    }
}

impl Drop for PythonService {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "needs clients in Python"]
fn the_codec_of_pythons_grpc_is_found_out_or_named_with_what_to_write() {
    for (spoken, other) in [("protobuf", "json"), ("json", "protobuf")] {
        let service = PythonService::start(spoken);
        for configured in ["auto", spoken, other] {
            let (redis, upstream) = (RedisServer::start(), UpstreamRecorder::start());
            let grpc = format!(
                "grpc: {{ address: '127.0.0.1:{}', codec: {configured} }}",
                service.port
            );
            let config = config("nowhere", &redis, &upstream, "");
            let config = config.replace("http: { url: 'nowhere' }", &grpc);
            // Python may be slow to answer its first call.
            let config = config.replace("timeout: 2s", "timeout: 20s");
            let sluicegate = Sluicegate::start(&config);
            let answer = sluicegate.get("/", &["X-Tenant-Id: acme"]);
            let limit = answer.header("x-ratelimit-limit").map(str::to_owned);
            let expected = if configured == other { "1" } else { "7" };
            assert_eq!(limit.as_deref(), Some(expected), "{spoken} {configured}");
            if configured == other {
                sluicegate.wait_for_log(&format!("write external.grpc.codec: {spoken}, or auto"));
            }
        }
    }
}
