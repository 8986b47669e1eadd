//! Requests at a fixed rate, whatever the answers: an open loop.
//!
//! A client that waits for an answer before it sends the next request asks less while the server is slow, and so
//! hides what its users would feel (coordinated omission). Here a request is due at a fixed moment. It is sent over
//! the first connection that is free, and its time counts from the moment it was due, so waiting for a connection
//! counts too.

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Semaphore;
use tokio::task::LocalSet;

use super::prepared_request::PreparedRequest;
use super::wire::HttpConnection;
use crate::tally::AnswerTally;

/// How many requests are due, and for how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RequestPace {
    pub per_second: u32,
    pub duration: Duration,
}

impl RequestPace {
    fn interval(&self) -> Duration {
        Duration::from_secs(1) / self.per_second
    }

    fn requests(&self) -> u64 {
        (self.duration.as_secs_f64() * f64::from(self.per_second)).round() as u64
    }
}

/// Sends every request that is due, and returns when all are answered. The connections stay open.
pub async fn ask(
    wires: &mut Vec<HttpConnection>,
    request: PreparedRequest,
    pace: RequestPace,
) -> io::Result<AnswerTally> {
    let schedule = Rc::new(Schedule::start(pace)?);
    let request = Rc::new(request);
    let tasks = LocalSet::new();
    let mut askers = Vec::new();
    for mut wire in wires.drain(..) {
        let (schedule, request) = (Rc::clone(&schedule), Rc::clone(&request));
        askers.push(tasks.spawn_local(async move {
            let mut tally = AnswerTally::default();
            while let Some(due) = schedule.next_due().await {
                if request.send(&mut wire, &mut tally).await? {
                    return Err(io::Error::other("the connection was closed"));
                }
                tally.latencies.record(due.elapsed());
            }
            Ok((wire, tally))
        }));
    }
    tasks
        .run_until(async {
            schedule.announce().await?;
            let mut total = AnswerTally::default();
            for asker in askers {
                let (wire, tally) = asker.await.map_err(io::Error::other)??;
                wires.push(wire);
                total.add(&tally);
            }
            total.wall = schedule.started.elapsed();
            match total.done() == pace.requests() {
                true => Ok(total),
                false => Err(io::Error::other("not every request was sent")),
            }
        })
        .await
}

/// The moments at which requests are due. A permit is there for each that has come and was not taken yet.
struct Schedule {
    pace: RequestPace,
    started: Instant,
    timer: AsyncFd<OwnedFd>,
    due: Semaphore,
    taken: RefCell<u64>,
}

impl Schedule {
    fn start(pace: RequestPace) -> io::Result<Self> {
        let started = Instant::now();
        Ok(Self {
            pace,
            started,
            timer: readable(every(pace.interval())?)?,
            due: Semaphore::new(0),
            taken: RefCell::new(0),
        })
    }

    /// When the next request is due, once it is; `None` when there are no more.
    async fn next_due(&self) -> Option<Instant> {
        // Closed when the last moment has come and was taken.
        self.due.acquire().await.ok()?.forget();
        let mut taken = self.taken.borrow_mut();
        *taken += 1;
        if *taken >= self.pace.requests() {
            self.due.close();
        }
        Some(self.started + self.pace.interval() * u32::try_from(*taken).unwrap_or(u32::MAX))
    }

