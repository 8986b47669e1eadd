//! The `sluicegate` binary: arguments in, exit code out.

mod admin_args;
mod admin_client;
mod check;
#[cfg(test)]
mod doc_commands;
mod explain;
mod import;
mod keys;
mod man;
mod overrides;
mod ready;
mod reload;
mod sanitize;
mod serve;
mod top;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Exact rate limits for HTTP services: an edge proxy, and what operators need around it.
#[derive(Parser)]
#[command(name = "sluicegate", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the proxy. Without a file: on 127.0.0.1:8080, in front of a built-in server, ten requests a second per client.
    Serve {
        /// The configuration; read again when it changes.
        #[arg(short, long, env = "SLUICEGATE_CONFIG", value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Look for mistakes in a configuration, and say what it would enforce.
    Check {
        /// The configuration; without one, the built-in default.
        #[arg(env = "SLUICEGATE_CONFIG", value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Say which limits a request meets and why, what they would answer, and when it would pass.
    Explain(explain::Explain),
    /// Put another program's limits into our words: prints a configuration, and what differs.
    Import {
        #[command(subcommand)]
        program: Program,
    },
    /// List counters of a running Sluicegate, by their keys.
    Keys(keys::Keys),
    /// Show a counter of a running Sluicegate: what is left, and when it is full again.
    Inspect(keys::Inspect),
    /// Forget a counter of a running Sluicegate: the next request meets a full one.
    Reset(keys::Reset),
    /// Refuse an address, a network or a principal for a time, on all replicas.
    Ban(overrides::Ban),
    /// Put another quota in a limit's place for a time, on all replicas.
    Override(overrides::Override),
    /// Let a running Sluicegate read its configuration again.
    Reload(reload::Reload),
    /// Watch who is limited: rates, the busiest keys, the store and the orders in force.
    Top(top::Top),
    /// Print the JSON Schema of the configuration.
    Schema,
    /// Print completions for a shell.
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page.
    Man {
        /// Write one page for each command into this directory instead.
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// Ask a running Sluicegate whether requests should come to it: for probes of containers.
    Ready(ready::Ready),
}

/// Programs whose limits can be read.
#[derive(Subcommand)]
enum Program {
    /// The rate limit service of Envoy's own project: envoyproxy/ratelimit.
    EnvoyRatelimit {
        /// One domain's file.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

/// Everything went as asked.
const FINE: u8 = 0;
/// A configuration was refused, or something failed.
const FAILED: u8 = 1;

fn main() -> ExitCode {
    let code = match Arguments::parse().command {
        Command::Serve { config } => serve::run(config),
        Command::Check { config } => check::run(config.as_deref()),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Import {
            program: Program::EnvoyRatelimit { file },
        } => import::envoy_ratelimit(&file),
        Command::Keys(keys) => keys.run(),
        Command::Inspect(inspect) => inspect.run(),
        Command::Reset(reset) => reset.run(),
        Command::Ban(ban) => ban.run(),
        Command::Override(order) => order.run(),
        Command::Reload(reload) => reload.run(),
        Command::Top(top) => top.run(),
        Command::Schema => {
            println!("{:#}", sluicegate_config::schema());
            FINE
        }
        Command::Completions { shell } => {
            clap_complete::generate(
                shell,
                &mut Arguments::command(),
                "sluicegate",
                &mut std::io::stdout(),
            );
            FINE
        }
        Command::Man { dir } => man::run(Arguments::command(), dir.as_deref()),
        Command::Ready(ready) => ready.run(),
    };
    ExitCode::from(code)
}
