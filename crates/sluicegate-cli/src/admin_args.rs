//! What the commands for operators have in common: where the door is, and how its answers are shown.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use crate::admin_client::{AdminClient, AdminUrl};
use crate::sanitize::sanitize;
use crate::{FAILED, FINE};

/// Where the door is, and what opens it.
#[derive(Args)]
pub struct AdminArgs {
    /// The operator's door of a running Sluicegate: its `admin.listen`.
    #[arg(
        long,
        env = "SLUICEGATE_ADMIN_URL",
        default_value = "http://127.0.0.1:9090",
        value_name = "URL"
    )]
    pub url: AdminUrl,
    /// The file with its token, as in `admin.token_file`. None is needed on loopback.
    #[arg(long, env = "SLUICEGATE_ADMIN_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Print the answer as JSON.
    #[arg(long)]
    pub json: bool,
}

impl AdminArgs {
    pub fn remote(&self) -> Result<AdminClient, String> {
        AdminClient::with_token_file(self.url.clone(), self.token_file.as_deref())
    }

    /// Asks one question, and prints the answer as it came or in words.
    pub fn ask(
        &self,
        question: impl FnOnce(&AdminClient) -> Result<Value, String>,
        in_words: impl FnOnce(&Value) -> String,
    ) -> u8 {
        match self.remote().and_then(|remote| question(&remote)) {
            Ok(answer) if self.json => show(&format!("{answer:#}\n")),
            Ok(answer) => show(&in_words(&answer)),
            Err(why) => {
                eprintln!("sluicegate: {why}");
                FAILED
            }
        }
    }
}

/// Prints, and does not mind when nobody reads to the end.
pub fn show(text: &str) -> u8 {
    use std::io::Write;
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            eprintln!("sluicegate: standard output: {error}");
            FAILED
        }
        _ => FINE,
    }
}

/// Who changes something.
#[derive(Args)]
pub struct AuthorArg {
    /// Who does this; goes to the audit log.
    #[arg(
        long,
        env = "USER",
        hide_env_values = true,
        default_value = "operator",
        value_name = "NAME"
    )]
    pub by: String,
}

/// Who changes something, and perhaps why.
#[derive(Args)]
pub struct ChangeArgs {
    #[command(flatten)]
    by: AuthorArg,
    /// Why; goes to the audit log.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl ChangeArgs {
    /// As the door is told.
    pub fn signed(&self) -> Value {
        match &self.reason {
            Some(reason) => json!({ "by": self.by.by, "reason": reason }),
            None => json!({ "by": self.by.by }),
        }
    }
}

/// A text of an answer, without anything that a terminal would obey; a dash where there is none.
pub fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| "–".to_owned(), sanitize)
}

/// A whole number of an answer; zero where there is none.
pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// A time to wait, as people say it.
pub fn micros(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..1_000_000 => format!("{} ms", tenths(us, 1_000)),
        1_000_000..60_000_000 => format!("{} s", tenths(us, 1_000_000)),
        _ => seconds(us.div_ceil(1_000_000)),
    }
}

/// The two largest units of a time.
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
        .map(said)
        .collect();
    if named.is_empty() {
        "0 s".to_owned()
    } else {
        named.join(" ")
    }
}

fn said((number, unit): (u64, &str)) -> String {
    format!("{number} {unit}")
}

/// Rounded up, because who comes back early is refused again.
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
    fn times_are_said_with_their_largest_units_and_never_too_short() {
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
    fn a_text_that_is_missing_or_would_act_is_shown_all_the_same() {
        assert_eq!(text(&Value::Null), "–");
        assert_eq!(text(&Value::from("\u{1b}[2J")), "\\u{1b}[2J");
    }
}
