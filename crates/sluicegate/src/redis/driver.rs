//! The driver of a lane: one task that dials a node, moves bytes, and notices when the node is away
//! or back.
//!
//! The idea: one task owns everything about one connection, so nothing here needs a lock. It
//! alternates between two phases, `connect` and `serve`. In both it minds deadlines: a caller
//! gets its response in time while a dial hangs, and while a node accepts bytes and never replies.
//!
//! ```text
//! connect ──ok──▶ serve ──▶ Lost: requests wait for the next dial ─▶ connect
//!    │ failed       │ ────▶ Away: requests fail until a dial succeeds ─▶ connect
//!    └─▶ away, wait └─────▶ Retired: requests go to the new owner, the task ends
//! ```
//!
//! The waits between dials begin anew when a connection has proved itself: the node answered a call on
//! it, or it lasted. A dial alone proves little. A node may accept connections and refuse every call.
//!
//! **Invariant:** bytes that were written are never written again, as nobody knows how much of a
//! broken call Redis has performed. What may be sent again, and to whom, is decided by `traffic`,
//! which does no I/O; the driver only carries out its events.
//!
//! A broken connection does not mean a node that is away: a restart or an idle timeout breaks it,
//! and the next dial succeeds within milliseconds. So callers wait for that one dial. Silence is
//! different: a node that hangs may hang for minutes, and waiting would cost every caller the whole
//! deadline. That is why there are two ends and not one.

mod buffers;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use self::buffers::{OutgoingBytes, read_some};
use super::context::StoreContext;
use super::dial::NodeConnection;
use super::endpoint::Endpoint;
use super::lane::{Lane, LaneCounters};
use super::node_log::{CALM, NodeLog};
use super::probe;
use super::recovery::Backoff;
use super::request::{RequestError, StoreRequest};
use super::traffic::{Traffic, TrafficEvent};
use super::wire::{self, Reply};

/// Starts the driver of a lane on the current runtime. [`StoreContext`] holds a pointer to it.
pub(super) fn start(lane: Arc<Lane>, context: Arc<StoreContext>) {
    Arc::clone(&context).spawn(drive(lane, context));
}

/// Serves a lane until it is retired.
async fn drive(lane: Arc<Lane>, context: Arc<StoreContext>) {
    let traffic = Traffic::new(Arc::clone(&context), Arc::clone(&lane));
    let backoff = Backoff::random(context.options.recovery);
    let mut driver = Driver {
        traffic,
        inbox: Vec::new(),
        spare_replies: Vec::new(),
        backoff,
        lane,
        context,
        first_dial: true,
        next_dial: Instant::now(),
        has_answered: false,
        log: NodeLog::Nothing,
    };
    loop {
        let connection = match driver.connect().await {
            Ok(connection) => connection,
            Err(LaneRetired) => break,
        };
        let connected = Instant::now();
        let end = driver.serve(connection).await;
        driver.judge_connection(connected);
        match end {
            ConnectionEnd::Retired => break,
            ConnectionEnd::Lost(reason) if driver.may_dial_at_once() => {
                driver.traffic.connection_lost(&reason);
                driver.lane.mark_connecting();
            }
            ConnectionEnd::Lost(reason) | ConnectionEnd::Away(reason) => {
                driver.traffic.connection_lost(&reason);
                driver.report_away(&reason);
            }
        }
    }
    driver.close_lane();
    // Dropping the driver closes the lane, here and when the runtime ends.
}

/// One driver. Its traffic outlives connections: unsent requests wait for the next one.
struct Driver {
    lane: Arc<Lane>,
    context: Arc<StoreContext>,
    traffic: Traffic,
    /// List to reuse for requests on their way from the lane to the queue.
    inbox: Vec<StoreRequest>,
    /// List to reuse for the elements of the next reply.
    spare_replies: Vec<Reply>,
    backoff: Backoff,
    /// True until the first dial, which may take longer than others.
    first_dial: bool,
    /// The earliest instant of the next dial: the wait of the last one counts from its start.
    next_dial: Instant,
    /// True once the node has answered a call on the present connection and did not say that it is
    /// away.
    has_answered: bool,
    log: NodeLog,
}

/// The lane was retired while the driver dialled.
struct LaneRetired;

