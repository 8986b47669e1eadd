//! What a client says about itself, and what it is told about us.

use std::sync::atomic::{AtomicU64, Ordering};

use super::command::{COMMANDS, Name, whole};
use super::reply::{Protocol, Reply, number};
use crate::decisions::SharedToken;

/// One client.
pub(super) struct Session {
    id: u64,
    name: Vec<u8>,
    pub(super) protocol: Protocol,
    /// Whether it has shown the token, or need not.
    is_known: bool,
}

impl Session {
    pub(super) fn new(token: Option<&SharedToken>) -> Self {
        static IDS: AtomicU64 = AtomicU64::new(1);
        let id = IDS.fetch_add(1, Ordering::Relaxed);
        Self {
            id,
            name: Vec::new(),
            protocol: Protocol::default(),
            is_known: token.is_none(),
        }
    }

    pub(super) fn is_known(&self) -> bool {
        self.is_known
    }

    /// The refusal of a command that a stranger may not ask for.
    pub(super) fn refusal(&self, name: Name) -> Option<Reply> {
        let is_refused = !self.is_known && !name.needs_no_token();
        is_refused.then(|| Reply::Error("NOAUTH", "show the token first: AUTH token".to_owned()))
    }

    /// The answer to a command that is not about counters.
    pub(super) fn answer(
        &mut self,
        name: Name,
        arguments: &[&[u8]],
        token: Option<&SharedToken>,
    ) -> Reply {
        match (name, arguments) {
            (Name::Ping, []) => Reply::Word("PONG"),
            (Name::Ping, [words]) | (Name::Echo, [words]) => Reply::Bytes(words.to_vec()),
            (Name::Hello, _) => self.hello(arguments, token),
            (Name::Auth, [shown] | [_, shown]) => match self.authenticate(shown, token) {
                Ok(()) => Reply::Word("OK"),
                Err(refused) => refused,
            },
            (Name::Command, _) => commands(arguments),
            (Name::Client, [word, rest @ ..]) => self.client(word, rest),
            (Name::Select, [b"0"]) => Reply::Word("OK"),
            (Name::Select, [_]) => Reply::wrong("there is no database but 0"),
            (Name::Quit, _) => Reply::Word("OK"),
            _ => Reply::wrong("the number of arguments is not right for this command"),
        }
    }

    /// `[version [AUTH user token] [SETNAME name]]`. All of it holds, or none.
    fn hello(&mut self, arguments: &[&[u8]], token: Option<&SharedToken>) -> Reply {
        let mut protocol = self.protocol;
        let mut rest = arguments;
        if let [version, more @ ..] = arguments {
            protocol = match whole("version", version, 0) {
                Ok(2) => Protocol::Resp2,
                Ok(3) => Protocol::Resp3,
                _ => {
                    return Reply::Error(
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
                    return Reply::wrong(
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
            return Reply::Error(
                "NOAUTH",
                "show the token: HELLO version AUTH default token".to_owned(),
            );
        }
        self.protocol = protocol;
        if let Some(name) = name {
            self.name = name.to_vec();
        }
        let text = |text: &str| Reply::Bytes(text.as_bytes().to_vec());
        Reply::Map(vec![
            ("server", text("sluicegate")),
            ("version", text(env!("CARGO_PKG_VERSION"))),
            ("proto", Reply::Number(protocol.number())),
            ("id", Reply::Number(number(self.id))),
            ("mode", text("standalone")),
            ("role", text("master")),
            ("modules", Reply::List(Vec::new())),
        ])
    }

    fn authenticate(&mut self, shown: &[u8], token: Option<&SharedToken>) -> Result<(), Reply> {
        let Some(token) = token else {
            return Err(Reply::wrong(
                "no token is asked for here: decisions.token_file is not set",
            ));
        };
        self.is_known = token.admits(shown);
        if self.is_known {
            Ok(())
        } else {
            Err(Reply::Error(
                "WRONGPASS",
                "this is not the token".to_owned(),
            ))
        }
    }

    fn client(&mut self, word: &[u8], rest: &[&[u8]]) -> Reply {
        match (word.to_ascii_uppercase().as_slice(), rest) {
            (b"SETNAME", [name]) => {
                self.name = name.to_vec();
                Reply::Word("OK")
            }
            (b"GETNAME", []) if self.name.is_empty() => Reply::Null,
            (b"GETNAME", []) => Reply::Bytes(self.name.clone()),
            (b"ID", []) => Reply::Number(number(self.id)),
            // What these change does not exist here.
            (b"SETINFO", [_, _]) | (b"NO-EVICT" | b"NO-TOUCH", [_]) => Reply::Word("OK"),
            _ => Reply::wrong("CLIENT knows SETNAME, GETNAME, ID, SETINFO, NO-EVICT and NO-TOUCH"),
        }
    }
}

/// What there is to ask for.
fn commands(arguments: &[&[u8]]) -> Reply {
    let text = |text: &str| Reply::Bytes(text.as_bytes().to_vec());
    let entry = |(name, arguments): &(&str, i64)| {
        let flags = Reply::List(vec![Reply::Word("fast")]);
        let no_keys = [0, 0, 0].map(Reply::Number);
        Reply::List(
            [text(name), Reply::Number(*arguments), flags]
                .into_iter()
                .chain(no_keys)
                .collect(),
        )
    };
    let Some((word, names)) = arguments.split_first() else {
        return Reply::List(COMMANDS.iter().map(entry).collect());
    };
    match (word.to_ascii_uppercase().as_slice(), names) {
        (b"COUNT", []) => Reply::Number(number(COMMANDS.len() as u64)),
        (b"LIST", []) => Reply::List(COMMANDS.iter().map(|(name, _)| text(name)).collect()),
        (b"INFO", []) => Reply::List(COMMANDS.iter().map(entry).collect()),
        (b"INFO", names) => {
            let known = |asked: &&[u8]| {
                COMMANDS
                    .iter()
                    .find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(asked))
            };
            Reply::List(
                names
                    .iter()
                    .map(|asked| known(asked).map_or(Reply::Null, entry))
                    .collect(),
            )
        }
        // The words are in the documentation.
        (b"DOCS", _) => Reply::Map(Vec::new()),
        _ => Reply::wrong("COMMAND knows COUNT, LIST, INFO and DOCS"),
    }
}
