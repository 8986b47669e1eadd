//! Envoy's rate limit service: asked by a client of gRPC, and by Envoy itself.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command};

use http::uri::PathAndQuery;
use sluicegate_server::messages::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use sluicegate_server::messages::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{
    Entry, RateLimitOverride,
};
use sluicegate_server::messages::envoy::service::ratelimit::v3::rate_limit_response::Code;
use sluicegate_server::messages::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use sluicegate_testkit::needs;
use tempfile::TempDir;
use tonic::client::Grpc;
use tonic::metadata::MetadataMap;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_prost::ProstCodec;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use super::running::{LONGEST, Sluicegate, eventually, header, port_to_listen_at, status};
use super::upstream::Upstream;

const CONFIG: &str = r#"
proxy: { listen: "127.0.0.1:0" }
admin: { listen: "127.0.0.1:0" }
decisions: { grpc: "127.0.0.1:0" }
limits:
  - { name: per-user, key: ["descriptor:user"], rate: 3/h, burst: 3, match: { domain: edge } }
  - { name: watched, key: ["descriptor:watched"], rate: 1/h, burst: 1, mode: shadow }
"#;

/// Runs what a client does, for as long as any step may take.
pub fn client<T>(sluicegate: &Sluicegate, calls: impl AsyncFnOnce(Channel) -> T) -> T {
    let address = sluicegate.grpc.expect("it says where Envoy asks");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let channel = Endpoint::from_shared(format!("http://{address}"))
            .unwrap()
            .connect_lazy();
        tokio::time::timeout(LONGEST, calls(channel))
            .await
            .expect("the calls end in time")
    })
}

async fn ask(
    channel: &Channel,
    request: RateLimitRequest,
    token: Option<&str>,
) -> Result<RateLimitResponse, Status> {
    let token = token.map(|token| format!("Bearer {token}"));
    ask_with(
        channel,
        request,
        token.as_deref().map(|token| ("authorization", token)),
    )
    .await
}

