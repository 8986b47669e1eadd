//! Shares of the admin API's connections, so that strangers cannot keep operators and health checks
//! out.
//!
//! Every connection begins as a stranger's. It becomes an operator's when its request has passed
//! the access checks, and then counts in the other share. Strangers are never made to wait: when
//! their share is full the oldest of those that have sent no request yet is closed, or else the
//! oldest, and the new one takes its place. So a health check, whose request comes with its
//! connection, is answered however many connections there are that say nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// The connections of the admin API, by share.
#[derive(Default)]
pub(super) struct ConnectionShares(Mutex<Shares>);

#[derive(Default)]
struct Shares {
    /// Number of the next connection.
    next: u64,
    /// By number, the oldest first.
    strangers: BTreeMap<u64, Stranger>,
    operators: usize,
}

struct Stranger {
    /// Its request has yet to come.
    is_silent: bool,
    /// Dropped to close the connection.
    close: oneshot::Sender<()>,
}

impl ConnectionShares {
    /// Connections whose requests have not passed the access checks.
    pub(super) const STRANGERS_MAX: usize = 128;
    /// Connections whose requests have.
    pub(super) const OPERATORS_MAX: usize = 64;

    /// Takes a place for a new connection. The second value is ready when the place is given to
    /// another, and the connection has to be closed.
    pub(super) fn begin(self: &Arc<Self>) -> (ConnectionShare, oneshot::Receiver<()>) {
        let (close, closed) = oneshot::channel();
        let mut shares = self.lock();
        if shares.strangers.len() >= Self::STRANGERS_MAX {
            let silent = shares
                .strangers
                .iter()
                .find(|(_, stranger)| stranger.is_silent);
            let oldest = silent.or_else(|| shares.strangers.first_key_value());
            if let Some(number) = oldest.map(|(number, _)| *number) {
                shares.strangers.remove(&number);
            }
        }
        let number = shares.next;
        shares.next += 1;
        let stranger = Stranger {
            is_silent: true,
            close,
        };
        shares.strangers.insert(number, stranger);
        let share = ConnectionShare {
            shares: Arc::clone(self),
            number,
            operators: Mutex::default(),
        };
        (share, closed)
    }

    /// Nothing here panics while it holds the lock.
    fn lock(&self) -> MutexGuard<'_, Shares> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of one connection, given back when dropped.
pub(super) struct ConnectionShare {
    shares: Arc<ConnectionShares>,
    number: u64,
    /// `Some` when it is an operator's: what would close it is kept here, and nobody uses it.
    operators: Mutex<Option<oneshot::Sender<()>>>,
}

impl ConnectionShare {
    /// Records that the request of this connection has come.
    pub(super) fn heard(&self) {
        if let Some(stranger) = self.shares.lock().strangers.get_mut(&self.number) {
            stranger.is_silent = false;
        }
    }

    /// Moves the connection to the operators' share; false when that is full.
    pub(super) fn move_to_operators(&self) -> bool {
        let mut shares = self.shares.lock();
        if shares.operators >= ConnectionShares::OPERATORS_MAX {
            return false;
        }
        let Some(stranger) = shares.strangers.remove(&self.number) else {
            return false;
        };
        shares.operators += 1;
        *self.operators() = Some(stranger.close);
        true
    }

    fn operators(&self) -> MutexGuard<'_, Option<oneshot::Sender<()>>> {
        self.operators
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ConnectionShare {
    fn drop(&mut self) {
        let mut shares = self.shares.lock();
        if self.operators().is_some() {
            shares.operators -= 1;
        } else {
            shares.strangers.remove(&self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Begun = (ConnectionShare, oneshot::Receiver<()>);

    fn is_closed((_, closed): &mut Begun) -> bool {
        closed.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    fn full(shares: &Arc<ConnectionShares>) -> Vec<Begun> {
        let begun = (0..ConnectionShares::STRANGERS_MAX).map(|_| shares.begin());
        begun.collect()
    }

    #[test]
    fn the_oldest_that_is_silent_makes_room() {
        let shares = Arc::<ConnectionShares>::default();
        let mut begun = full(&shares);
        begun[0].0.heard();
        begun[2].0.heard();
        let newer = [shares.begin(), shares.begin()];
        let closed: Vec<bool> = begun.iter_mut().take(5).map(is_closed).collect();
        assert_eq!(closed, [false, true, false, true, false]);
        let all = begun.iter().chain(&newer);
        all.for_each(|(share, _)| share.heard());
        let _last = shares.begin();
        assert!(is_closed(&mut begun[0]), "then the oldest of all");
    }

    #[test]
    fn operators_are_not_closed_and_their_share_has_an_end() {
        let shares = Arc::<ConnectionShares>::default();
        let mut operators: Vec<Begun> = (0..ConnectionShares::OPERATORS_MAX)
            .map(|_| {
                let begun = shares.begin();
                assert!(begun.0.move_to_operators());
                begun
            })
            .collect();
        let (one_more, _closed) = shares.begin();
        assert!(!one_more.move_to_operators());
        let strangers = (full(&shares), full(&shares));
        assert!(operators.iter_mut().all(|begun| !is_closed(begun)));
        operators.pop();
        let (next, _closed) = shares.begin();
        assert!(next.move_to_operators(), "a place came back");
        drop((operators, next, one_more, strangers));
        let left = shares.lock();
        assert_eq!((left.operators, left.strangers.len()), (0, 0));
    }
}
