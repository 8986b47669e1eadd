//! The driver of a lane: dials its node, moves bytes, and notices when the node is away or back.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::time::{Instant, sleep_until};

use super::context::StoreContext;
use super::dial::NodeConnection;
use super::endpoint::Endpoint;
use super::health;
use super::lane::{Lane, LaneCounters};
use super::probe;
use super::recovery::Backoff;
use super::request::{RequestError, StoreRequest};
use super::traffic::{Traffic, TrafficEvent};
use super::wire::{self, Reply};

/// Serves a lane until it is retired.
pub(super) async fn drive(lane: Arc<Lane>, context: Arc<StoreContext>) {
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
        logged_up: None,
    };
    loop {
        let connection = match driver.connect().await {
            Ok(connection) => connection,
            Err(LaneRetired) => break,
        };
        match driver.serve(connection).await {
            ConnectionEnd::Retired => break,
            ConnectionEnd::Lost(reason) => {
                driver.traffic.connection_lost(&reason);
                driver.lane.mark_connecting();
            }
            ConnectionEnd::Away(reason) => {
                driver.traffic.connection_lost(&reason);
                driver.report_away(&reason);
            }
        }
    }
    driver.close_lane();
    // Dropping the driver closes the lane.
}

struct Driver {
    lane: Arc<Lane>,
    context: Arc<StoreContext>,
    traffic: Traffic,
    inbox: Vec<StoreRequest>,
    /// Room for the next reply.
    spare_replies: Vec<Reply>,
    backoff: Backoff,
    first_dial: bool,
    /// What the log says last of the node: whether it is up.
    logged_up: Option<bool>,
}

/// Nobody routes to this lane any more.
struct LaneRetired;

/// Why a connection is no longer used.
enum ConnectionEnd {
    Retired,
    /// It broke. The node may well be there: callers wait for the next dial.
    Lost(String),
    /// The node does not answer, or says that it cannot: callers wait for nothing.
    Away(String),
}

impl Driver {
    /// Dials until the node answers; callers are answered in time meanwhile.
    async fn connect(&mut self) -> Result<NodeConnection, LaneRetired> {
        loop {
            if self.lane.is_retired() {
                return Err(LaneRetired);
            }
            let started = Instant::now();
            let wait = Duration::from_nanos(self.backoff.next_wait().get());
            match self.dial_once(wait).await {
                Ok(connection) => {
                    self.lane.mark_up();
                    if self.logged_up.replace(true) != Some(true) {
                        health::log_up(&self.lane.endpoint);
                    }
                    self.backoff.reset();
                    return Ok(connection);
                }
                Err(_) if self.lane.is_retired() => return Err(LaneRetired),
                Err(reason) => self.report_away(&reason),
            }
            self.context.router.wake_scout();
            // The next attempt starts `wait` after this one did, or when the lane is not needed any more.
            let next = pin!(sleep_until(started + wait));
            tokio::select! {
                () = next => {}
                () = self.lane.retired() => return Err(LaneRetired),
            }
        }
    }