/// The same, with any other line.
pub async fn ask_with(
    channel: &Channel,
    request: RateLimitRequest,
    line: Option<(&'static str, &str)>,
) -> Result<RateLimitResponse, Status> {
    let mut metadata = MetadataMap::new();
    if let Some((name, value)) = line {
        metadata.insert(name, value.parse().unwrap());
    }
    let path =
        PathAndQuery::from_static("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit");
    let codec = ProstCodec::<RateLimitRequest, RateLimitResponse>::default();
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.unwrap();
    let request = Request::from_parts(metadata, tonic::Extensions::default(), request);
    grpc.unary(request, path, codec)
        .await
        .map(tonic::Response::into_inner)
}

pub fn descriptor(name: &str, value: &str) -> RateLimitDescriptor {
    let entries = vec![Entry {
        key: name.to_owned(),
        value: value.to_owned(),
    }];
    RateLimitDescriptor {
        entries,
        ..RateLimitDescriptor::default()
    }
}

pub fn request(descriptors: impl IntoIterator<Item = RateLimitDescriptor>) -> RateLimitRequest {
    RateLimitRequest {
        domain: "edge".to_owned(),
        descriptors: descriptors.into_iter().collect(),
        hits_addend: 0,
    }
}

#[test]
fn every_field_of_question_and_answer_is_understood() {
    let sluicegate = Sluicegate::start(CONFIG);
    client(&sluicegate, async |channel| {
        let ann = || descriptor("user", "ann");
        let two = RateLimitRequest {
            hits_addend: 2,
            ..request([descriptor("watched", "x"), ann()])
        };
        let told = ask(&channel, two, None).await.unwrap();
        assert_eq!(told.overall_code(), Code::Ok);
        let left: Vec<(Code, u32)> = told
            .statuses
            .iter()
            .map(|status| (status.code(), status.limit_remaining))
            .collect();
        assert_eq!(
            left,
            [(Code::Ok, 1), (Code::Ok, 1)],
            "two are more than the first holds, but it only watches"
        );
        let limit = told.statuses[1].current_limit.clone().unwrap();
        assert_eq!(
            (limit.name.as_str(), limit.requests_per_unit),
            ("per-user", 3)
        );
        assert!(told.statuses[1].duration_until_reset.unwrap().seconds > 2_000);
        let own = RateLimitDescriptor {
            hits_addend: Some(2),
            ..ann()
        };
        let told = ask(&channel, request([own.clone()]), None).await.unwrap();
        assert_eq!(told.overall_code(), Code::OverLimit);
        let names: Vec<&str> = told
            .response_headers_to_add
            .iter()
            .map(|line| line.key.as_str())
            .collect();
        for name in [
            "ratelimit",
            "ratelimit-policy",
            "x-ratelimit-limit",
            "x-ratelimit-remaining",
            "x-ratelimit-reset",
            "retry-after",
        ] {
            assert!(names.contains(&name), "{name} is not in {names:?}");
        }
        let back = RateLimitDescriptor {
            is_negative_hits: true,
            ..own
        };
        assert_eq!(
            ask(&channel, request([back]), None).await.unwrap().statuses[0].limit_remaining,
            3
        );
        let limit = Some(RateLimitOverride {
            requests_per_unit: 1,
            unit: 4,
        });
        let daily = || request([RateLimitDescriptor { limit, ..ann() }]);
        assert_eq!(
            ask(&channel, daily(), None).await.unwrap().overall_code(),
            Code::Ok
        );
        assert_eq!(
            ask(&channel, daily(), None).await.unwrap().overall_code(),
            Code::OverLimit
        );
        let other = RateLimitRequest {
            domain: "inside".to_owned(),
            ..request([ann()])
        };
        assert!(
            ask(&channel, other, None).await.unwrap().statuses[0]
                .current_limit
                .is_none(),
            "another domain"
        );
        let refused = ask(&channel, request(vec![ann(); 65]), None)
            .await
            .unwrap_err();
        assert_eq!(refused.code(), tonic::Code::InvalidArgument);
        let large = descriptor("user", &"x".repeat(70_000));
        assert_eq!(
            ask(&channel, request([large]), None)
                .await
                .unwrap_err()
                .code(),
            tonic::Code::OutOfRange
        );
    });
}

#[test]
fn health_and_reflection_are_there() {
    let sluicegate = Sluicegate::start(CONFIG);
    client(&sluicegate, async |channel| {
        let service = "envoy.service.ratelimit.v3.RateLimitService";
        for name in ["", service] {
            let asked = HealthCheckRequest {
                service: name.to_owned(),
            };
            let told = HealthClient::new(channel.clone())
                .check(asked)
                .await
                .unwrap()
                .into_inner();
            assert_eq!(told.status, 1, "{name}");
        }
        let asked = ServerReflectionRequest {
            host: String::new(),
            message_request: Some(MessageRequest::ListServices(String::new())),
        };
        let mut client = ServerReflectionClient::new(channel.clone());
        let mut told = client
            .server_reflection_info(tokio_stream::iter([asked]))
            .await
            .unwrap()
            .into_inner();
        let told = told
            .message()
            .await
            .unwrap()
            .unwrap()
            .message_response
            .unwrap();
        let MessageResponse::ListServicesResponse(list) = told else {
            panic!("{told:?}")
        };
        assert!(
            list.service.iter().any(|own| own.name == service),
            "{list:?}"
        );
    });
}

#[test]
fn without_the_token_only_health_is_told() {
    const TOKEN: &str = "0123456789abcdef";
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("token"), TOKEN).unwrap();
    let config = CONFIG.replace(
        "grpc: \"127.0.0.1:0\"",
        "grpc: \"127.0.0.1:0\", token_file: token",
    );
    fs::write(directory.path().join("sluicegate.yaml"), config).unwrap();
    let sluicegate = Sluicegate::start_in(directory);
    client(&sluicegate, async |channel| {
        let ann = || request([descriptor("user", "ann")]);
        for shown in [None, Some("0123456789abcdeF")] {
            assert_eq!(
                ask(&channel, ann(), shown).await.unwrap_err().code(),
                tonic::Code::Unauthenticated
            );
        }
        assert_eq!(
            ask(&channel, ann(), Some(TOKEN)).await.unwrap().statuses[0].limit_remaining,
            2
        );
        HealthClient::new(channel.clone())
            .check(HealthCheckRequest::default())
            .await
            .unwrap();
    });
}

