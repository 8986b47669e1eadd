//! The driver of a lane: dials its node, moves bytes, and notices when the node is away or back.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::time::{Instant, sleep_until};

use super::ask::{Ask, Fault};
use super::context::Context;
use super::dial::Link;
use super::endpoint::Endpoint;
use super::health;
use super::lane::{Counters, Lane};
use super::probe;
use super::recovery::Backoff;
use super::traffic::{Event, Traffic};
use super::wire::{self, Reply};

/// Serves a lane until it is retired.
pub(super) async fn drive(lane: Arc<Lane>, context: Arc<Context>) {
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
        announced: None,
    };
    loop {
        let link = match driver.connect().await {
            Ok(link) => link,
            Err(Retired) => break,
        };
        match driver.serve(link).await {
            End::Retired => break,
            End::Lost(why) => {
                driver.traffic.lose(&why);
                driver.lane.set_connecting();
            }
            End::Away(why) => {
                driver.traffic.lose(&why);
                driver.away(&why);
            }
        }
    }
    driver.leave();
    // Dropping the driver closes the lane.
}

struct Driver {
    lane: Arc<Lane>,
    context: Arc<Context>,
    traffic: Traffic,
    inbox: Vec<Ask>,
    /// Room for the next reply.
    spare_replies: Vec<Reply>,
    backoff: Backoff,
    first_dial: bool,
    /// What the log says last of the node: whether it is up.
    announced: Option<bool>,
}

/// Nobody routes to this lane any more.
struct Retired;

/// Why a connection is no longer used.
enum End {
    Retired,
    /// It broke. The node may well be there: callers wait for the next dial.
    Lost(String),
    /// The node does not answer, or says that it cannot: callers wait for nothing.
    Away(String),
}

impl Driver {
    /// Dials until the node answers; callers are answered in time meanwhile.
    async fn connect(&mut self) -> Result<Link, Retired> {
        loop {
            if self.lane.is_retired() {
                return Err(Retired);
            }
            let started = Instant::now();
            let wait = Duration::from_nanos(self.backoff.next_wait().get());
            match self.dial_once(wait).await {
                Ok(link) => {
                    self.lane.set_up();
                    if self.announced.replace(true) != Some(true) {
                        health::log_up(&self.lane.endpoint);
                    }
                    self.backoff.reset();
                    return Ok(link);
                }
                Err(_) if self.lane.is_retired() => return Err(Retired),
                Err(why) => self.away(&why),
            }
            self.context.router.wake_scout();
            // The next attempt starts `wait` after this one did, or when the lane is not needed any more.
            let next = pin!(sleep_until(started + wait));
            tokio::select! {
                () = next => {}
                () = self.lane.retired() => return Err(Retired),
            }
        }
    }

