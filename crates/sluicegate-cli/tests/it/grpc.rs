//! gRPC with a real client and a real server, through the running program.

mod service;

use std::time::Duration;

use http::uri::PathAndQuery;
use sluicegate_testkit::{HttpRequest, RedisServer, STEP_TIMEOUT};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status, Streaming};

use super::running::Sluicegate;
use service::{COUNT, ECHO, FAIL, HANG, NEVER, Plain, REFUSE, Service};

fn config(service: &Service, burst: u32) -> String {
    format!(
        "
proxy: {{ listen: '127.0.0.1:0', upstream: 'h2c://{}' }}
admin: off
limits:
  - {{ name: per-client, key: [client_ip], rate: 1/h, burst: {burst} }}
",
        service.address
    )
}

/// A service and a program in front of it.
fn scene() -> (Service, Sluicegate) {
    let service = Service::start();
    let sluicegate = Sluicegate::start(&config(&service, 1000));
    (service, sluicegate)
}

/// Runs what a client does, for as long as any step may take.
fn client<T>(sluicegate: &Sluicegate, calls: impl AsyncFnOnce(Client) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let endpoint = Endpoint::from_shared(format!("http://{}", sluicegate.proxy)).unwrap();
        let client = Client(Grpc::new(endpoint.connect_lazy()));
        tokio::time::timeout(STEP_TIMEOUT, calls(client))
            .await
            .expect("the calls end in time")
    })
}

struct Client(Grpc<Channel>);

impl Client {
    async fn unary(
        &mut self,
        path: &'static str,
        message: impl Into<Vec<u8>>,
    ) -> Result<Response<Vec<u8>>, Status> {
        self.ask(path, Request::new(message.into())).await
    }

    async fn ask(
        &mut self,
        path: &'static str,
        request: Request<Vec<u8>>,
    ) -> Result<Response<Vec<u8>>, Status> {
        self.0.ready().await.unwrap();
        self.0
            .unary(request, PathAndQuery::from_static(path), Plain)
            .await
    }

    /// A call with messages both ways: what goes in, and what comes out.
    async fn stream(&mut self, path: &'static str) -> (mpsc::Sender<Vec<u8>>, Streaming<Vec<u8>>) {
        let (sender, receiver) = mpsc::channel(1);
        self.0.ready().await.unwrap();
        let request = Request::new(ReceiverStream::new(receiver));
        let response = self
            .0
            .streaming(request, PathAndQuery::from_static(path), Plain)
            .await
            .unwrap();
        assert_eq!(response.metadata().get("x-first").unwrap(), "header");
        (sender, response.into_inner())
    }
}

#[test]
fn a_message_its_answer_and_the_metadata_of_both_arrive() {
    let (service, sluicegate) = scene();
    client(&sluicegate, async |mut client| {
        let mut request = Request::new(b"hello".to_vec());
        request.metadata_mut().insert("x-own", "1".parse().unwrap());
        request
            .metadata_mut()
            .insert_bin("own-bin", MetadataValue::from_bytes(&[0, 255, 128]));
        let response = client.ask(ECHO, request).await.unwrap();
        assert_eq!(response.get_ref(), b"hello");
        assert_eq!(response.metadata().get("x-first").unwrap(), "header");
        assert_eq!(response.metadata().get("x-last").unwrap(), "trailer");
        assert!(
            response.metadata().contains_key("ratelimit"),
            "{:?}",
            response.metadata()
        );
    });
    let seen = service.seen.lock().unwrap()[0].clone();
    for (name, value) in [
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("x-own", "1"),
        ("x-forwarded-for", "127.0.0.1"),
    ] {
        assert_eq!(seen[name], value, "{seen:?}");
    }
    let binary = tonic::metadata::MetadataMap::from_headers(seen);
    assert_eq!(
        binary
            .get_bin("own-bin")
            .unwrap()
            .to_bytes()
            .unwrap()
            .as_ref(),
        &[0, 255, 128]
    );
}

#[test]
fn a_stream_of_a_server_arrives_in_full_and_in_order() {
    let (_service, sluicegate) = scene();
    client(&sluicegate, async |mut client| {
        client.0.ready().await.unwrap();
        let path = PathAndQuery::from_static(COUNT);
        let response = client
            .0
            .server_streaming(Request::new(b"5000".to_vec()), path, Plain)
            .await
            .unwrap();
        let messages: Vec<_> = response.into_inner().collect().await;
        let expected = (0..5000).map(|number: u32| number.to_string().into_bytes());
        assert!(messages.into_iter().map(Result::unwrap).eq(expected));
    });
}

/// Each message is sent after the answer to the one before: nothing waits for the end of anything.
#[test]
fn messages_take_turns_on_one_stream() {
    let (_service, sluicegate) = scene();
    client(&sluicegate, async |mut client| {
        let (messages, mut answers) = client.stream(ECHO).await;
        for length in [0, 1, 100, 65_535, 65_536, 1_000_000, 7] {
            let message = vec![7; length];
            messages.send(message.clone()).await.unwrap();
            assert_eq!(answers.message().await.unwrap(), Some(message), "{length}");
        }
        drop(messages);
        assert_eq!(answers.message().await.unwrap(), None);
        let trailers = answers.trailers().await.unwrap().unwrap();
        assert_eq!(trailers.get("grpc-status").unwrap(), "0");
        assert_eq!(trailers.get("x-last").unwrap(), "trailer");
    });
}

