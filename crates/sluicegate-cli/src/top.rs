//! `sluicegate top`: who is limited right now, as a live view or one table.

#[cfg(feature = "tui")]
mod app;
#[cfg(feature = "tui")]
mod draw;
mod status;
mod table;
#[cfg(feature = "tui")]
mod terminal;

use clap::{Args, ValueEnum};

use crate::FAILED;
use crate::admin_args::{AdminArgs, show};
use status::{TopQuery, fetch_json, fetch_status};

/// `sluicegate top`.
#[derive(Args)]
pub struct Top {
    /// Which keys come first.
    #[arg(long, value_enum, default_value_t = Order::Denied, value_name = "ORDER")]
    by: Order,
    /// Only the keys of this limit.
    #[arg(long, value_name = "NAME")]
    limit: Option<String>,
    /// Print one table and end; this is what happens where no terminal is, too.
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// By what keys are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// Those with the most requests.
    Requests,
    /// Those denied most often.
    Denied,
}

impl Order {
    pub fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Denied => "denied",
        }
    }
}

impl Top {
    pub fn run(&self) -> u8 {
        match self.try_run() {
            Ok(code) => code,
            Err(why) => {
                eprintln!("sluicegate: {why}");
                FAILED
            }
        }
    }

    fn try_run(&self) -> Result<u8, String> {
        let remote = self.admin.remote()?;
        let question = TopQuery {
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
                return terminal::run(remote, self.admin.url.to_string(), question);
            }
        }
        if self.admin.json {
            return Ok(show(&format!("{:#}\n", fetch_json(&remote, &question)?)));
        }
        Ok(show(&table::table(
            &fetch_status(&remote, &question)?,
            self.by,
        )))
    }
}