/// The reason why a connection is no longer used.
enum ConnectionEnd {
    Retired,
    /// It broke. The node is probably there: requests wait for the next dial.
    Lost(String),
    /// The node does not answer, or says that it cannot: requests fail at once.
    Away(String),
}

impl Driver {
    /// Dials until the node answers. The waits between attempts grow as the options say.
    async fn connect(&mut self) -> Result<NodeConnection, LaneRetired> {
        loop {
            if self.next_dial > Instant::now() {
                tokio::select! {
                    () = sleep_until(self.next_dial) => {}
                    () = self.lane.wait_until_retired() => {}
                }
            }
            if self.lane.is_retired() {
                return Err(LaneRetired);
            }
            // The wait counts from the start of the attempt, so a dial that hangs costs no extra.
            let wait = Duration::from_nanos(self.backoff.next_wait().get());
            self.next_dial = Instant::now() + wait;
            match self.dial_once(wait).await {
                Ok(connection) => {
                    self.lane.mark_up();
                    self.log.up(&self.lane.endpoint, Instant::now());
                    self.has_answered = false;
                    return Ok(connection);
                }
                Err(_) if self.lane.is_retired() => return Err(LaneRetired),
                Err(reason) => self.report_away(&reason),
            }
            self.context.router.wake_scout();
        }
    }

    /// Begins the waits anew if the connection that ended had proved itself.
    fn judge_connection(&mut self, connected: Instant) {
        if self.has_answered || connected.elapsed() >= CALM {
            self.backoff.reset();
            self.next_dial = Instant::now();
        }
    }

    /// Returns true when a lost connection may be replaced at once, so that requests can wait for it.
    /// One that breaks before it has answered anything is replaced so twice in a row.
    fn may_dial_at_once(&mut self) -> bool {
        const BROKEN_IN_A_ROW: u32 = 2;
        if self.backoff.attempts() <= BROKEN_IN_A_ROW {
            self.next_dial = Instant::now();
        }
        self.next_dial <= Instant::now()
    }

    /// Dials once. Requests that arrive meanwhile are taken in, and respond at their deadlines.
    async fn dial_once(&mut self, wait: Duration) -> Result<NodeConnection, String> {
        /// Enough for a handshake over half the world.
        const LEAST: Duration = Duration::from_millis(250);
        LaneCounters::add(&self.lane.counters.dials, 1);
        let longest = Duration::from_nanos(self.context.options.connect_timeout.get());
        // The very first dial has all the time that the options give. Later ones end when the next
        // is due: a new attempt reaches a node that has come back sooner than an old one that
        // hangs.
        let limit = if std::mem::take(&mut self.first_dial) {
            longest
        } else {
            wait.max(LEAST).min(longest)
        };
        let (lane, context) = (Arc::clone(&self.lane), Arc::clone(&self.context));
        let attempt =
            async { tokio::time::timeout(limit, probe::connect(&lane.endpoint, &context)).await };
        let mut attempt = pin!(attempt);
        loop {
            self.take_submitted();
            if self.lane.is_retired() {
                return Err("the node is no longer used".to_owned());
            }
            let tick = self.traffic.expire(Instant::now());
            let tick = tick.unwrap_or_else(|| Instant::now() + longest);
            tokio::select! {
                dialled = &mut attempt => {
                    let node = &self.lane.endpoint;
                    let late = |_| Err(format!("no answer from {node} within {limit:?}"));
                    return dialled.unwrap_or_else(late);
                }
                () = self.lane.woken() => {}
                () = sleep_until(tick) => {}
            }
        }
    }

    /// Fails everything that waits, because the node is away. Logs it the first time.
    fn report_away(&mut self, reason: &str) {
        self.lane.mark_away(reason);
        self.log.away(&self.lane.endpoint, reason, Instant::now());
        for request in self.traffic.take_unsent() {
            request.respond(Err(RequestError::Unavailable(reason.to_owned())));
        }
        self.context.router.wake_scout();
    }