#[test]
fn many_calls_share_one_connection_and_do_not_wait_for_each_other() {
    let (_service, sluicegate) = scene();
    client(&sluicegate, async |mut client| {
        let mut calls = Vec::new();
        for _ in 0..50 {
            calls.push(client.stream(ECHO).await);
        }
        for (number, (messages, answers)) in calls.iter_mut().enumerate().rev() {
            messages.send(vec![number as u8]).await.unwrap();
            assert_eq!(answers.message().await.unwrap(), Some(vec![number as u8]));
        }
    });
}

#[test]
fn a_status_arrives_as_it_was_sent() {
    let (_service, sluicegate) = scene();
    let wanted = service::status();
    let check = |status: &Status| {
        assert_eq!(
            (status.code(), status.message()),
            (Code::Aborted, wanted.message())
        );
        assert_eq!(status.details(), wanted.details());
        assert_eq!(
            status.metadata().get("x-left"),
            wanted.metadata().get("x-left")
        );
        let binary = status
            .metadata()
            .get_bin("own-bin")
            .unwrap()
            .to_bytes()
            .unwrap();
        assert_eq!(binary.as_ref(), &[0, 159, 255]);
    };
    client(&sluicegate, async |mut client| {
        // In the header, without anything before it.
        check(&client.unary(REFUSE, "x").await.unwrap_err());
        // In the trailers, after a message.
        let (messages, mut answers) = client.stream(FAIL).await;
        messages.send(b"first".to_vec()).await.unwrap();
        assert_eq!(answers.message().await.unwrap(), Some(b"first".to_vec()));
        check(&answers.message().await.unwrap_err());
        assert_eq!(
            client
                .unary("/plain.Service/Nothing", "x")
                .await
                .unwrap_err()
                .code(),
            Code::Unimplemented
        );
    });
}

#[test]
fn limits_count_by_the_status_of_a_call_in_header_and_trailers() {
    let service = Service::start();
    let limit =
        config(&service, 3).replace("burst: 3", "burst: 3, count_when: { grpc_status: 10 }");
    let sluicegate = Sluicegate::start(&limit);
    client(&sluicegate, async |mut client| {
        let left = async |client: &mut Client| {
            let answer = client.unary(ECHO, "x").await.unwrap();
            let left = answer.metadata().get("x-ratelimit-remaining").unwrap();
            left.to_str().unwrap().to_owned()
        };
        assert_eq!(left(&mut client).await, "3");
        assert_eq!(left(&mut client).await, "3", "what succeeds is free");
        client.unary(REFUSE, "x").await.unwrap_err();
        assert_eq!(left(&mut client).await, "2", "the status was in the header");
        let (messages, mut answers) = client.stream(FAIL).await;
        messages.send(b"first".to_vec()).await.unwrap();
        assert_eq!(answers.message().await.unwrap(), Some(b"first".to_vec()));
        answers.message().await.unwrap_err();
        assert_eq!(
            left(&mut client).await,
            "1",
            "the status was in the trailers"
        );
        client.unary(REFUSE, "x").await.unwrap_err();
        let spent = client.unary(ECHO, "x").await.unwrap_err();
        assert_eq!(spent.code(), Code::ResourceExhausted);
    });
}

#[test]
fn a_call_that_the_client_gives_up_ends_at_the_server() {
    let (service, sluicegate) = scene();
    client(&sluicegate, async |mut client| {
        // Before an answer, and in the middle of one.
        let call = tokio::time::timeout(Duration::from_millis(200), client.unary(NEVER, "x"));
        assert!(call.await.is_err());
        let (messages, mut answers) = client.stream(HANG).await;
        assert_eq!(answers.message().await.unwrap(), Some(b"one".to_vec()));
        drop((messages, answers));
        // The connection stays: only the streams have ended.
        assert_eq!(
            client.unary(ECHO, "still here").await.unwrap().get_ref(),
            b"still here"
        );
        let ended = [
            service.ended.recv_timeout(STEP_TIMEOUT).unwrap(),
            service.ended.recv_timeout(STEP_TIMEOUT).unwrap(),
        ];
        assert_eq!(ended, [NEVER, HANG]);
    });
}

#[test]
fn a_deadline_is_told_to_the_server_and_ends_the_call() {
    let (service, sluicegate) = scene();
    client(&sluicegate, async |mut client| {
        let mut request = Request::new(b"x".to_vec());
        request.set_timeout(Duration::from_millis(300));
        let status = client.ask(NEVER, request).await.unwrap_err();
        assert!(
            matches!(status.code(), Code::Cancelled | Code::DeadlineExceeded),
            "{status:?}"
        );
    });
    assert_eq!(service.ended.recv_timeout(STEP_TIMEOUT).unwrap(), NEVER);
    assert_eq!(service.seen.lock().unwrap()[0]["grpc-timeout"], "300000u");
}