    async fn dial_once(&mut self, wait: Duration) -> Result<NodeConnection, String> {
        const LEAST: Duration = Duration::from_millis(250);
        LaneCounters::add(&self.lane.counters.dials, 1);
        let longest = Duration::from_nanos(self.context.options.connect_timeout.get());
        // The very first dial has the time that a slow handshake takes; later ones give way to the next.
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
                return Err("not needed any more".to_owned());
            }
            let tick = self.traffic.expire(Instant::now());
            let tick = tick.unwrap_or_else(|| Instant::now() + longest);
            tokio::select! {
                dialled = &mut attempt => {
                    return dialled.unwrap_or_else(|_| Err(format!("no answer from {} within {limit:?}", self.lane.endpoint)));
                }
                () = self.lane.woken() => {}
                () = sleep_until(tick) => {}
            }
        }
    }

    /// The node is away: whoever waits is told, and so is the log, once.
    fn report_away(&mut self, reason: &str) {
        self.lane.mark_away(reason);
        if self.logged_up.replace(false) != Some(false) {
            health::log_away(&self.lane.endpoint, reason);
        }
        for request in self.traffic.take_unsent() {
            request.respond(Err(RequestError::Unavailable(reason.to_owned())));
        }
        self.context.router.wake_scout();
    }

    /// Moves bytes until the connection or the lane ends.
    async fn serve(&mut self, connection: NodeConnection) -> ConnectionEnd {
        const READ_AHEAD: usize = 16 * 1024;
        let (mut reader, writer) = tokio::io::split(connection);
        let mut outgoing = OutgoingBytes {
            writer,
            bytes: Vec::new(),
            written: 0,
            flushed: true,
        };
        let mut incoming = Vec::with_capacity(READ_AHEAD);
        let mut tick = pin!(sleep_until(Instant::now()));
        let mut tick_at: Option<Instant> = None;
        loop {
            let now = Instant::now();
            let arrived = self.take_submitted();
            if self.lane.is_retired() {
                self.resubmit_unsent();
                if self.traffic.is_idle() {
                    return ConnectionEnd::Retired;
                }
            } else {
                self.traffic.send_queued(&mut outgoing.bytes, now);
            }
            let sooner = arrived.into_iter().chain(self.traffic.next_retry()).min();
            if let Some(at) = sooner
                && tick_at.is_none_or(|set| at < set)
            {
                tick_at = Some(at);
                tick.as_mut().reset(at);
            }
            incoming.reserve(READ_AHEAD);
            tokio::select! {
                read = read_some(&mut reader, &mut incoming) => match read {
                    Ok(()) => {
                        if let Err(end) = self.take_replies(&mut incoming, &mut outgoing.bytes) {
                            return end;
                        }
                    }
                    Err(reason) => return ConnectionEnd::Lost(format!("{}: {reason}", self.lane.endpoint)),
                },
                wrote = outgoing.progress(), if !outgoing.is_done() => {
                    if let Err(reason) = wrote {
                        return ConnectionEnd::Lost(format!("{}: {reason}", self.lane.endpoint));
                    }
                }
                () = self.lane.woken() => {}
                () = &mut tick, if tick_at.is_some() => {
                    let now = Instant::now();
                    let next = self.traffic.expire(now);
                    let look = (!self.traffic.is_idle()).then_some(now + STALL_CHECK);
                    tick_at = next.into_iter().chain(look).min().map(|at| at.max(now + TICK));
                    if let Some(at) = tick_at {
                        tick.as_mut().reset(at);
                    }
                    if let Some(reason) = self.stalled(now) {
                        return ConnectionEnd::Away(reason);
                    }
                }
            }
        }
    }

    /// Takes in what was put into the lane, and says which deadline of it comes first.
    fn take_submitted(&mut self) -> Option<Instant> {
        self.lane.take_requests(&mut self.inbox);
        let first = self.inbox.iter().map(|request| request.deadline).min();
        self.inbox
            .drain(..)
            .for_each(|request| self.traffic.enqueue(request));
        first
    }

    /// Gives what was not sent to whoever owns it now.
    fn resubmit_unsent(&mut self) {
        for request in self.traffic.take_unsent() {
            self.context.submit(request);
        }
    }

    /// The lane is not needed any more: who still knocked at it goes to the owner.
    fn close_lane(&mut self) {
        self.resubmit_unsent();
        for request in self.lane.close() {
            self.context.submit(request);
        }
    }

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
                    if let Some(event) = event
                        && let Err(end) = self.handle(event)
                    {
                        break Err(end);
                    }
                }
                Err(wrong) => {
                    break Err(ConnectionEnd::Away(format!(
                        "{}: {wrong}",
                        self.lane.endpoint
                    )));
                }
            }
        };
        incoming.drain(..taken);
        end
    }

    fn handle(&mut self, event: TrafficEvent) -> Result<(), ConnectionEnd> {
        let own = &self.lane.endpoint;
        let named = |host: String, port| {
            Endpoint::new(
                if host.is_empty() {
                    own.host().to_owned()
                } else {
                    host
                },
                port,
            )
        };
        match event {
            TrafficEvent::Moved {
                slot,
                host,
                port,
                requests,
            } => {
                let owner = self.context.slot_moved(slot, named(host, port));
                for request in requests
                    .into_iter()
                    .filter_map(|request| request.redirected(false))
                {
                    self.context.submit_to(&owner, request);
                }
                Ok(())
            }
            TrafficEvent::Redirected {
                host,
                port,
                requests,
            } => {
                let owner = self.context.lane(named(host, port));
                for request in requests
                    .into_iter()
                    .filter_map(|request| request.redirected(true))
                {
                    self.context.submit_to(&owner, request);
                }
                Ok(())
            }
            TrafficEvent::Demoted { requests } => {
                self.context.router.report_demotion(&self.lane);
                for request in requests
                    .into_iter()
                    .chain(self.traffic.take_unsent())
                    .filter_map(|request| request.redirected(false))
                {
                    self.context.submit(request);
                }
                // What else is under way there will be refused as well, and sent on: the lane ends after that.
                if self.lane.is_retired() {
                    return Ok(());
                }
                // Where nobody else can be found, the same node is dialled again: a name may lead elsewhere now.
                Err(ConnectionEnd::Lost(format!("{own} is a replica now")))
            }
            TrafficEvent::Away(reason) => Err(ConnectionEnd::Away(format!("{own}: {reason}"))),
        }
    }

    /// A connection on which nothing has come back for so long that it is given up.
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
    /// Also when the runtime goes away under the driver: no caller is left waiting.
    fn drop(&mut self) {
        let gone = RequestError::Unavailable("the connection was closed".to_owned());
        self.context.router.forget(&self.lane);
        for request in self
            .lane
            .close()
            .into_iter()
            .chain(self.traffic.take_unsent())
        {
            request.respond(Err(gone.clone()));
        }
        self.traffic.connection_lost("the connection was closed");
    }
}

/// No ask waits longer than this for its deadline to be noticed.
const TICK: Duration = Duration::from_millis(1);
/// How often a connection that says nothing is looked at.
const STALL_CHECK: Duration = Duration::from_millis(100);

/// Bytes on their way out.
struct OutgoingBytes {
    writer: WriteHalf<NodeConnection>,
    bytes: Vec<u8>,
    written: usize,
    flushed: bool,
}

impl OutgoingBytes {
    fn is_done(&self) -> bool {
        self.bytes.is_empty() && self.flushed
    }

    /// Writes some; may be dropped at any time without losing count.
    async fn progress(&mut self) -> Result<(), String> {
        if self.bytes.is_empty() {
            self.writer
                .flush()
                .await
                .map_err(|error| error.to_string())?;
            self.flushed = true;
            return Ok(());
        }
        self.flushed = false;
        let wrote = self
            .writer
            .write(&self.bytes[self.written..])
            .await
            .map_err(|error| error.to_string())?;
        if wrote == 0 {
            return Err("closed while writing".to_owned());
        }
        self.written += wrote;
        if self.written == self.bytes.len() {
            self.bytes.clear();
            self.written = 0;
        }
        Ok(())
    }
}

async fn read_some(
    reader: &mut ReadHalf<NodeConnection>,
    into: &mut Vec<u8>,
) -> Result<(), String> {
    match reader.read_buf(into).await {
        Ok(0) => Err("closed by the server".to_owned()),
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}