/// A running Envoy.
struct Envoy {
    child: Child,
    address: SocketAddr,
    directory: TempDir,
}

impl Envoy {
    /// The configuration of the example, with other ports.
    fn start(program: &PathBuf, upstream: &Upstream, sluicegate: SocketAddr) -> Self {
        let example = include_str!("../../../../examples/envoy/envoy.yaml");
        Self::start_with(example, program, upstream, sluicegate)
    }

    fn start_with(
        example: &str,
        program: &PathBuf,
        upstream: &Upstream,
        sluicegate: SocketAddr,
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], port_to_listen_at()));
        let port_of_upstream = upstream
            .url()
            .rsplit(':')
            .next()
            .unwrap()
            .trim_end_matches('/')
            .to_owned();
        let ports = [
            ("port_value: 10000", address.port().to_string()),
            ("port_value: 3000", port_of_upstream),
            ("port_value: 8082", sluicegate.port().to_string()),
            // A busy machine is not the fault of the one who is asked.
            ("timeout: 0.2s", "5s".to_owned()),
        ];
        let config = ports.iter().fold(example.to_owned(), |config, (from, to)| {
            assert!(config.contains(from), "{from}");
            let key = from.split_once(' ').unwrap().0;
            config.replace(from, &format!("{key} {to}"))
        });
        let file = directory.path().join("envoy.yaml");
        fs::write(&file, config).unwrap();
        let log = fs::File::create(directory.path().join("log")).unwrap();
        let child = Command::new(program)
            .arg("-c")
            .arg(&file)
            .args([
                "--disable-hot-restart",
                "--concurrency",
                "1",
                "-l",
                "warning",
            ])
            .stdout(fs::File::create(directory.path().join("access")).unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let envoy = Self {
            child,
            address,
            directory,
        };
        eventually("Envoy listens", || TcpStream::connect(address).is_ok());
        envoy
    }

    fn get(&self, path: &str, user: Option<&str>) -> String {
        use std::io::{Read, Write};
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(LONGEST)).unwrap();
        let user = user.map_or_else(String::new, |user| format!("x-user: {user}\r\n"));
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n{user}\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    /// Its access log.
    fn access(&self) -> String {
        fs::read_to_string(self.directory.path().join("access")).unwrap()
    }

    fn statuses(&self, path: &str, user: Option<&str>, count: usize) -> Vec<u16> {
        (0..count).map(|_| status(&self.get(path, user))).collect()
    }
}

impl Drop for Envoy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!(
                "{}",
                fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
            );
        }
    }
}

/// The example's limits, behind a port.
fn example(port: u16) -> String {
    let example = include_str!("../../../../examples/envoy/sluicegate.yaml");
    let rest = "proxy: { listen: \"127.0.0.1:0\" }\nadmin: { listen: \"127.0.0.1:0\" }\n";
    example.replace("127.0.0.1:8082", &format!("127.0.0.1:{port}")) + rest
}