/// Not everything may take its time.
fn hasty(service: &Service, timeouts: &str) -> Sluicegate {
    let timeouts = format!("timeouts: {{ {timeouts} }}, upstream:");
    Sluicegate::start(&config(service, 1000).replace("upstream:", &timeouts))
}

const LONG: Duration = Duration::from_secs(1);

#[test]
fn a_stream_may_be_quiet_for_longer_than_a_header_may_take() {
    let service = Service::start();
    let sluicegate = hasty(&service, "header: 200ms");
    client(&sluicegate, async |mut client| {
        let (messages, mut answers) = client.stream(ECHO).await;
        for _ in 0..2 {
            messages.send(b"x".to_vec()).await.unwrap();
            assert_eq!(answers.message().await.unwrap(), Some(b"x".to_vec()));
            // bounded wait: nothing must happen meanwhile
            tokio::time::sleep(LONG).await;
        }
    });
}

/// The rest of its message is not waited for, so nobody is late.
#[test]
fn a_call_that_was_refused_early_leaves_the_others_of_its_connection_alone() {
    let service = Service::start();
    let sluicegate = hasty(&service, "header: 200ms, idle: 200ms");
    client(&sluicegate, async |mut client| {
        client.0.ready().await.unwrap();
        let path = PathAndQuery::from_static(HANG);
        let response = client
            .0
            .server_streaming(Request::new(Vec::new()), path, Plain)
            .await
            .unwrap();
        let mut answers = response.into_inner();
        assert_eq!(answers.message().await.unwrap(), Some(b"one".to_vec()));
        let (_open, messages) = mpsc::channel::<Vec<u8>>(1);
        let request = Request::new(ReceiverStream::new(messages));
        client.0.ready().await.unwrap();
        let refused = client
            .0
            .streaming(request, PathAndQuery::from_static(REFUSE), Plain)
            .await;
        assert_eq!(refused.unwrap_err().code(), Code::Aborted);
        // bounded wait: nothing must happen meanwhile
        tokio::time::sleep(LONG).await;
        assert!(service.ended.try_recv().is_err(), "it is still under way");
    });
}

#[test]
fn a_spent_limit_is_resource_exhausted() {
    let service = Service::start();
    let sluicegate = Sluicegate::start(&config(&service, 2));
    client(&sluicegate, async |mut client| {
        let (messages, mut answers) = client.stream(ECHO).await;
        // A call is one request, whatever it carries.
        for _ in 0..10 {
            messages.send(b"x".to_vec()).await.unwrap();
            assert!(answers.message().await.unwrap().is_some());
        }
        client.unary(ECHO, "x").await.unwrap();
        let status = client.unary(ECHO, "x").await.unwrap_err();
        assert_eq!(
            (status.code(), status.message()),
            (Code::ResourceExhausted, "Too Many Requests")
        );
        assert!(
            status.metadata().contains_key("retry-after")
                && status.metadata().contains_key("ratelimit")
        );
        // Calls under way go on.
        messages.send(b"x".to_vec()).await.unwrap();
        assert!(answers.message().await.unwrap().is_some());
    });
    assert_eq!(service.seen.lock().unwrap().len(), 2);
    let raw = HttpRequest::post(ECHO, "x")
        .headers(&["Content-Type: application/grpc"])
        .send_http2(sluicegate.proxy);
    assert_eq!(
        (raw.status(), raw.header("grpc-status"), raw.body()),
        (200, Some("8"), ""),
        "trailers in the header, and no body: {raw}"
    );
}

#[test]
fn a_store_that_is_away_is_unavailable_if_the_policy_is_closed() {
    let (service, redis) = (Service::start(), RedisServer::start());
    let store = format!(
        "store: {{ kind: redis, on_failure: {{ policy: closed }}, redis: {{ endpoints: ['{}'] }} }}\n",
        redis.address()
    );
    let sluicegate = Sluicegate::start(&(config(&service, 1000) + &store));
    drop(redis);
    client(&sluicegate, async |mut client| {
        let status = client.unary(ECHO, "x").await.unwrap_err();
        assert_eq!(
            (status.code(), status.message()),
            (Code::Unavailable, "Service Unavailable")
        );
        assert_eq!(status.metadata().get("retry-after").unwrap(), "1");
    });
    assert!(service.seen.lock().unwrap().is_empty());
}

#[test]
fn a_server_that_is_away_is_unavailable() {
    let (service, sluicegate) = scene();
    client(&sluicegate, async |mut client| {
        client.unary(ECHO, "x").await.unwrap();
    });
    drop(service);
    client(&sluicegate, async |mut client| {
        for _ in 0..5 {
            let status = client.unary(ECHO, "x").await.unwrap_err();
            assert_eq!(status.code(), Code::Unavailable, "{status:?}");
        }
    });
}
