//! Classifies error replies of Redis by what the client has to do.
//!
//! `traffic/error_replies.rs` acts on the class. Unknown errors are [`ServerError::Other`]: the
//! request fails, and the node stays in use.

/// An error reply, by what it means for the requests of its call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ServerError {
    /// The node does not know the script: send its source.
    NoScript,
    /// Another node owns the slot.
    Moved { slot: u16, host: String, port: u16 },
    /// The slot is moving to another node, and the key may be there already.
    AskRedirect { host: String, port: u16 },
    /// The slot is moving and the keys of the call are on two nodes.
    TryAgain,
    /// The node is a replica: another node is the primary now.
    ReadOnly,
    /// The node cannot serve at the moment: it is loading its data, or its cluster is down.
    Away,
    /// Anything else: the call failed, the node is fine.
    Other,
}

impl ServerError {
    /// Classifies the text of an error reply. Redirections that cannot be read are other errors.
    pub(super) fn read(error: &str) -> Self {
        let mut words = error.split_ascii_whitespace();
        match words.next().unwrap_or_default() {
            "NOSCRIPT" => Self::NoScript,
            "MOVED" => match (
                words.next().and_then(|slot| slot.parse().ok()),
                words.next().and_then(address),
            ) {
                (Some(slot), Some((host, port))) => Self::Moved { slot, host, port },
                _ => Self::Other,
            },
            "ASK" => match words.nth(1).and_then(address) {
                Some((host, port)) => Self::AskRedirect { host, port },
                None => Self::Other,
            },
            "TRYAGAIN" => Self::TryAgain,
            "READONLY" => Self::ReadOnly,
            // About one slot: the node still serves its others.
            "CLUSTERDOWN" if error.contains("Hash slot") => Self::Other,
            "LOADING" | "CLUSTERDOWN" | "MASTERDOWN" => Self::Away,
            _ => Self::Other,
        }
    }
}

/// Reads `host:port`. An IPv6 host has colons of its own; an empty one stands for the node that
/// sent the error.
fn address(text: &str) -> Option<(String, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    Some((host.to_owned(), port.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirections_name_their_node() {
        let moved = |slot, host: &str, port| ServerError::Moved {
            slot,
            host: host.to_owned(),
            port,
        };
        assert_eq!(
            ServerError::read("MOVED 3999 127.0.0.1:6381"),
            moved(3999, "127.0.0.1", 6381)
        );
        assert_eq!(
            ServerError::read("MOVED 3999 ::1:6381"),
            moved(3999, "::1", 6381)
        );
        assert_eq!(ServerError::read("MOVED 3999 :6381"), moved(3999, "", 6381));
        assert_eq!(
            ServerError::read("ASK 1 rl-0:6379"),
            ServerError::AskRedirect {
                host: "rl-0".to_owned(),
                port: 6379
            }
        );
    }

    #[test]
    fn anything_malformed_is_just_an_error() {
        for text in [
            "",
            "MOVED",
            "MOVED x y",
            "MOVED 1 nowhere",
            "ASK 1 a:b",
            "ERR wrong number of arguments",
        ] {
            assert_eq!(ServerError::read(text), ServerError::Other, "{text}");
        }
        assert_eq!(
            ServerError::read("CLUSTERDOWN The cluster is down"),
            ServerError::Away
        );
        assert_eq!(
            ServerError::read("CLUSTERDOWN Hash slot not served"),
            ServerError::Other,
            "the node is fine"
        );
        assert_eq!(
            ServerError::read("LOADING Redis is loading the dataset in memory"),
            ServerError::Away
        );
        assert_eq!(
            ServerError::read("READONLY You can't write against a read only replica."),
            ServerError::ReadOnly
        );
    }
}