    /// Moves bytes until the connection or the lane ends.
    ///
    /// Each round sends what has arrived, and then waits for whichever comes first: bytes from the
    /// node, room for bytes to it, a submission, or the alarm. Every branch can be dropped
    /// without losing anything, because the buffers live outside of it.
    async fn serve(&mut self, connection: NodeConnection) -> ConnectionEnd {
        let (mut reader, writer) = tokio::io::split(connection);
        let mut outgoing = OutgoingBytes::new(writer);
        let mut incoming = Vec::with_capacity(READ_AHEAD);
        let mut alarm = pin!(sleep_until(Instant::now()));
        let mut alarm_at: Option<Instant> = None;
        loop {
            let now = Instant::now();
            let earliest = self.take_submitted();
            if self.lane.is_retired() {
                self.resubmit_unsent();
                if self.traffic.is_idle() {
                    return ConnectionEnd::Retired;
                }
            } else {
                self.traffic.send_queued(&mut outgoing.bytes, now);
            }
            let wanted = earliest
                .into_iter()
                .chain(self.traffic.next_retry())
                .chain(self.log.due())
                .min();
            if let Some(at) = wanted
                && alarm_at.is_none_or(|set| at < set)
            {
                alarm_at = Some(at);
                alarm.as_mut().reset(at);
            }
            incoming.reserve(READ_AHEAD);
            tokio::select! {
                read = read_some(&mut reader, &mut incoming) => {
                    let taken = match read {
                        Ok(()) => self.take_replies(&mut incoming, &mut outgoing.bytes),
                        Err(reason) => Err(self.lost(&reason)),
                    };
                    if let Err(end) = taken {
                        return end;
                    }
                }
                wrote = outgoing.progress(), if !outgoing.is_done() => {
                    if let Err(reason) = wrote {
                        return self.lost(&reason);
                    }
                }
                () = self.lane.woken() => {}
                () = &mut alarm, if alarm_at.is_some() => {
                    let now = Instant::now();
                    alarm_at = self.next_alarm(now);
                    if let Some(at) = alarm_at {
                        alarm.as_mut().reset(at);
                    }
                    if let Some(reason) = self.stalled(now) {
                        return ConnectionEnd::Away(reason);
                    }
                }
            }
        }
    }

    /// Responds to requests whose deadline has come, and returns when to look again: at the next
    /// deadline, when the node may be logged as up, and now and then while calls are in flight, to
    /// notice a silent node.
    fn next_alarm(&mut self, now: Instant) -> Option<Instant> {
        self.log.up(&self.lane.endpoint, now);
        let deadline = self.traffic.expire(now);
        let stall_check = (!self.traffic.is_idle()).then_some(now + STALL_CHECK);
        let next = deadline
            .into_iter()
            .chain(stall_check)
            .chain(self.log.due())
            .min();
        next.map(|at| at.max(now + ALARM_STEP))
    }

    fn lost(&self, reason: &str) -> ConnectionEnd {
        ConnectionEnd::Lost(format!("{}: {reason}", self.lane.endpoint))
    }

    /// Moves submitted requests from the lane to the queue. Returns the earliest of their
    /// deadlines.
    fn take_submitted(&mut self) -> Option<Instant> {
        self.lane.take_requests(&mut self.inbox);
        let first = self.inbox.iter().map(|request| request.deadline).min();
        self.inbox
            .drain(..)
            .for_each(|request| self.traffic.enqueue(request));
        first
    }

    /// Gives every request that was not sent to the current owner of its keys.
    fn resubmit_unsent(&mut self) {
        for request in self.traffic.take_unsent() {
            self.context.router.submit(request);
        }
    }

    /// Closes a retired lane. Requests that still arrived in it go to the current owner.
    fn close_lane(&mut self) {
        self.resubmit_unsent();
        for request in self.lane.close() {
            self.context.router.submit(request);
        }
    }

