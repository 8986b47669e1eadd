//! Envoy's rate limit service: asked by a client of gRPC, and by Envoy itself.

mod real_envoy;

use std::fs;

use http::uri::PathAndQuery;
use sluicegate_server::messages::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use sluicegate_server::messages::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{
    Entry, RateLimitOverride,
};
use sluicegate_server::messages::envoy::service::ratelimit::v3::rate_limit_response::Code;
use sluicegate_server::messages::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use sluicegate_testkit::STEP_TIMEOUT;
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

use super::running::Sluicegate;

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
        tokio::time::timeout(STEP_TIMEOUT, calls(channel))
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
