//! `sluicegate ready`: checks that a running Sluicegate is ready for requests. It is the probe of
//! containers, whose image has neither a shell nor curl.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;

use crate::admin_client::{AdminClient, AdminUrl};
use crate::exit_code::{FAILED, FINE};

/// Arguments of `sluicegate ready`.
#[derive(Args)]
pub struct Ready {
    /// Admin address of the running Sluicegate: its `admin.listen`
    #[arg(
        long,
        env = "SLUICEGATE_ADMIN_URL",
        default_value = "http://127.0.0.1:9090",
        value_name = "URL"
    )]
    url: AdminUrl,
    /// File with the admin token, as in `admin.token_file`; not needed on loopback
    #[arg(long, env = "SLUICEGATE_ADMIN_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Check the store too
    #[arg(long)]
    deep: bool,
    /// Retry for this many seconds until it is ready
    #[arg(long, default_value_t = 0, value_name = "SECONDS")]
    wait: u16,
}

/// Pause between two attempts while waiting.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

impl Ready {
    /// Prints the response of `/readyz` and exits with 0 when ready; otherwise prints the reason to
    /// standard error and exits with 1.
    pub fn run(self) -> u8 {
        let path = if self.deep {
            "/readyz?deep=true"
        } else {
            "/readyz"
        };
        let deadline = Instant::now() + Duration::from_secs(self.wait.into());
        let attempt = || {
            AdminClient::with_token_file(self.url.clone(), self.token_file.as_deref())?.get(path)
        };
        let mut response = attempt();
        while response.is_err() && Instant::now() < deadline {
            std::thread::sleep(RETRY_PAUSE);
            response = attempt();
        }
        match response {
            Ok(readiness) => {
                println!("{readiness}");
                FINE
            }
            Err(error) => {
                eprintln!("sluicegate: {error}");
                FAILED
            }
        }
    }
}
