//! The state of the decision service for the tests of every protocol.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use sluicegate_config::{Source, load};
use sluicegate_gate::gate::Gate;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use super::{DecisionsState, SharedToken};

static BACKGROUND: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

/// The state with this configuration, the token in this file, and the sender that ends it.
pub(crate) fn state_with_token(
    text: &str,
    token: Option<&Path>,
) -> (Arc<DecisionsState>, watch::Sender<bool>) {
    let source = Source {
        name: "test".to_owned(),
        text: text.to_owned(),
        ..Source::embedded()
    };
    let config = load(&source, &|_| None).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let gate = Arc::new(Gate::new(&config, BACKGROUND.handle().clone()).unwrap());
    let (sender, ending) = watch::channel(false);
    let token = token.map(|path| SharedToken::from_file(path).unwrap());
    (
        Arc::new(DecisionsState {
            gate,
            token,
            ending,
            tls: Arc::default(),
        }),
        sender,
    )
}

/// The state without a token.
pub(crate) fn state_of(text: &str) -> (Arc<DecisionsState>, watch::Sender<bool>) {
    state_with_token(text, None)
}
