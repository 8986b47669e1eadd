//! Kills what we started when this process ends without `drop`: aborted, killed, or by `exit`.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// Has this process killed when ours ends.
pub fn watch(process_id: u32) {
    tell(&format!("+ {process_id}\n"));
}

/// Forgets a process that has ended, before its number can belong to another.
pub fn forget(process_id: u32) {
    tell(&format!("- {process_id}\n"));
}

/// A shell that is told of processes line by line and kills the rest when no line can come any more. It must outlive
/// signals to our group, as by an interrupted test run.
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
"#;

/// Closed by the kernel when our process ends, in whichever way.
static PIPE: Mutex<Option<ChildStdin>> = Mutex::new(None);

fn tell(line: &str) {
    let mut pipe = PIPE.lock().unwrap_or_else(PoisonError::into_inner);
    let pipe = pipe.get_or_insert_with(start);
    // Called while a test panics, so a watchdog that somebody killed is not worth a second panic.
    let _nobody_listens = pipe.write_all(line.as_bytes());
}

fn start() -> ChildStdin {
    let mut command = Command::new("sh");
    command.args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    command.spawn().expect("a shell can be started").stdin.take().expect("asked for a pipe")
}
