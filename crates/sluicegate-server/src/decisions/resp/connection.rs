//! One client's connection: a loop of read, answer, write.
//!
//! Clients pipeline, so all whole commands of one read are answered together, in one write and in
//! the order they came. With the local store a decision never waits, and its reply goes straight to
//! the output. With a shared store the decisions run side by side in a `FuturesOrdered`, which
//! yields replies in the order of the commands. The invariant is that a reply may go straight to
//! the output only while no decision is pending; otherwise it queues behind them.
//!
//! One deadline covers a command from its first byte to its last. It starts again with each new
//! command, not with each read, so that a client cannot hold a connection by sending single bytes.
//!
//! The protocol has no word for a connection that is about to close. So when the process ends, the
//! last replies and the end of the stream are sent as one: a client that waits for its replies
//! finds the end before it can send the next command. A client that waits for nothing is closed
//! when it has been quiet for a while.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use futures_util::stream::FuturesOrdered;
use futures_util::{FutureExt, StreamExt};
use sluicegate_gate::snapshot::Snapshot;
use sluicegate_gate::store::AnyStore;
use sluicegate_gate::telemetry::metrics::{DecisionAnswer, DecisionProtocol};
use sluicegate_net::{First, Lingering, RareEvent, StallTimeout, Transport};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::command::CommandName;
use super::counter_command::{CounterCommand, refused};
use super::parse::{CommandParser, ParsedInput};
use super::reply::{RespReply, RespVersion};
use super::session::ClientSession;
use crate::decisions::DecisionsState;

/// A connection to a client.
pub(super) struct RespConnection {
    state: Arc<DecisionsState>,
    stream: RespStream,
    session: ClientSession,
    parser: CommandParser,
    /// Bytes that were read and not answered yet.
    input: BytesMut,
    /// Replies that were not sent yet.
    output: Vec<u8>,
}

/// A client's stream; its end takes no reply back.
type RespStream = Lingering<StallTimeout<Transport>>;

/// The step after the commands of one read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextStep {
    Read,
    Close,
}

/// The result of reading one command: a reply, or a decision that is still to be made.
enum CommandResult<'a> {
    Ready(RespReply),
    Pending(CounterCommand<'a>),
}

/// The end of the process, as a connection sees it.
#[derive(Clone, Copy)]
struct Drain {
    /// The time until which a quiet client is waited for.
    quiet: Instant,
    /// The time from which on nobody is waited for who sends without a pause.
    latest: Instant,
}

impl Drain {
    /// The longest time for clients that send one command after the other.
    const LONGEST: Duration = Duration::from_secs(5);

    fn begin() -> Self {
        let now = Instant::now();
        Self {
            quiet: now + RespStream::SILENCE,
            latest: now + Self::LONGEST,
        }
    }

    /// Waits until a client was quiet for as long as it may, and begins anew.
    async fn quiet(&mut self) {
        sleep_until(self.quiet).await;
        self.quiet += RespStream::SILENCE;
    }
}

impl RespConnection {
    /// Bytes of room for one read.
    const INPUT: usize = 16 * 1024;
    /// Bytes of replies that are sent before further commands are answered.
    const OUTPUT: usize = 64 * 1024;
    /// The longest time from the first byte of a command to its last, and from the beginning of the
    /// connection to the token.
    const PATIENCE: Duration = Duration::from_secs(10);

    pub(super) fn new(state: Arc<DecisionsState>, transport: Transport) -> Self {
        let stream = Lingering::new(StallTimeout::new(transport));
        let session = ClientSession::new(state.token.as_ref());
        let (input, output) = (
            BytesMut::with_capacity(Self::INPUT),
            Vec::with_capacity(Self::INPUT),
        );
        Self {
            state,
            stream,
            session,
            parser: CommandParser::default(),
            input,
            output,
        }
    }

    /// Answers until the client goes, sends invalid bytes, is too slow, or the process ends.
    pub(super) async fn run(mut self) -> io::Result<()> {
        let mut ending = self.state.ending.clone();
        let ended = async move {
            let _ = ending.wait_for(|ending| *ending).await;
        };
        let mut ended = RareEvent::new(ended);
        let mut began = Instant::now();
        let mut drain: Option<Drain> = None;
        loop {
            let was_empty = self.input.is_empty();
            let is_waiting = !was_empty || !self.session.is_known();
            let until = if is_waiting {
                Some(began + Self::PATIENCE)
            } else {
                None
            };
            self.input.reserve(Self::INPUT);
            let reading = in_time(self.stream.read_buf(&mut self.input), until);
            let read = match &mut drain {
                None => match ended.or(pin!(reading)).await {
                    First::Main(read) => Some(read?),
                    First::Event(()) => {
                        drain = Some(Drain::begin());
                        continue;
                    }
                },
                Some(drain) => tokio::select! {
                    biased;
                    read = reading => Some(read?),
                    () = drain.quiet() => None,
                },
            };
            match read {
                Some(0) => return Ok(()),
                Some(_) => {}
                None if self.has_unread() => continue,
                None => return self.stream.shutdown().await,
            }
            let unanswered = self.input.len();
            let next = self.answer().await?;
            // The deadline moves with a new command, not with another piece of the same one. Before
            // the token was shown it does not move at all, and without a piece there is none.
            let is_other = was_empty || self.input.len() < unanswered;
            if !self.input.is_empty() && is_other && self.session.is_known() {
                began = Instant::now();
            }
            let is_last = next == NextStep::Close || drain.is_some_and(|drain| self.ends(drain));
            if is_last {
                self.transport().hold_until_shutdown();
            }
            self.stream.write_all(&self.output).await?;
            self.output.clear();
            if is_last {
                return self.stream.shutdown().await;
            }
            if self.input.is_empty() {
                self.shrink();
            }
        }
    }

