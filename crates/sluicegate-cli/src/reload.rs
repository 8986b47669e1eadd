//! `sluicegate reload`: makes a running Sluicegate reload its configuration, and prints the result.

use clap::Args;
use serde_json::Value;

use crate::admin_args::{AdminArgs, ChangeArgs, text};

/// Arguments of `sluicegate reload`.
#[derive(Args)]
pub struct Reload {
    #[command(flatten)]
    change: ChangeArgs,
    #[command(flatten)]
    admin: AdminArgs,
}

impl Reload {
    /// Prints the version in force. A file with mistakes is an error that lists all of them; the running
    /// configuration then stays.
    pub fn run(&self) -> u8 {
        let as_text = |response: &Value| format!("{}\n", text(&response["result"]));
        self.admin.run(
            |client| client.post("/v1/reload", &self.change.to_json()),
            as_text,
        )
    }
}
