//! `sluicegate reload`: a running Sluicegate reads its configuration again, and says what became of it.

use clap::Args;
use serde_json::Value;

use crate::admin_args::{AdminArgs, ChangeArgs, text};

#[derive(Args)]
pub struct Reload {
    #[command(flatten)]
    change: ChangeArgs,
    #[command(flatten)]
    admin: AdminArgs,
}

impl Reload {
    /// Mistakes in the file are told one by one; what ran before goes on.
    pub fn run(&self) -> u8 {
        let in_words = |answer: &Value| format!("{}\n", text(&answer["result"]));
        self.admin.ask(
            |remote| remote.post("/v1/reload", &self.change.signed()),
            in_words,
        )
    }
}
