//! One client's connection: what has come is answered, then more is read.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use futures_util::stream::FuturesOrdered;
use futures_util::{FutureExt, StreamExt};
use sluicegate_gate::snapshot::Snapshot;
use sluicegate_gate::store::AnyStore;
use sluicegate_gate::telemetry::metrics::{DecisionAnswer, DecisionProtocol};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};

use super::command::CommandName;
use super::counter_command::{CounterCommand, refused};
use super::parse::{CommandParser, ParsedInput};
use super::reply::{RespReply, RespVersion};
use super::session::ClientSession;
use crate::decisions::DecisionsState;

/// A connection to a client.
pub(super) struct RespConnection<S> {
    state: Arc<DecisionsState>,
    stream: S,
    session: ClientSession,
    parser: CommandParser,
    /// What was read and not answered.
    input: BytesMut,
    /// Answers on their way.
    output: Vec<u8>,
}

/// What comes after the commands that were there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextStep {
    Read,
    Close,
}

/// What a command leads to.
enum CommandResult<'a> {
    Ready(RespReply),
    Pending(CounterCommand<'a>),
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> RespConnection<S> {
    /// Room for what is read at once.
    const INPUT: usize = 16 * 1024;
    /// Answers beyond this are sent before there are more.
    const OUTPUT: usize = 64 * 1024;
    /// How long a command may take from its first byte to its last, and a stranger to show the token.
    const PATIENCE: Duration = Duration::from_secs(10);

    pub(super) fn new(state: Arc<DecisionsState>, stream: S) -> Self {
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

    /// Answers until the client goes, or nothing it says can be understood any more.
    pub(super) async fn run(mut self) -> io::Result<()> {
        let mut ending = self.state.ending.clone();
        let mut began = Instant::now();
        loop {
            let was_empty = self.input.is_empty();
            let is_waiting = !was_empty || !self.session.is_known();
            let until = if is_waiting {
                Some(began + Self::PATIENCE)
            } else {
                None
            };
            self.input.reserve(Self::INPUT);
            let reading = self.stream.read_buf(&mut self.input);
            let read = tokio::select! {
                biased;
                read = in_time(reading, until) => read?,
                _ = ending.wait_for(|ending| *ending) => return Ok(()),
            };
            if read == 0 {
                return Ok(());
            }
            let unanswered = self.input.len();
            let next = self.answer().await?;
            // A new command may take its time again; the pieces of one and the same may not. Nor may a stranger.
            if self.session.is_known() && (was_empty || self.input.len() < unanswered) {
                began = Instant::now();
            }
            self.stream.write_all(&self.output).await?;
            self.output.clear();
            if next == NextStep::Close {
                return self.stream.shutdown().await;
            }
            if self.input.is_empty() {
                self.shrink();
            }
        }
    }

    /// Answers every whole command.
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
        let mut asked = FuturesOrdered::new();
        let mut used = 0;
        let next = loop {
            let (work, next) = match parser.next(&input[used..]) {
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
                    work(state, &snapshot, session, name, arguments, is_inline)
                }
                Err(error) => {
                    let reply = RespReply::wrong(format!("no command: {error}"));
                    (CommandResult::Ready(reply), NextStep::Close)
                }
            };
            let protocol = session.protocol;
            match work {
                CommandResult::Ready(reply) if asked.is_empty() => reply.write(protocol, output),
                // Nothing is waited for, so it is done when it is looked at.
                CommandResult::Pending(question) if is_at_once => {
                    match question.run(state, &snapshot).now_or_never() {
                        Some(reply) => reply.write(protocol, output),
                        None => return Err(io::ErrorKind::Unsupported.into()),
                    }
                }
                work => asked.push_back(done(work, protocol, state, &snapshot)),
            }
            if output.len() > Self::OUTPUT {
                stream.write_all(output).await?;
                output.clear();
            }
            if next == NextStep::Close {
                break NextStep::Close;
            }
        };
        while let Some((reply, protocol)) = asked.next().await {
            reply.write(protocol, output);
        }
        drop(asked);
        input.advance(used);
        Ok(next)
    }

    /// After large commands, only the usual room is kept.
    fn shrink(&mut self) {
        if self.input.capacity() > 2 * Self::INPUT {
            self.input = BytesMut::with_capacity(Self::INPUT);
        }
        if self.output.capacity() > 2 * Self::OUTPUT {
            self.output = Vec::with_capacity(Self::INPUT);
        }
    }
}

/// What a command leads to, and what comes after it.
fn work<'a>(
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
        // A browser that was made to send a request here begins with such a line; what follows must not be obeyed.
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
        Ok(asked) => (CommandResult::Pending(asked), NextStep::Read),
        Err(mistake) => (
            CommandResult::Ready(refused(state, mistake)),
            NextStep::Read,
        ),
    }
}

async fn done(
    work: CommandResult<'_>,
    protocol: RespVersion,
    state: &DecisionsState,
    snapshot: &Arc<Snapshot>,
) -> (RespReply, RespVersion) {
    match work {
        CommandResult::Ready(reply) => (reply, protocol),
        CommandResult::Pending(asked) => (asked.run(state, snapshot).await, protocol),
    }
}

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
