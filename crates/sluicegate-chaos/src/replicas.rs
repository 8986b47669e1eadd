//! Several replicas at once, each a process.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sluicegate_testkit::ShimClock;

use crate::load::now;
use crate::replica::{ReplicaArguments, ReplicaHistory};

/// Running replicas. Dropping them kills them.
#[derive(Debug)]
pub struct Replicas {
    members: Vec<ReplicaProcess>,
    /// When they begin to ask, by [`now`].
    pub start: u64,
    length: Duration,
}

#[derive(Debug)]
struct ReplicaProcess {
    child: Child,
    output: Receiver<Vec<u8>>,
}

/// Long enough to start and to connect on a machine that is busy; who is late begins late.
const HEAD_START: Duration = Duration::from_millis(700);
/// Beyond its length, for the start, the last answers and the history.
const PATIENCE: Duration = Duration::from_secs(20);

impl Replicas {
    /// Starts one replica for each clock; `None` lives by the machine's.
    ///
    /// # Panics
    /// When the program cannot be started.
    #[track_caller]
    pub fn start(program: &Path, orders: &ReplicaArguments, clocks: &[Option<ShimClock>]) -> Self {
        let start = now() + HEAD_START.as_nanos() as u64;
        let orders = ReplicaArguments {
            start,
            ..orders.clone()
        };
        let members = clocks
            .iter()
            .map(|clock| ReplicaProcess::start(program, &orders, clock.as_ref()))
            .collect();
        Self {
            members,
            start,
            length: orders.length,
        }
    }

    /// Starts so many by the machine's clock, and returns what each of them saw.
    pub async fn run(
        program: &Path,
        orders: &ReplicaArguments,
        count: usize,
    ) -> Vec<ReplicaHistory> {
        Self::start(program, orders, &vec![None; count])
            .finish()
            .await
    }

    /// Freezes one (SIGSTOP).
    pub fn stop(&self, member: usize) {
        self.members[member].signal(Signal::STOP);
    }

    /// Lets it go on.
    pub fn resume(&self, member: usize) {
        self.members[member].signal(Signal::CONT);
    }

    /// Waits for all, for a bounded time, and returns what each of them saw.
    ///
    /// # Panics
    /// When one of them panicked or did not end.
    pub async fn finish(mut self) -> Vec<ReplicaHistory> {
        let deadline = Instant::now() + HEAD_START + self.length + PATIENCE;
        let collect = move || {
            self.members
                .iter_mut()
                .map(|member| member.finish(deadline))
                .collect()
        };
        tokio::task::spawn_blocking(collect)
            .await
            .expect("a replica ends in good order")
    }
}

/// The histories of several replicas, merged.
pub fn merged(histories: Vec<ReplicaHistory>) -> ReplicaHistory {
    let mut all = ReplicaHistory::default();
    histories
        .into_iter()
        .for_each(|history| all.include(history));
    all
}

impl ReplicaProcess {
    #[track_caller]
    fn start(program: &Path, orders: &ReplicaArguments, clock: Option<&ShimClock>) -> Self {
        let mut command = Command::new(program);
        command
            .args(orders.to_words())
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        command.envs(clock.map(ShimClock::env).unwrap_or_default());
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let mut pipe = child.stdout.take().expect("asked for a pipe");
        let (sender, output) = mpsc::channel();
        thread::spawn(move || {
            let mut bytes = Vec::new();
            if pipe.read_to_end(&mut bytes).is_ok() {
                let _nobody_waits = sender.send(bytes);
            }
        });
        Self { child, output }
    }

    fn finish(&mut self, deadline: Instant) -> ReplicaHistory {
        let left = deadline.saturating_duration_since(Instant::now());
        let bytes = self
            .output
            .recv_timeout(left)
            .expect("a replica ends in time");
        let status = self
            .child
            .wait()
            .expect("a child of ours that nobody else waits for");
        assert!(status.success(), "a replica ended with {status}");
        ReplicaHistory::from_bytes(&bytes).expect("a replica writes a whole history")
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal)
            .expect("a child of ours that nobody has waited for");
    }
}

impl Drop for ReplicaProcess {
    fn drop(&mut self) {
        let _already_dead = self.child.kill();
        let _already_waited_for = self.child.wait();
    }
}
