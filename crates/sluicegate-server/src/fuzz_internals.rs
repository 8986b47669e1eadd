//! Protocols of the decision service as plain functions, for the targets in `fuzz/`.

use std::sync::Arc;

use sluicegate_config::Config;
use sluicegate_gate::gate::Gate;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::decisions::DecisionsState;

pub use crate::decisions::grpc::fuzz_internals::{ChargedDescriptors, charge_descriptors};
pub use crate::decisions::resp::fuzz_internals::{ParsedCommands, RespServer, parse_commands};

/// The state of a decision service without a token, and the end that keeps it going.
pub(crate) fn decisions_state(
    config: &Config,
    background: &Handle,
) -> Result<(Arc<DecisionsState>, watch::Sender<bool>), String> {
    let gate = Gate::new(config, background.clone()).map_err(|error| format!("{error:?}"))?;
    let (end, ending) = watch::channel(false);
    let state = DecisionsState {
        gate: Arc::new(gate),
        token: None,
        ending,
        tls: Arc::default(),
    };
    Ok((Arc::new(state), end))
}
