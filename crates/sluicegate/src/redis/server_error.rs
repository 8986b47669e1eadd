//! What an error of Redis asks us to do.

/// An error, by what it means for the ask that met it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ServerError {
    /// The script is not known there: send its text.
    NoScript,
    /// The slot belongs to this node now.
    Moved { slot: u16, host: String, port: u16 },
    /// The slot is on its way to this node, and the key may be there already.
    AskRedirect { host: String, port: u16 },
    /// Some keys of the call are here, others on their way.
    TryAgain,
    /// A replica: the primary is elsewhere now.
    ReadOnly,
    /// The node cannot serve for the moment: still loading, or its cluster is down.
    Away,
    /// Anything else: the call failed, the node is fine.
    Other,
}

impl ServerError {
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
            // Of one slot, not of the node: it serves its other slots as before.
            "CLUSTERDOWN" if error.contains("Hash slot") => Self::Other,
            "LOADING" | "CLUSTERDOWN" | "MASTERDOWN" => Self::Away,
            _ => Self::Other,
        }
    }
}

/// `host:port`; an IPv6 address has colons of its own, and an empty host means the one that answered.
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