    /// Handles every complete reply in `incoming` and removes it. A reply may cause new calls,
    /// which are appended to `out`.
    fn take_replies(
        &mut self,
        incoming: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<(), ConnectionEnd> {
        let mut taken = 0;
        let end = loop {
            match wire::parse_into(&incoming[taken..], &mut self.spare_replies) {
                Ok(None) => break Ok(()),
                Ok(Some((mut reply, length))) => {
                    taken += length;
                    let event = self.traffic.take_reply(&mut reply, out, Instant::now());
                    if let Reply::Array(mut replies) = reply {
                        replies.clear();
                        self.spare_replies = replies;
                    }
                    self.has_answered |= !matches!(event, Some(TrafficEvent::Away(_)));
                    if let Some(event) = event
                        && let Err(end) = self.handle(event)
                    {
                        break Err(end);
                    }
                }
                Err(error) => {
                    break Err(ConnectionEnd::Away(format!(
                        "{}: {error}",
                        self.lane.endpoint
                    )));
                }
            }
        };
        incoming.drain(..taken);
        end
    }

    /// Carries out an event of a reply: places its requests, or ends the connection.
    fn handle(&mut self, event: TrafficEvent) -> Result<(), ConnectionEnd> {
        match event {
            TrafficEvent::Moved {
                slot,
                host,
                port,
                requests,
            } => {
                let owner = self.context.slot_moved(slot, self.named_node(host, port));
                for request in requests
                    .into_iter()
                    .filter_map(|request| request.redirected(false))
                {
                    self.context.router.submit_to(&owner, request);
                }
                Ok(())
            }
            TrafficEvent::Redirected {
                host,
                port,
                requests,
            } => {
                let owner = self.context.lane(self.named_node(host, port));
                for request in requests
                    .into_iter()
                    .filter_map(|request| request.redirected(true))
                {
                    self.context.router.submit_to(&owner, request);
                }
                Ok(())
            }
            TrafficEvent::Demoted { requests } => self.leave_replica(requests),
            TrafficEvent::Away(reason) => Err(ConnectionEnd::Away(format!(
                "{}: {reason}",
                self.lane.endpoint
            ))),
        }
    }

    /// The node that a redirection names; an empty host is that of the node that sent it.
    fn named_node(&self, host: String, port: u16) -> Endpoint {
        if host.is_empty() {
            return Endpoint::new(self.lane.endpoint.host(), port);
        }
        Endpoint::new(host, port)
    }

    /// Sends the requests on to the new primary, after the node said that it is a replica.
    fn leave_replica(&mut self, requests: Vec<StoreRequest>) -> Result<(), ConnectionEnd> {
        self.context.router.report_demotion(&self.lane);
        for request in requests
            .into_iter()
            .chain(self.traffic.take_unsent())
            .filter_map(|request| request.redirected(false))
        {
            self.context.router.submit(request);
        }
        // The calls still in flight will fail the same way and be redirected; the lane ends after
        // them.
        if self.lane.is_retired() {
            return Ok(());
        }
        // No other primary is known yet. Dialling the same name may lead to it.
        Err(ConnectionEnd::Lost(format!(
            "{} is a replica now",
            self.lane.endpoint
        )))
    }

    /// The reason to give up a connection on which no reply has come for too long; `None` while it
    /// is fine.
    ///
    /// Silence counts from the deadline of the oldest call. A second of it is enough; 300 ms are if
    /// several requests have timed out, which a single slow command would not cause.
    fn stalled(&self, now: Instant) -> Option<String> {
        const TIMEOUTS: u32 = 5;
        const SILENCE: Duration = Duration::from_millis(300);
        const LONG_SILENCE: Duration = Duration::from_secs(1);
        let (since, timeouts) = self.traffic.silence()?;
        let silence = now
            .saturating_duration_since(since)
            .saturating_sub(self.context.deadline.min(LONG_SILENCE));
        let is_stalled = (timeouts >= TIMEOUTS && silence >= SILENCE) || silence >= LONG_SILENCE;
        is_stalled.then(|| {
            format!(
                "{} has not answered for {:?}",
                self.lane.endpoint,
                now - since
            )
        })
    }
}

impl Drop for Driver {
    /// Responds to every request that is left, also when the runtime ends under the driver.
    fn drop(&mut self) {
        let closed = RequestError::closed();
        self.context.router.forget(&self.lane);
        for request in self
            .lane
            .close()
            .into_iter()
            .chain(self.traffic.take_unsent())
        {
            request.respond(Err(closed.clone()));
        }
        self.traffic.connection_lost("the connection was closed");
    }
}

/// The alarm does not go off more often than this, so a response at the deadline is at most this
/// late.
const ALARM_STEP: Duration = Duration::from_millis(1);
/// How often a connection with calls in flight is checked for silence.
const STALL_CHECK: Duration = Duration::from_millis(100);
/// Bytes to read at once. A batch of replies is smaller; a larger one takes several reads.
const READ_AHEAD: usize = 16 * 1024;
