//! The session of a client: its name, its token and its protocol version, and the commands that are
//! about the connection and not about counters.

use std::sync::atomic::{AtomicU64, Ordering};

use super::command::{COMMANDS, CommandName, whole};
use super::reply::{RespReply, RespVersion, number};
use crate::decisions::SharedToken;

/// The state of one client's session.
pub(super) struct ClientSession {
    id: u64,
    name: Vec<u8>,
    pub(super) protocol: RespVersion,
    /// True when the client has shown the token, or none is required.
    is_known: bool,
}

impl ClientSession {
    pub(super) fn new(token: Option<&SharedToken>) -> Self {
        static IDS: AtomicU64 = AtomicU64::new(1);
        let id = IDS.fetch_add(1, Ordering::Relaxed);
        Self {
            id,
            name: Vec::new(),
            protocol: RespVersion::default(),
            is_known: token.is_none(),
        }
    }

    pub(super) fn is_known(&self) -> bool {
        self.is_known
    }

    /// The error for a command that requires the token, when it was not shown.
    pub(super) fn refusal(&self, name: CommandName) -> Option<RespReply> {
        let is_refused = !self.is_known && !name.needs_no_token();
        is_refused
            .then(|| RespReply::Error("NOAUTH", "show the token first: AUTH token".to_owned()))
    }

    /// The reply to a command that is not about counters.
    pub(super) fn answer(
        &mut self,
        name: CommandName,
        arguments: &[&[u8]],
        token: Option<&SharedToken>,
    ) -> RespReply {
        match (name, arguments) {
            (CommandName::Ping, []) => RespReply::Word("PONG"),
            (CommandName::Ping, [words]) | (CommandName::Echo, [words]) => {
                RespReply::Bytes(words.to_vec())
            }
            (CommandName::Hello, _) => self.hello(arguments, token),
            (CommandName::Auth, [shown] | [_, shown]) => match self.authenticate(shown, token) {
                Ok(()) => RespReply::Word("OK"),
                Err(refused) => refused,
            },
            (CommandName::Command, _) => commands(arguments),
            (CommandName::Client, [word, rest @ ..]) => self.client(word, rest),
            (CommandName::Select, [b"0"]) => RespReply::Word("OK"),
            (CommandName::Select, [_]) => RespReply::wrong("there is no database but 0"),
            (CommandName::Quit, _) => RespReply::Word("OK"),
            _ => RespReply::wrong("the number of arguments is not right for this command"),
        }
    }

    /// Answers `HELLO [version [AUTH user token] [SETNAME name]]`. All of it takes effect, or none.
    fn hello(&mut self, arguments: &[&[u8]], token: Option<&SharedToken>) -> RespReply {
        let mut protocol = self.protocol;
        let mut rest = arguments;
        if let [version, more @ ..] = arguments {
            protocol = match whole("version", version, 0) {
                Ok(2) => RespVersion::Resp2,
                Ok(3) => RespVersion::Resp3,
                _ => {
                    return RespReply::Error(
                        "NOPROTO",
                        "only the versions 2 and 3 are spoken here".to_owned(),
                    );
                }
            };
            rest = more;
        }
        let (mut name, mut shown) = (None, None);
        while !rest.is_empty() {
            rest = match *rest {
                [word, _user, token, ref more @ ..] if word.eq_ignore_ascii_case(b"AUTH") => {
                    shown = Some(token);
                    more
                }
                [word, given, ref more @ ..] if word.eq_ignore_ascii_case(b"SETNAME") => {
                    name = Some(given);
                    more
                }
                _ => {
                    return RespReply::wrong(
                        "expected HELLO [version [AUTH user token] [SETNAME name]]",
                    );
                }
            };
        }
        if let Some(shown) = shown
            && let Err(refused) = self.authenticate(shown, token)
        {
            return refused;
        }
        if !self.is_known {
            return RespReply::Error(
                "NOAUTH",
                "show the token: HELLO version AUTH default token".to_owned(),
            );
        }
        self.protocol = protocol;
        if let Some(name) = name {
            self.name = name.to_vec();
        }
        let text = |text: &str| RespReply::Bytes(text.as_bytes().to_vec());
        RespReply::Map(vec![
            ("server", text("sluicegate")),
            ("version", text(env!("CARGO_PKG_VERSION"))),
            ("proto", RespReply::Number(protocol.number())),
            ("id", RespReply::Number(number(self.id))),
            ("mode", text("standalone")),
            ("role", text("master")),
            ("modules", RespReply::List(Vec::new())),
        ])
    }

    fn authenticate(&mut self, shown: &[u8], token: Option<&SharedToken>) -> Result<(), RespReply> {
        let Some(token) = token else {
            return Err(RespReply::wrong(
                "no token is asked for here: decisions.token_file is not set",
            ));
        };
        self.is_known = token.admits(shown);
        if self.is_known {
            Ok(())
        } else {
            Err(RespReply::Error(
                "WRONGPASS",
                "this is not the token".to_owned(),
            ))
        }
    }

    fn client(&mut self, word: &[u8], rest: &[&[u8]]) -> RespReply {
        match (word.to_ascii_uppercase().as_slice(), rest) {
            (b"SETNAME", [name]) => {
                self.name = name.to_vec();
                RespReply::Word("OK")
            }
            (b"GETNAME", []) if self.name.is_empty() => RespReply::Null,
            (b"GETNAME", []) => RespReply::Bytes(self.name.clone()),
            (b"ID", []) => RespReply::Number(number(self.id)),
            // Accepted without effect: the things that they change do not exist here.
            (b"SETINFO", [_, _]) | (b"NO-EVICT" | b"NO-TOUCH", [_]) => RespReply::Word("OK"),
            _ => RespReply::wrong(
                "CLIENT knows SETNAME, GETNAME, ID, SETINFO, NO-EVICT and NO-TOUCH",
            ),
        }
    }
}

/// Answers `COMMAND`: the list of commands.
fn commands(arguments: &[&[u8]]) -> RespReply {
    let text = |text: &str| RespReply::Bytes(text.as_bytes().to_vec());
    let entry = |(name, arguments): &(&str, i64)| {
        let flags = RespReply::List(vec![RespReply::Word("fast")]);
        let no_keys = [0, 0, 0].map(RespReply::Number);
        RespReply::List(
            [text(name), RespReply::Number(*arguments), flags]
                .into_iter()
                .chain(no_keys)
                .collect(),
        )
    };
    let Some((word, names)) = arguments.split_first() else {
        return RespReply::List(COMMANDS.iter().map(entry).collect());
    };
    match (word.to_ascii_uppercase().as_slice(), names) {
        (b"COUNT", []) => RespReply::Number(number(COMMANDS.len() as u64)),
        (b"LIST", []) => RespReply::List(COMMANDS.iter().map(|(name, _)| text(name)).collect()),
        (b"INFO", []) => RespReply::List(COMMANDS.iter().map(entry).collect()),
        (b"INFO", names) => {
            let known = |asked: &&[u8]| {
                COMMANDS
                    .iter()
                    .find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(asked))
            };
            RespReply::List(
                names
                    .iter()
                    .map(|asked| known(asked).map_or(RespReply::Null, entry))
                    .collect(),
            )
        }
        // Clients accept an empty map; the guide describes the commands.
        (b"DOCS", _) => RespReply::Map(Vec::new()),
        _ => RespReply::wrong("COMMAND knows COUNT, LIST, INFO and DOCS"),
    }
}
