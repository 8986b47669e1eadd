//! Which changes of one node are worth a line in the log.
//!
//! A node that comes and goes several times a second is one outage, not thousands of changes. Its first
//! line comes at once. It is called up again when it has been up for [`CALM`] without a break, and
//! that line sums the outage up.

use std::time::Duration;

use tokio::time::Instant;

use super::endpoint::Endpoint;
use super::health;

/// The last state that was logged of a node, and what happened since.
#[derive(Debug)]
pub(super) enum NodeLog {
    /// Nothing was logged yet.
    Nothing,
    Up,
    Away(NodeOutage),
}

/// A node that was logged as away.
#[derive(Debug)]
pub(super) struct NodeOutage {
    began: Instant,
    /// Since when it has been up again, if it is.
    up_since: Option<Instant>,
    /// How many times it went away.
    times: u64,
}

/// How long a node has to stay up before an outage is over.
pub(super) const CALM: Duration = Duration::from_secs(2);

impl NodeLog {
    /// Notes that the node is away; logs it unless the log says so already.
    pub(super) fn away(&mut self, node: &Endpoint, reason: &str, now: Instant) {
        match self {
            Self::Away(outage) => outage.times += u64::from(outage.up_since.take().is_some()),
            Self::Nothing | Self::Up => {
                health::log_away(node, reason);
                *self = Self::Away(NodeOutage {
                    began: now,
                    up_since: None,
                    times: 1,
                });
            }
        }
    }

    /// Notes that the node is up; logs it if the outage is over.
    pub(super) fn up(&mut self, node: &Endpoint, now: Instant) {
        match self {
            Self::Up => return,
            Self::Nothing => health::log_up(node),
            Self::Away(outage) => {
                let since = *outage.up_since.get_or_insert(now);
                if now < since + CALM {
                    return;
                }
                health::log_up_again(node, since.duration_since(outage.began), outage.times);
            }
        }
        *self = Self::Up;
    }

    /// When [`up`](Self::up) has to be called again if the node stays up.
    pub(super) fn due(&self) -> Option<Instant> {
        match self {
            Self::Nothing | Self::Up => None,
            Self::Away(outage) => Some(outage.up_since? + CALM),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_comes_and_goes_is_one_outage() {
        let node = Endpoint::new("127.0.0.1", 1);
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut log = NodeLog::Nothing;
        log.up(&node, start);
        assert!(matches!(log, NodeLog::Up) && log.due().is_none());
        for turn in 0..100 {
            log.away(&node, "refused", at(turn * 100));
            log.away(&node, "refused", at(turn * 100 + 20));
            assert_eq!(log.due(), None);
            log.up(&node, at(turn * 100 + 50));
            log.up(&node, at(turn * 100 + 60));
            assert_eq!(log.due(), Some(at(turn * 100 + 50) + CALM));
        }
        let NodeLog::Away(outage) = &log else {
            panic!("{log:?}")
        };
        assert_eq!((outage.times, outage.began), (100, start));
        log.up(&node, log.due().unwrap());
        assert!(matches!(log, NodeLog::Up) && log.due().is_none());
    }
}
