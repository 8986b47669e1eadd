//! A desk for the tests of every protocol.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use sluicegate_config::{Source, load};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use super::{Desk, SharedToken};
use crate::live::Gate;

static BACKGROUND: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

/// A desk with this configuration, the token in this file, and the one that ends it.
pub(crate) fn desk_with_token(
    text: &str,
    token: Option<&Path>,
) -> (Arc<Desk>, watch::Sender<bool>) {
    let source = Source {
        name: "test".to_owned(),
        text: text.to_owned(),
        base_dir: PathBuf::new(),
    };
    let config = load(&source, &|_| None).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let gate = Arc::new(Gate::new(config, None, BACKGROUND.handle().clone()).unwrap());
    let (told, ending) = watch::channel(false);
    let token = token.map(|path| SharedToken::from_file(path).unwrap());
    (
        Arc::new(Desk {
            gate,
            token,
            ending,
        }),
        told,
    )
}

/// A desk that anybody may ask.
pub(crate) fn desk(text: &str) -> (Arc<Desk>, watch::Sender<bool>) {
    desk_with_token(text, None)
}
