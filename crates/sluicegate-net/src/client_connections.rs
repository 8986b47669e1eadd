//! The number of open connections of each client, so that one cannot take those of all.
//!
//! The table is touched twice for a connection, when it begins and when it ends, and never for a
//! request. It has an entry for each client that has a connection, and no other: its memory is
//! bounded by the number of open connections. It has several parts, each under a lock of its own,
//! because every thread accepts.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Decides whether a client may have one more connection: a permit, or `None` when it has too many.
pub type ClientAdmission = dyn Fn(IpAddr) -> Option<ClientPermit> + Send + Sync;

/// Counts the open connections of each client.
///
/// ```
/// use std::sync::Arc;
/// use sluicegate_net::ClientConnections;
///
/// let clients = Arc::new(ClientConnections::default());
/// let client = "192.0.2.1".parse().unwrap();
/// let first = clients.take(client, 1).unwrap();
/// assert!(clients.take(client, 1).is_none());
/// drop(first);
/// assert!(clients.take(client, 1).is_some());
/// ```
#[derive(Default)]
pub struct ClientConnections {
    /// Chooses the part of an address, with keys that nobody outside knows.
    hasher: RandomState,
    parts: [Mutex<Counts>; PARTS],
}

const PARTS: usize = 16;

/// Connections by client; those without one are not there.
type Counts = HashMap<IpAddr, usize>;

impl ClientConnections {
    /// Counts a connection of `client`, which may have `most`; `None` when it has them already. An
    /// address that stands for a network is to be given as the network's first.
    pub fn take(self: &Arc<Self>, client: IpAddr, most: usize) -> Option<ClientPermit> {
        let mut counts = self.part(client);
        let count = counts.entry(client).or_default();
        if *count >= most {
            if *count == 0 {
                counts.remove(&client);
            }
            return None;
        }
        *count += 1;
        let counted = CountedClient {
            clients: Arc::clone(self),
            client,
        };
        Some(ClientPermit {
            _counted: Some(Box::new(counted)),
        })
    }

    /// Clients that have a connection now.
    pub fn clients(&self) -> usize {
        self.parts.iter().map(|part| lock(part).len()).sum()
    }

    fn give_back(&self, client: IpAddr) {
        let mut counts = self.part(client);
        if let Some(count) = counts.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&client);
            }
        }
        // After a flood from many addresses the room for them is of no use.
        const FEW: usize = 64;
        if counts.capacity() > FEW && counts.len() < counts.capacity() / 8 {
            let room = (counts.len() * 2).max(FEW / 2);
            counts.shrink_to(room);
        }
    }

    fn part(&self, client: IpAddr) -> MutexGuard<'_, Counts> {
        let part = self.hasher.hash_one(client) as usize % PARTS;
        lock(&self.parts[part])
    }
}

/// Nobody panics while holding a part, and a count is right at any time.
fn lock(part: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for ClientConnections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientConnections").finish_non_exhaustive()
    }
}

/// A connection that counts for its client until this is dropped. As small as a pointer, because
/// every connection that waits for its next request has one.
#[derive(Debug)]
pub struct ClientPermit {
    _counted: Option<Box<CountedClient>>,
}

#[derive(Debug)]
struct CountedClient {
    clients: Arc<ClientConnections>,
    client: IpAddr,
}

impl ClientPermit {
    /// A permit for a connection that counts for nobody.
    pub const fn uncounted() -> Self {
        Self { _counted: None }
    }
}

impl Drop for CountedClient {
    fn drop(&mut self) {
        self.clients.give_back(self.client);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn address(number: u32) -> IpAddr {
        IpAddr::V4(number.into())
    }

    #[test]
    fn each_client_has_its_own_bound_and_gets_back_what_it_gives_back() {
        let clients = Arc::<ClientConnections>::default();
        let mut held: Vec<ClientPermit> =
            (0..3).filter_map(|_| clients.take(address(1), 3)).collect();
        assert_eq!(held.len(), 3);
        assert!(clients.take(address(1), 3).is_none());
        let other = clients.take(address(2), 3);
        assert!(other.is_some(), "another client has its own");
        held.pop();
        assert!(clients.take(address(1), 3).is_some());
        assert!(clients.take(address(1), 2).is_none(), "a smaller bound");
        assert!(clients.take(address(3), 0).is_none());
        drop((held, other));
        assert_eq!(clients.clients(), 0);
    }

    #[test]
    fn after_a_flood_nothing_is_kept() {
        let clients = Arc::<ClientConnections>::default();
        let held: Vec<_> = (0..20_000)
            .map(|number| clients.take(address(number), 1))
            .collect();
        assert!(held.iter().all(Option::is_some));
        assert_eq!(clients.clients(), 20_000);
        drop(held);
        let room: usize = clients.parts.iter().map(|part| lock(part).capacity()).sum();
        assert!(clients.clients() == 0 && room < 200 * PARTS, "{room}");
    }

    #[test]
    fn threads_that_take_at_once_get_no_more_than_there_is() {
        const MOST: usize = 100;
        let clients = Arc::<ClientConnections>::default();
        let taken: Vec<ClientPermit> = thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        (0..1_000)
                            .filter_map(|_| clients.take(address(9), MOST))
                            .collect::<Vec<_>>()
                    })
                })
                .collect();
            let joined = threads.into_iter().flat_map(|thread| thread.join());
            joined.flatten().collect()
        });
        assert_eq!(taken.len(), MOST);
    }

    #[test]
    fn a_permit_is_as_small_as_a_pointer() {
        assert_eq!(size_of::<ClientPermit>(), size_of::<usize>());
    }
}