#[test]
#[ignore = "needs Envoy"]
fn envoy_lets_pass_what_we_let_pass_and_tells_its_clients_why() {
    let program = needs::program("SLUICEGATE_ENVOY");
    let upstream = Upstream::start();
    let sluicegate = Sluicegate::start(&example(0));
    let envoy = Envoy::start(&program, &upstream, sluicegate.grpc.unwrap());
    eventually("Envoy reaches Sluicegate", || {
        header(&envoy.get("/", None), "x-ratelimit-limit").is_some()
    });
    let first = envoy.get("/", Some("ann"));
    assert_eq!(
        (status(&first), header(&first, "x-ratelimit-remaining")),
        (200, Some("2")),
        "{first}"
    );
    assert!(header(&first, "ratelimit").is_some(), "{first}");
    assert_eq!(envoy.statuses("/", Some("ann"), 3), [200, 200, 429]);
    let denied = envoy.get("/", Some("ann"));
    assert_eq!(
        header(&denied, "x-ratelimit-remaining"),
        Some("0"),
        "{denied}"
    );
    let wait: u64 = header(&denied, "retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{denied}");
    assert_eq!(
        envoy.statuses("/", Some("bob"), 4),
        [200, 200, 200, 429],
        "each user has his own"
    );
    assert_eq!(
        envoy.statuses("/", Some("vip"), 6),
        [200, 200, 200, 200, 200, 429]
    );
    assert_eq!(
        envoy.statuses("/plan", None, 3),
        [200, 200, 429],
        "the plan of the route comes along"
    );
    assert_eq!(status(&envoy.get("/", None)), 200);
    let passed = upstream
        .seen()
        .iter()
        .filter(|seen| format!("{seen:?}").contains("/plan"))
        .count();
    assert_eq!(passed, 2, "what is limited does not reach the service");
    eventually("the log says which limit it was", || {
        envoy.access().contains("429 / limited_by=per-user")
    });
    assert!(
        envoy.access().contains("200 / limited_by=-"),
        "{}",
        envoy.access()
    );
}

#[test]
#[ignore = "needs Envoy"]
fn without_us_envoy_does_as_it_is_told_and_asks_again_when_we_are_back() {
    let program = needs::program("SLUICEGATE_ENVOY");
    let upstream = Upstream::start();
    let mut sluicegate = Sluicegate::start(&example(port_to_listen_at()));
    let address = sluicegate.grpc.unwrap();
    let envoy = Envoy::start(&program, &upstream, address);
    eventually("Envoy reaches Sluicegate", || {
        header(&envoy.get("/", None), "x-ratelimit-limit").is_some()
    });
    assert_eq!(envoy.statuses("/", Some("ann"), 4), [200, 200, 200, 429]);
    sluicegate.signal("KILL");
    sluicegate.wait();
    assert_eq!(
        envoy.statuses("/", Some("ann"), 5),
        [200; 5],
        "nobody says no"
    );
    let _again = Sluicegate::start(&example(address.port()));
    eventually("Envoy asks again", || {
        header(&envoy.get("/", Some("eve")), "x-ratelimit-limit").is_some()
    });
    eventually("and is told no again", || {
        status(&envoy.get("/", Some("eve"))) == 429
    });
}

#[test]
#[ignore = "needs Envoy"]
fn without_us_envoy_refuses_if_it_is_told_to() {
    let program = needs::program("SLUICEGATE_ENVOY");
    let upstream = Upstream::start();
    let mut sluicegate = Sluicegate::start(&example(port_to_listen_at()));
    let address = sluicegate.grpc.unwrap();
    let open = include_str!("../../../../examples/envoy/envoy.yaml");
    let closed = open.replace("failure_mode_deny: false", "failure_mode_deny: true");
    assert_ne!(open, closed);
    let envoy = Envoy::start_with(&closed, &program, &upstream, address);
    eventually("Envoy reaches Sluicegate", || {
        header(&envoy.get("/", None), "x-ratelimit-limit").is_some()
    });
    sluicegate.signal("KILL");
    sluicegate.wait();
    let before = upstream.count();
    assert_eq!(
        envoy.statuses("/", Some("ann"), 5),
        [500; 5],
        "nobody says yes"
    );
    assert_eq!(upstream.count(), before);
    let _again = Sluicegate::start(&example(address.port()));
    eventually("Envoy asks again", || {
        status(&envoy.get("/", Some("eve"))) == 200
    });
}
