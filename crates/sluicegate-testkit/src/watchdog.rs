//! Cleans up when this process ends without `drop`: aborted, killed, or by `exit`.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::TempDir;

/// A directory in the one of this process, gone at `drop` or when this process ends.
pub fn temporary_directory(prefix: &str) -> TempDir {
    let root = watchdog().get_or_insert_with(start).root.clone();
    tempfile::Builder::new()
        .prefix(prefix)
        .tempdir_in(root)
        .expect("a directory of ours can be written")
}

/// Has this process killed when ours ends.
pub fn watch(process_id: u32) {
    tell(&format!("+ {process_id}\n"));
}

/// Forgets a process that has ended, before its number can belong to another.
pub fn forget(process_id: u32) {
    tell(&format!("- {process_id}\n"));
}

/// A shell that is told of processes line by line and, when no line can come any more, kills the rest and removes the
/// directory. It must outlive signals to our group, as by an interrupted test run.
const SCRIPT: &str = r#"
trap '' INT TERM HUP
live=' '
while read -r sign process; do
    case $sign in
    +) live="$live$process " ;;
    -) live="${live%% "$process" *} ${live#* "$process" }" ;;
    esac
done
[ "$live" = ' ' ] || kill -KILL $live
rm -rf -- "$1"
"#;

struct Watchdog {
    root: PathBuf,
    /// Closed by the kernel when our process ends, in whichever way.
    pipe: ChildStdin,
}

static WATCHDOG: Mutex<Option<Watchdog>> = Mutex::new(None);

fn watchdog() -> MutexGuard<'static, Option<Watchdog>> {
    WATCHDOG.lock().unwrap_or_else(PoisonError::into_inner)
}

fn tell(line: &str) {
    let mut watchdog = watchdog();
    let pipe = &mut watchdog.get_or_insert_with(start).pipe;
    // Called while a test panics, so a watchdog that somebody killed is not worth a second panic.
    let _nobody_listens = pipe.write_all(line.as_bytes());
}

fn start() -> Watchdog {
    let root = tempfile::Builder::new()
        .prefix("sluicegate-")
        .tempdir()
        .expect("temporary directories can be made")
        .keep();
    let mut command = Command::new("sh");
    command
        .args(["-c", SCRIPT, "watchdog"])
        .arg(&root)
        .process_group(0);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let pipe = command
        .spawn()
        .expect("a shell can be started")
        .stdin
        .take()
        .expect("asked for a pipe");
    Watchdog { root, pipe }
}
