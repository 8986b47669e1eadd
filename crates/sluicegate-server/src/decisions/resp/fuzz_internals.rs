//! Commands and connections without sockets, for the targets in `fuzz/`.

use std::sync::Arc;

use sluicegate_config::Config;
use sluicegate_gate::gate::Gate;
use sluicegate_net::Transport;
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::connection::RespConnection;
use super::parse::{CommandParser, ParsedInput};
use crate::decisions::DecisionsState;

/// The commands that a client has sent, the bytes that are left, and the reason if they are none.
#[derive(Debug, PartialEq, Eq)]
pub struct ParsedCommands {
    /// The arguments of each command.
    pub commands: Vec<Vec<Vec<u8>>>,
    /// For each command, whether it came as a line and not as an array.
    pub are_inline: Vec<bool>,
    /// Bytes of a command that is incomplete or malformed.
    pub left: usize,
    /// The reason why the connection is closed.
    pub error: Option<String>,
}

/// Reads what a client has sent, in pieces of this length.
pub fn parse_commands(bytes: &[u8], piece: usize) -> ParsedCommands {
    let (mut parser, mut buffer) = (CommandParser::default(), Vec::new());
    let mut parsed = ParsedCommands {
        commands: Vec::new(),
        are_inline: Vec::new(),
        left: 0,
        error: None,
    };
    for piece in bytes.chunks(piece.max(1)) {
        buffer.extend_from_slice(piece);
        loop {
            let used = match parser.next(&buffer) {
                Ok(ParsedInput::Command {
                    arguments,
                    used,
                    is_inline,
                }) => {
                    parsed.are_inline.push(is_inline);
                    let arguments = arguments.iter().map(|argument| argument.to_vec());
                    parsed.commands.push(arguments.collect());
                    used
                }
                Ok(ParsedInput::Unfinished) => break,
                Err(error) => {
                    parsed.error = Some(error.to_string());
                    return parsed;
                }
            };
            buffer.drain(..used);
        }
    }
    parsed.left = buffer.len();
    parsed
}

/// A server of RESP without a listener.
pub struct RespServer {
    state: Arc<DecisionsState>,
    _end: watch::Sender<bool>,
}

impl RespServer {
    /// A server with this configuration, to which everybody may speak.
    pub fn new(config: &Config, background: &Handle) -> Result<Self, String> {
        let gate = Gate::new(config, background.clone()).map_err(|error| format!("{error:?}"))?;
        let (_end, ending) = watch::channel(false);
        let state = DecisionsState {
            gate: Arc::new(gate),
            token: None,
            ending,
            tls: Arc::default(),
        };
        Ok(Self {
            state: Arc::new(state),
            _end,
        })
    }

    /// Serves a client until it goes or is closed.
    pub async fn serve(&self, client: Transport) {
        let connection = RespConnection::new(Arc::clone(&self.state), client);
        // An error ends this connection only.
        let _ = connection.run().await;
    }
}
