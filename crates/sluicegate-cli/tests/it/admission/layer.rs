//! The tower layer in this process, with the limits of the same configuration.

use std::convert::Infallible;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use sluicegate::http::PeerAddr;
use sluicegate::{
    Limiter, LocalStore, MonotonicClock, Policy, RateLimitLayer, RedisOptions, RedisStore, Store,
};
use sluicegate_config::Source;
use tower::{Layer, ServiceExt};
use tracing_subscriber::fmt::MakeWriter;

use super::doors::{Answer, FrontDoor, Question, of_http};

/// Asks a layer of its own; with `is_spent`, its limit is spent by a request before. Returns the
/// answer and the number of `RATE_LIMIT` lines about it.
pub fn ask(
    config: &str,
    store_away: Option<u16>,
    is_spent: bool,
    question: &Question,
) -> (Answer, usize) {
    let source = Source {
        name: "sluicegate.yaml".to_owned(),
        text: config.to_owned(),
        base_dir: ".".into(),
        ..Source::embedded()
    };
    let config = sluicegate_config::load(&source, &|_| None).unwrap();
    let policy = Policy::new(config.policy.limits().to_vec()).unwrap();
    let log = LogBuffer::default();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(log.clone())
        .with_ansi(false)
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let answer = runtime.block_on(async {
        match store_away {
            None => ask_with(policy, LocalStore::default(), is_spent, question).await,
            Some(port) => {
                let options = RedisOptions::from_url(&format!("redis://127.0.0.1:{port}")).unwrap();
                let store = RedisStore::new(options).unwrap();
                ask_with(policy, store, is_spent, question).await
            }
        }
    });
    let lines = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    (answer, lines.matches("RATE_LIMIT client_ip=").count())
}

async fn ask_with<S: Store>(
    policy: Policy,
    store: S,
    is_spent: bool,
    question: &Question,
) -> Answer {
    let layer = RateLimitLayer::new(Limiter::new(policy, store, MonotonicClock::new()));
    let service = layer.layer(tower::service_fn(|_: Request<()>| async {
        Ok::<_, Infallible>(Response::new(()))
    }));
    if is_spent {
        service.clone().oneshot(request(question)).await.unwrap();
    }
    let response = service.oneshot(request(question)).await.unwrap();
    of_http(response.status().as_u16(), |name| {
        let value = response.headers().get(name)?;
        Some(value.to_str().unwrap().to_owned())
    })
}

fn request(question: &Question) -> Request<()> {
    let mut request = Request::get(question.path)
        .header("host", "a.example")
        .extension(PeerAddr(SocketAddr::from((FrontDoor::Layer.client(), 1))));
    for (name, value) in question.headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap()
}

/// Keeps all that is logged to it; clones share it.
#[derive(Clone, Default)]
struct LogBuffer(Arc<Mutex<Vec<u8>>>);

impl Write for LogBuffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogBuffer {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