    async fn dial_once(&mut self, wait: Duration) -> Result<Link, String> {
        const LEAST: Duration = Duration::from_millis(250);
        Counters::add(&self.lane.counters.dials, 1);
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
            self.collect();
            if self.lane.is_retired() {
                return Err("not needed any more".to_owned());
            }
            let tick = self.traffic.expire(Instant::now());
            let tick = tick.unwrap_or_else(|| Instant::now() + longest);
            tokio::select! {
                dialled = &mut attempt => {
                    return dialled.unwrap_or_else(|_| Err(format!("no answer from {} within {limit:?}", self.lane.endpoint)));
                }
                () = self.lane.rung() => {}
                () = sleep_until(tick) => {}
            }
        }
    }

    /// The node is away: whoever waits is told, and so is the log, once.
    fn away(&mut self, why: &str) {
        self.lane.set_away(why);
        if self.announced.replace(false) != Some(false) {
            health::log_away(&self.lane.endpoint, why);
        }
        for ask in self.traffic.take_unsent() {
            ask.tell(Err(Fault::Away(why.to_owned())));
        }
        self.context.router.wake_scout();
    }

    /// Moves bytes until the connection or the lane ends.
    async fn serve(&mut self, link: Link) -> End {
        const READ_AHEAD: usize = 16 * 1024;
        let (mut reader, writer) = tokio::io::split(link);
        let mut outgoing = Outgoing {
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
            let arrived = self.collect();
            if self.lane.is_retired() {
                self.hand_over();
                if self.traffic.is_quiet() {
                    return End::Retired;
                }
            } else {
                self.traffic.launch(&mut outgoing.bytes, now);
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
                    Err(why) => return End::Lost(format!("{}: {why}", self.lane.endpoint)),
                },
                wrote = outgoing.progress(), if !outgoing.is_done() => {
                    if let Err(why) = wrote {
                        return End::Lost(format!("{}: {why}", self.lane.endpoint));
                    }
                }
                () = self.lane.rung() => {}
                () = &mut tick, if tick_at.is_some() => {
                    let now = Instant::now();
                    let next = self.traffic.expire(now);
                    let look = (!self.traffic.is_quiet()).then_some(now + STALL_CHECK);
                    tick_at = next.into_iter().chain(look).min().map(|at| at.max(now + TICK));
                    if let Some(at) = tick_at {
                        tick.as_mut().reset(at);
                    }
                    if let Some(why) = self.stalled(now) {
                        return End::Away(why);
                    }
                }
            }
        }
    }

    /// Takes in what was put into the lane, and says which deadline of it comes first.
    fn collect(&mut self) -> Option<Instant> {
        self.lane.take_asks(&mut self.inbox);
        let first = self.inbox.iter().map(|ask| ask.deadline).min();
        self.inbox
            .drain(..)
            .for_each(|ask| self.traffic.accept(ask));
        first
    }

    /// Gives what was not sent to whoever owns it now.
    fn hand_over(&mut self) {
        for ask in self.traffic.take_unsent() {
            self.context.submit(ask);
        }
    }

    /// The lane is not needed any more: who still knocked at it goes to the owner.
    fn leave(&mut self) {
        self.hand_over();
        for ask in self.lane.close() {
            self.context.submit(ask);
        }
    }

    fn take_replies(&mut self, incoming: &mut Vec<u8>, out: &mut Vec<u8>) -> Result<(), End> {
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
                Err(wrong) => break Err(End::Away(format!("{}: {wrong}", self.lane.endpoint))),
            }
        };
        incoming.drain(..taken);
        end
    }

    fn handle(&mut self, event: Event) -> Result<(), End> {
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
            Event::Moved {
                slot,
                host,
                port,
                asks,
            } => {
                let owner = self.context.moved(slot, named(host, port));
                for ask in asks.into_iter().filter_map(|ask| ask.sent_on(false)) {
                    self.context.submit_to(&owner, ask);
                }
                Ok(())
            }
            Event::Elsewhere { host, port, asks } => {
                let owner = self.context.lane(named(host, port));
                for ask in asks.into_iter().filter_map(|ask| ask.sent_on(true)) {
                    self.context.submit_to(&owner, ask);
                }
                Ok(())
            }
            Event::Demoted { asks } => {
                self.context.router.demoted(&self.lane);
                for ask in asks
                    .into_iter()
                    .chain(self.traffic.take_unsent())
                    .filter_map(|ask| ask.sent_on(false))
                {
                    self.context.submit(ask);
                }
                // What else is under way there will be refused as well, and sent on: the lane ends after that.
                if self.lane.is_retired() {
                    return Ok(());
                }
                // Where nobody else can be found, the same node is dialled again: a name may lead elsewhere now.
                Err(End::Lost(format!("{own} is a replica now")))
            }
            Event::Away(why) => Err(End::Away(format!("{own}: {why}"))),
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
        let gone = Fault::Away("the connection was closed".to_owned());
        self.context.router.forget(&self.lane);
        for ask in self
            .lane
            .close()
            .into_iter()
            .chain(self.traffic.take_unsent())
        {
            ask.tell(Err(gone.clone()));
        }
        self.traffic.lose("the connection was closed");
    }
}

/// No ask waits longer than this for its deadline to be noticed.
const TICK: Duration = Duration::from_millis(1);
/// How often a connection that says nothing is looked at.
const STALL_CHECK: Duration = Duration::from_millis(100);

/// Bytes on their way out.
struct Outgoing {
    writer: WriteHalf<Link>,
    bytes: Vec<u8>,
    written: usize,
    flushed: bool,
}

impl Outgoing {
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

async fn read_some(reader: &mut ReadHalf<Link>, into: &mut Vec<u8>) -> Result<(), String> {
    match reader.read_buf(into).await {
        Ok(0) => Err("closed by the server".to_owned()),
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}
