//! Options shared by the commands that talk to a running Sluicegate, and the printing of its responses.
//!
//! A command builds a request, [`AdminArgs::run`] sends it and prints the response, either as JSON or as
//! text made by the command.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use crate::admin_client::{AdminClient, AdminUrl};
use crate::exit_code::{FAILED, FINE};
use crate::sanitize::sanitize;

/// Address and token of the admin API, and the output format.
#[derive(Args)]
pub struct AdminArgs {
    /// Admin address of the running Sluicegate: its `admin.listen`
    #[arg(
        long,
        env = "SLUICEGATE_ADMIN_URL",
        default_value = "http://127.0.0.1:9090",
        value_name = "URL"
    )]
    pub url: AdminUrl,
    /// File with the admin token, as in `admin.token_file`; not needed on loopback
    #[arg(long, env = "SLUICEGATE_ADMIN_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Print the response as JSON
    #[arg(long)]
    pub json: bool,
}

impl AdminArgs {
    /// A client for this address. Fails when the token file cannot be read.
    pub fn client(&self) -> Result<AdminClient, String> {
        AdminClient::with_token_file(self.url.clone(), self.token_file.as_deref())
    }

    /// Sends one request and prints the response, as JSON with `--json`, otherwise through `as_text`.
    /// Returns the exit code.
    pub fn run(
        &self,
        send: impl FnOnce(&AdminClient) -> Result<Value, String>,
        as_text: impl FnOnce(&Value) -> String,
    ) -> u8 {
        match self.client().and_then(|client| send(&client)) {
            Ok(response) if self.json => print_out(&format!("{response:#}\n")),
            Ok(response) => print_out(&as_text(&response)),
            Err(error) => {
                eprintln!("sluicegate: {error}");
                FAILED
            }
        }
    }
}

/// Prints to standard output. A reader that closes the pipe early, such as `head`, is not an error.
pub fn print_out(text: &str) -> u8 {
    use std::io::Write;
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            eprintln!("sluicegate: standard output: {error}");
            FAILED
        }
        _ => FINE,
    }
}

/// Name of the person who makes a change.
#[derive(Args)]
pub struct AuthorArg {
    /// Your name, for the audit log
    #[arg(
        long,
        env = "USER",
        hide_env_values = true,
        default_value = "operator",
        value_name = "NAME"
    )]
    pub by: String,
}

/// Author and reason of a change. The reason is optional here; `ban` and `override` require one.
#[derive(Args)]
pub struct ChangeArgs {
    #[command(flatten)]
    author: AuthorArg,
    /// Reason for the change, for the audit log
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl ChangeArgs {
    /// The request body: `{"by": …, "reason": …}`.
    pub fn to_json(&self) -> Value {
        match &self.reason {
            Some(reason) => json!({ "by": self.author.by, "reason": reason }),
            None => json!({ "by": self.author.by }),
        }
    }
}

/// A string of a response, safe to print; a dash where it is missing.
pub fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| "–".to_owned(), sanitize)
}

/// A whole number of a response; zero where it is missing.
pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// Formats microseconds for people: `1.7 s`, `1 min 31 s`. Rounds up, so that a caller who waits this
/// long is not refused again.
pub fn micros(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..1_000_000 => format!("{} ms", tenths(us, 1_000)),
        1_000_000..60_000_000 => format!("{} s", tenths(us, 1_000_000)),
        _ => seconds(us.div_ceil(1_000_000)),
    }
}

/// Formats seconds with the two largest units: `2 d 7 h`.
pub fn seconds(total: u64) -> String {
    let parts = [
        (total / 86_400, "d"),
        (total / 3_600 % 24, "h"),
        (total / 60 % 60, "min"),
        (total % 60, "s"),
    ]
    .into_iter();
    let named: Vec<String> = parts
        .skip_while(|(number, _)| *number == 0)
        .take(2)
        .filter(|(number, _)| *number > 0)
        .map(|(number, unit)| format!("{number} {unit}"))
        .collect();
    if named.is_empty() {
        "0 s".to_owned()
    } else {
        named.join(" ")
    }
}

/// One decimal, rounded up and left out when it is zero.
fn tenths(us: u64, unit: u64) -> String {
    let tenths = us.div_ceil(unit / 10);
    if tenths.is_multiple_of(10) {
        (tenths / 10).to_string()
    } else {
        format!("{}.{}", tenths / 10, tenths % 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_their_largest_units_and_are_never_too_short() {
        for (us, words) in [
            (0, "0 µs"),
            (999, "999 µs"),
            (1_000, "1 ms"),
            (1_701, "1.8 ms"),
            (1_700_000, "1.7 s"),
            (59_999_999, "60 s"),
            (60_000_000, "1 min"),
            (90_000_001, "1 min 31 s"),
            (3_600_000_000, "1 h"),
            (200_000_000_000, "2 d 7 h"),
        ] {
            assert_eq!(micros(us), words);
        }
        assert_eq!(seconds(0), "0 s");
        assert!(
            micros(u64::MAX).ends_with('h') || micros(u64::MAX).ends_with('d'),
            "{}",
            micros(u64::MAX)
        );
    }

    #[test]
    fn missing_text_is_a_dash_and_escape_sequences_are_escaped() {
        assert_eq!(text(&Value::Null), "–");
        assert_eq!(text(&Value::from("\u{1b}[2J")), "\\u{1b}[2J");
    }
}
