//! `sluicegate ready`: asks a running Sluicegate whether requests should come to it. For probes in places where nothing else is.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;

use crate::admin_client::{AdminClient, AdminUrl};
use crate::{FAILED, FINE};

/// Whom to ask, and for how long.
#[derive(Args)]
pub struct Ready {
    /// The operator's door of a running Sluicegate: its `admin.listen`.
    #[arg(
        long,
        env = "SLUICEGATE_ADMIN_URL",
        default_value = "http://127.0.0.1:9090",
        value_name = "URL"
    )]
    url: AdminUrl,
    /// The token of the door, in a file.
    #[arg(long, env = "SLUICEGATE_ADMIN_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Ask the store, too.
    #[arg(long)]
    deep: bool,
    /// Go on asking for so long while it is not ready.
    #[arg(long, default_value_t = 0, value_name = "SECONDS")]
    wait: u16,
}

/// Between two questions.
const PAUSE: Duration = Duration::from_millis(50);

impl Ready {
    /// The answer goes to standard output when it is ready, else the reason to standard error.
    pub fn run(self) -> u8 {
        let path = if self.deep {
            "/readyz?deep=true"
        } else {
            "/readyz"
        };
        let deadline = Instant::now() + Duration::from_secs(self.wait.into());
        let ask = || {
            AdminClient::with_token_file(self.url.clone(), self.token_file.as_deref())?.get(path)
        };
        let mut answer = ask();
        while answer.is_err() && Instant::now() < deadline {
            std::thread::sleep(PAUSE);
            answer = ask();
        }
        match answer {
            Ok(answer) => {
                println!("{answer}");
                FINE
            }
            Err(why) => {
                eprintln!("sluicegate: {why}");
                FAILED
            }
        }
    }
}
