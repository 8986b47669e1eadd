//! Counters of client connections, owned by this crate and read by the one who exports metrics; and
//! the stage that all of them obey when the process has too much to hold.
//!
//! All of them are plain atomics: several threads add to them, nobody waits for another.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::overload::OverloadState;

/// Reason for which a client's connection was refused or ended by us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionRefusal {
    /// The endpoint has as many connections as it may have.
    TooMany,
    /// The client has as many connections as one may have.
    TooManyOfClient,
    /// The process has too much to hold.
    Overload,
    /// The peer must begin with the PROXY protocol and did not.
    ProxyProtocol,
    /// The TLS handshake failed.
    Tls,
    /// A header, a body or the reading of a response took too long.
    Slow,
    /// The bytes that came are not HTTP, or exceed its bounds.
    Protocol,
}

impl ConnectionRefusal {
    /// Every reason, in the order of their numbers (`reason as usize`).
    pub const ALL: [Self; 7] = [
        Self::TooMany,
        Self::TooManyOfClient,
        Self::Overload,
        Self::ProxyProtocol,
        Self::Tls,
        Self::Slow,
        Self::Protocol,
    ];

    /// The reason as metrics show it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TooMany => "too_many",
            Self::TooManyOfClient => "too_many_of_client",
            Self::Overload => "overload",
            Self::ProxyProtocol => "proxy_protocol",
            Self::Tls => "tls",
            Self::Slow => "slow",
            Self::Protocol => "protocol",
        }
    }
}

/// Counts the open and the refused connections of one or more endpoints.
///
/// ```
/// use std::sync::Arc;
/// use sluicegate_net::{ConnectionCounters, ConnectionRefusal};
///
/// let counters = Arc::new(ConnectionCounters::default());
/// let open = counters.open_connection();
/// counters.refuse(ConnectionRefusal::Tls);
/// assert_eq!((counters.open(), counters.refused(ConnectionRefusal::Tls)), (1, 1));
/// drop(open);
/// assert_eq!(counters.open(), 0);
/// ```
#[derive(Debug, Default)]
pub struct ConnectionCounters {
    open: AtomicU64,
    /// By the number of the reason.
    refused: [AtomicU64; ConnectionRefusal::ALL.len()],
    overload: OverloadState,
}

impl ConnectionCounters {
    /// Counts a connection as open until the returned guard is dropped.
    pub fn open_connection(self: &Arc<Self>) -> OpenConnection {
        self.open.fetch_add(1, Relaxed);
        OpenConnection(Arc::clone(self))
    }

    /// Connections that are open now.
    pub fn open(&self) -> u64 {
        self.open.load(Relaxed)
    }

    /// The stage that these connections obey when the process has too much to hold.
    pub fn overload(&self) -> &OverloadState {
        &self.overload
    }

    /// Counts a connection that we refused or ended.
    pub fn refuse(&self, reason: ConnectionRefusal) {
        self.refused[reason as usize].fetch_add(1, Relaxed);
    }

    /// Connections refused for this reason since the start.
    pub fn refused(&self, reason: ConnectionRefusal) -> u64 {
        self.refused[reason as usize].load(Relaxed)
    }
}

/// A connection that counts as open until this is dropped.
#[derive(Debug)]
pub struct OpenConnection(Arc<ConnectionCounters>);

impl OpenConnection {
    /// The counters that it is counted in.
    pub fn counters(&self) -> &Arc<ConnectionCounters> {
        &self.0
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}
