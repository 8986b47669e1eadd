//! `sluicegate top`: shows request rates and the busiest keys, as a live view or as one table.
//!
//! `status` fetches and parses; `table` prints once; `app`, `draw` and `terminal` are the live view, which
//! the feature `tui` adds.

#[cfg(feature = "tui")]
mod app;
#[cfg(feature = "tui")]
mod draw;
mod status;
mod table;
#[cfg(feature = "tui")]
mod terminal;

use clap::{Args, ValueEnum};

use crate::admin_args::{AdminArgs, print_out};
use crate::exit_code::FAILED;
use status::{TopQuery, fetch_json, fetch_status};

/// Arguments of `sluicegate top`.
#[derive(Args)]
pub struct Top {
    /// Order of the keys
    #[arg(long, value_enum, default_value_t = Order::Denied, value_name = "ORDER")]
    by: Order,
    /// Only keys of this limit
    #[arg(long, value_name = "NAME")]
    limit: Option<String>,
    /// Print one table and exit; the default when standard output is not a terminal
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Sort order of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// Most requests first
    Requests,
    /// Most denials first
    Denied,
}

impl Order {
    /// Value of `by=` in the admin API, also shown to people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Denied => "denied",
        }
    }
}

impl Top {
    /// Runs the live view on a terminal, otherwise prints one table. Returns the exit code.
    pub fn run(&self) -> u8 {
        match self.try_run() {
            Ok(code) => code,
            Err(error) => {
                eprintln!("sluicegate: {error}");
                FAILED
            }
        }
    }

    fn try_run(&self) -> Result<u8, String> {
        let client = self.admin.client()?;
        let query = TopQuery {
            by: self.by,
            limit: self.limit.clone(),
        };
        #[cfg(feature = "tui")]
        {
            use std::io::IsTerminal;
            if !self.once
                && !self.admin.json
                && std::io::stdout().is_terminal()
                && std::io::stdin().is_terminal()
            {
                return terminal::run(client, self.admin.url.to_string(), query);
            }
        }
        if self.admin.json {
            return Ok(print_out(&format!("{:#}\n", fetch_json(&client, &query)?)));
        }
        Ok(print_out(&table::table(
            &fetch_status(&client, &query)?,
            self.by,
        )))
    }
}
