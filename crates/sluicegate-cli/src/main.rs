//! The `sluicegate` binary: arguments in, exit code out.
//!
//! One file per command. Commands that talk to a running Sluicegate share [`admin_args`] (the
//! options `--url`, `--token-file`, `--json`) and [`admin_client`] (the HTTP client of the admin API).

mod admin_args;
mod admin_client;
mod check;
mod color;
mod diff;
#[cfg(test)]
mod doc_commands;
mod exit_code;
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

use exit_code::FINE;

/// Decisions allocate little, but connections do: mimalloc is faster here than the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Exact rate limits for HTTP services: a proxy, a decision service, and the commands to operate both.
#[derive(Parser)]
#[command(
    name = "sluicegate",
    version,
    arg_required_else_help = true,
    after_help = "Example:\n  sluicegate serve --config sluicegate.yaml"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

/// One variant per command. Its first doc line is the text of `--help`; every command has an example,
/// which a test parses.
#[derive(Subcommand)]
enum Command {
    /// Run the proxy, the decision service and the admin API
    ///
    /// Without a file it runs the built-in configuration: the proxy on 127.0.0.1:8080 in front of a
    /// built-in echo server, ten requests a second for each client.
    #[command(after_help = "Example:\n  sluicegate serve --config sluicegate.yaml")]
    Serve {
        /// The configuration file, in TOML when its name ends in .toml and in YAML otherwise; changes to
        /// it are loaded while the program runs
        #[arg(short, long, env = "SLUICEGATE_CONFIG", value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Validate a configuration and print what it enforces
    #[command(
        after_help = "Example:\n  sluicegate check sluicegate.yaml\n  sluicegate check --json - < sluicegate.yaml\n  sluicegate check --format github -c sluicegate.yaml\n  sluicegate check --input-format toml - < sluicegate.toml"
    )]
    Check(check::Check),
    /// Say what a change of configuration changes, and for whom
    ///
    /// The exit code is 0 when both files enforce the same, 1 when they differ, and 2 when one of them
    /// has mistakes.
    #[command(after_help = "Example:\n  sluicegate diff sluicegate.yaml changed.yaml")]
    Diff(diff::Diff),
    /// Show which limits apply to a request, why, and whether it would pass
    ///
    /// Describe the request as for curl. Nothing is charged.
    #[command(
        after_help = "Example:\n  sluicegate explain -X POST https://shop.example/cart --client-ip 203.0.113.7 --config sluicegate.yaml\n  sluicegate explain https://shop.example/cart --url http://127.0.0.1:9090"
    )]
    Explain(explain::Explain),
    /// Convert another program's limits to our format
    ///
    /// Prints a configuration to standard output; what differs and what could not be carried over
    /// goes to standard error.
    #[command(
        after_help = "Example:\n  sluicegate import nginx /etc/nginx/nginx.conf > sluicegate.yaml"
    )]
    Import {
        #[command(subcommand)]
        program: import::Program,
    },
    /// List the counters of a running Sluicegate by their keys
    #[command(after_help = "Example:\n  sluicegate keys per-client --contains 203.0.113")]
    Keys(keys::Keys),
    /// Show one counter of a running Sluicegate: units left, and when it is full again
    #[command(after_help = "Example:\n  sluicegate inspect per-client 203.0.113.7")]
    Inspect(keys::Inspect),
    /// Delete one counter of a running Sluicegate, so that its caller starts with a full quota
    #[command(
        after_help = "Example:\n  sluicegate reset per-client 203.0.113.7 --reason 'our mistake'"
    )]
    Reset(keys::Reset),
    /// Refuse an address, a network or a principal for a time, on all replicas
    #[command(
        after_help = "Example:\n  sluicegate ban 203.0.113.0/24 --for 1h --reason scraping\n  sluicegate ban --list"
    )]
    Ban(overrides::Ban),
    /// Replace a limit's quota for a time, for one key or for all keys, on all replicas
    #[command(
        after_help = "Example:\n  sluicegate override per-client 203.0.113.7 --rate 100/s --for 1h --reason 'load test'\n  sluicegate override --list"
    )]
    Override(overrides::Override),
    /// Reload the configuration of a running Sluicegate
    #[command(after_help = "Example:\n  sluicegate reload --reason 'larger quota for the launch'")]
    Reload(reload::Reload),
    /// Watch a running Sluicegate: request rates, the busiest keys, the store, bans and overrides
    #[command(after_help = "Example:\n  sluicegate top\n  sluicegate top --once --by requests")]
    Top(top::Top),
    /// Print the JSON Schema of the configuration
    #[command(after_help = "Example:\n  sluicegate schema > sluicegate.schema.json")]
    Schema,
    /// Print a completion script for a shell
    #[command(
        after_help = "Example:\n  sluicegate completions bash > /etc/bash_completion.d/sluicegate"
    )]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    #[command(after_help = "Example:\n  sluicegate man --dir man1")]
    Man {
        /// Write one page per command into this directory instead
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// Check that a running Sluicegate is ready for requests; for container probes
    #[command(after_help = "Example:\n  sluicegate ready --deep --wait 10")]
    Ready(ready::Ready),
}

fn main() -> ExitCode {
    let code = match Arguments::parse().command {
        Command::Serve { config } => serve::run(config),
        Command::Check(check) => check.run(),
        Command::Diff(diff) => diff.run(),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Import { program } => program.run(),
        Command::Keys(keys) => keys.run(),
        Command::Inspect(inspect) => inspect.run(),
        Command::Reset(reset) => reset.run(),
        Command::Ban(ban) => ban.run(),
        Command::Override(request) => request.run(),
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