    /// Returns true when the client has its replies to everything that it has sent, or has had time
    /// enough to pause.
    fn ends(&mut self, drain: Drain) -> bool {
        !self.has_unread() || Instant::now() >= drain.latest
    }

    /// Returns true when bytes have come that are not answered.
    fn has_unread(&mut self) -> bool {
        !self.input.is_empty() || self.transport().has_unread()
    }

    fn transport(&mut self) -> &mut Transport {
        self.stream.get_mut().get_mut()
    }

    /// Answers every whole command in the input, and leaves the beginning of the next one there.
    async fn answer(&mut self) -> io::Result<NextStep> {
        let Self {
            state,
            stream,
            session,
            parser,
            input,
            output,
        } = self;
        let snapshot = Arc::clone(&state.gate.snapshot());
        let is_at_once =
            matches!(state.gate.engine.store(), AnyStore::Local(_)) && snapshot.external.is_none();
        // Most replies are ready at once, so this is made when it is needed.
        let mut pending: Option<FuturesOrdered<_>> = None;
        let mut used = 0;
        let next = loop {
            let (result, next) = match parser.next(&input[used..]) {
                Ok(ParsedInput::Unfinished) => break NextStep::Read,
                Ok(ParsedInput::Command {
                    arguments,
                    used: length,
                    is_inline,
                }) => {
                    used += length;
                    let Some((name, arguments)) = arguments.split_first() else {
                        continue;
                    };
                    read_command(state, &snapshot, session, name, arguments, is_inline)
                }
                Err(error) => {
                    let reply = RespReply::wrong(format!("no command: {error}"));
                    (CommandResult::Ready(reply), NextStep::Close)
                }
            };
            let protocol = session.protocol;
            match result {
                CommandResult::Ready(reply) if pending.is_none() => reply.write(protocol, output),
                // The local store never waits, so the future is ready at its first poll.
                CommandResult::Pending(command) if is_at_once => {
                    match command.run(state, &snapshot).now_or_never() {
                        Some(reply) => reply.write(protocol, output),
                        None => return Err(io::ErrorKind::Unsupported.into()),
                    }
                }
                result => pending
                    .get_or_insert_with(FuturesOrdered::new)
                    .push_back(finish(result, protocol, state, &snapshot)),
            }
            if output.len() > Self::OUTPUT {
                stream.write_all(output).await?;
                output.clear();
            }
            if next == NextStep::Close {
                break NextStep::Close;
            }
        };
        write_all_of(pending, output).await;
        input.advance(used);
        Ok(next)
    }

    /// Frees the room that large commands took.
    fn shrink(&mut self) {
        if self.input.capacity() > 2 * Self::INPUT {
            self.input = BytesMut::with_capacity(Self::INPUT);
        }
        if self.output.capacity() > 2 * Self::OUTPUT {
            self.output = Vec::with_capacity(Self::INPUT);
        }
    }
}

/// Reads a command: its result, and the step after it.
fn read_command<'a>(
    state: &DecisionsState,
    snapshot: &Snapshot,
    session: &mut ClientSession,
    name: &[u8],
    arguments: &[&'a [u8]],
    is_inline: bool,
) -> (CommandResult<'a>, NextStep) {
    let Some(known) = CommandName::of(name) else {
        let shown = String::from_utf8_lossy(&name[..name.len().min(64)]).into_owned();
        let reply = RespReply::wrong(format!("unknown command {shown:?}"));
        // A browser that a page made send a request here begins with such a line; the lines after
        // it must not be carried out.
        return (
            CommandResult::Ready(reply),
            if is_inline {
                NextStep::Close
            } else {
                NextStep::Read
            },
        );
    };
    if let Some(refusal) = session.refusal(known) {
        state
            .gate
            .metrics
            .decision(DecisionProtocol::Resp, DecisionAnswer::Unauthorized);
        return (CommandResult::Ready(refusal), NextStep::Read);
    }
    if !known.is_of_counters() {
        let reply = session.answer(known, arguments, state.token.as_ref());
        return (
            CommandResult::Ready(reply),
            if known == CommandName::Quit {
                NextStep::Close
            } else {
                NextStep::Read
            },
        );
    }
    match CounterCommand::of(snapshot, known, arguments) {
        Ok(command) => (CommandResult::Pending(command), NextStep::Read),
        Err(mistake) => (
            CommandResult::Ready(refused(state, mistake)),
            NextStep::Read,
        ),
    }
}

/// Writes replies as they become ready, in their order.
async fn write_all_of(
    replies: Option<FuturesOrdered<impl Future<Output = (RespReply, RespVersion)>>>,
    output: &mut Vec<u8>,
) {
    let Some(mut replies) = replies else {
        return;
    };
    while let Some((reply, protocol)) = replies.next().await {
        reply.write(protocol, output);
    }
}

/// Makes the decision, if there is one to make. A reply keeps the version that was in force when
/// its command was read, because a later `HELLO` may change it.
async fn finish(
    result: CommandResult<'_>,
    protocol: RespVersion,
    state: &DecisionsState,
    snapshot: &Arc<Snapshot>,
) -> (RespReply, RespVersion) {
    match result {
        CommandResult::Ready(reply) => (reply, protocol),
        CommandResult::Pending(command) => (command.run(state, snapshot).await, protocol),
    }
}

/// Reads before a deadline; `None` waits for ever.
async fn in_time<T>(
    reading: impl Future<Output = io::Result<T>>,
    until: Option<Instant>,
) -> io::Result<T> {
    match until {
        None => reading.await,
        Some(until) => timeout_at(until, reading)
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())),
    }
}
