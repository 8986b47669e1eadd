//! `sluicegate top`: who is limited right now, as a live view or one table.

#[cfg(feature = "tui")]
mod app;
#[cfg(feature = "tui")]
mod draw;
#[cfg(feature = "tui")]
mod live;
mod seen;
mod table;

use clap::{Args, ValueEnum};

use crate::FAILED;
use crate::door::{Door, show};
use seen::{Question, ask, look};

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
    door: Door,
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
        let remote = self.door.remote()?;
        let question = Question {
            by: self.by,
            limit: self.limit.clone(),
        };
        #[cfg(feature = "tui")]
        {
            use std::io::IsTerminal;
            if !self.once
                && !self.door.json
                && std::io::stdout().is_terminal()
                && std::io::stdin().is_terminal()
            {
                return live::run(remote, self.door.url.to_string(), question);
            }
        }
        if self.door.json {
            return Ok(show(&format!("{:#}\n", ask(&remote, &question)?)));
        }
        Ok(show(&table::table(&look(&remote, &question)?, self.by)))
    }
}