    /// Hands out permits as the moments come. A timer of the kernel is exact to microseconds; the runtime's own
    /// counts in milliseconds.
    async fn announce(&self) -> io::Result<()> {
        let mut announced = 0;
        while announced < self.pace.requests() {
            let mut ready = self.timer.readable().await?;
            let mut count = [0; 8];
            match rustix::io::read(self.timer.get_ref(), &mut count) {
                Ok(_) => {
                    let come = u64::from_ne_bytes(count).min(self.pace.requests() - announced);
                    announced += come;
                    self.due
                        .add_permits(usize::try_from(come).unwrap_or(usize::MAX));
                }
                Err(Errno::AGAIN) => ready.clear_ready(),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

fn readable(timer: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is open and stays the same descriptor until it is dropped, and nobody but the `AsyncFd`
    // has it. The runtime's own timers count in milliseconds, which is longer than most answers take.
    let registered = unsafe { AsyncFd::register_with_interest(timer, Interest::READABLE) };
    registered.map_err(io::Error::from)
}

/// A timer that becomes readable once in each interval, with the number of intervals that have gone by.
fn every(interval: Duration) -> io::Result<OwnedFd> {
    let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
    let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
    let interval = Timespec {
        tv_sec: interval.as_secs().cast_signed(),
        tv_nsec: interval.subsec_nanos().into(),
    };
    let setting = Itimerspec {
        it_interval: interval,
        it_value: interval,
    };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &setting)?;
    Ok(timer)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    use super::super::client::ClientPool;
    use super::super::connector::Connector;
    use super::super::requests::BenchRequest;
    use super::*;

    const CONNECTIONS: usize = 2;
    const PAUSE: Duration = Duration::from_millis(200);

    /// Answers at once, except that one request is answered after a pause, on every connection.
    fn server_with_a_pause() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let answered = Arc::new(AtomicU64::new(0));
            for stream in listener.incoming().flatten() {
                let answered = Arc::clone(&answered);
                thread::spawn(move || answer(stream, &answered).ok());
            }
        });
        address
    }

    fn answer(mut stream: TcpStream, answered: &AtomicU64) -> std::io::Result<()> {
        let mut response = b"HTTP/1.1 200 OK\r\nContent-Length: 1024\r\n\r\n".to_vec();
        response.resize(response.len() + 1_024, b'a');
        let mut request = [0; 1_024];
        // A request is one write.
        while stream.read(&mut request)? > 0 {
            let before = answered.fetch_add(1, Ordering::Relaxed);
            if (100..100 + CONNECTIONS as u64).contains(&before) {
                // bounded wait: the pause is what the client is to see.
                thread::sleep(PAUSE);
            }
            stream.write_all(&response)?;
        }
        Ok(())
    }

    #[test]
    fn a_pause_is_felt_by_every_request_that_was_due_in_it() {
        let connector = Connector::plain(server_with_a_pause());
        let mut pool = ClientPool::open(connector, CONNECTIONS).unwrap();
        let pace = RequestPace {
            per_second: 1_000,
            duration: Duration::from_millis(500),
        };
        let warm_up = RequestPace {
            duration: Duration::from_millis(50),
            ..pace
        };
        let tally = pool.ask_at_rate(BenchRequest::Small, warm_up).unwrap();
        assert_eq!(tally.allowed, 50);
        let tally = pool.ask_at_rate(BenchRequest::Small, pace).unwrap();
        assert_eq!((tally.allowed, tally.done()), (500, 500));
        // Of 500 requests 200 are due in the pause and wait for its rest: a fifth of all for 100 ms or more. A
        // client that counted from the moment it could send would see two that took long.
        let fifth = tally.latencies.per_mille(800);
        assert!(fifth >= Duration::from_millis(90), "{fifth:?}");
        assert!(
            tally.latencies.max() >= Duration::from_millis(190),
            "{tally:?}"
        );
        assert!(tally.wall >= Duration::from_millis(500), "{:?}", tally.wall);
    }

    #[test]
    fn nobody_to_ask_is_an_error() {
        let mut pool = ClientPool::open(Connector::plain(server_with_a_pause()), 0).unwrap();
        let pace = RequestPace {
            per_second: 1_000,
            duration: Duration::from_millis(2),
        };
        let failure = pool.ask_at_rate(BenchRequest::Small, pace).unwrap_err();
        assert_eq!(failure, "asking at a rate: not every request was sent");
    }

    #[test]
    fn a_pace_is_an_interval_and_a_number() {
        let pace = RequestPace {
            per_second: 20_000,
            duration: Duration::from_millis(1_500),
        };
        assert_eq!(pace.interval(), Duration::from_micros(50));
        assert_eq!(pace.requests(), 30_000);
    }
}
