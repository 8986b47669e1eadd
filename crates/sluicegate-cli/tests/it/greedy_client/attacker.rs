//! The greedy client: it holds as many connections as it gets, writes to each as much as is taken,
//! and opens another for each that is ended.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use sluicegate_testkit::raw_socket::connect_from;
use sluicegate_testkit::yield_to_others;

use super::ways::{After, Answers, Way};

const SOURCE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
/// Of one thread; the system has about 28,000 ports for a client.
const OPENED_MAX: usize = 10_000;
/// Where nothing can be written and nothing is read, a moment goes to the others.
const REST: Duration = Duration::from_millis(2);

/// Does so until then; returns how many connections it opened.
pub fn attack(way: &Way, target: SocketAddr, crowd: usize, until: Instant) -> usize {
    // Its own machine would do all of this.
    yield_to_others();
    let mut held: Vec<Option<Held>> = (0..crowd).map(|_| None).collect();
    let mut opened = 0;
    while Instant::now() < until {
        let mut has_moved = false;
        for place in &mut held {
            if place.is_none() && opened < OPENED_MAX && Instant::now() < until {
                opened += 1;
                *place = Held::open(way, target);
            }
            let Some(connection) = place else {
                continue;
            };
            match connection.go_on(way) {
                Progress::Moved => has_moved = true,
                Progress::Stuck => {}
                Progress::Ended => *place = None,
            }
        }
        let rest = if has_moved {
            way.pause
        } else {
            way.pause.max(REST)
        };
        if !rest.is_zero() {
            // bounded wait: until the end of the attack
            thread::sleep(rest.min(until.saturating_duration_since(Instant::now())));
        }
    }
    opened
}

/// One of its connections.
struct Held {
    stream: TcpStream,
    unsent: Vec<u8>,
    sent: usize,
    round: u32,
}

enum Progress {
    Moved,
    Stuck,
    Ended,
}

impl Held {
    fn open(way: &Way, target: SocketAddr) -> Option<Self> {
        let stream = connect_from(SOURCE, target).ok()?;
        stream.set_nonblocking(true).ok()?;
        Some(Self {
            stream,
            unsent: (way.first)(),
            sent: 0,
            round: 0,
        })
    }

    fn go_on(&mut self, way: &Way) -> Progress {
        let read = match way.answers {
            Answers::Read => self.read_all(),
            Answers::LeftUnread => self.look(),
        };
        if matches!(read, Progress::Ended) {
            return Progress::Ended;
        }
        if self.sent == self.unsent.len() {
            match way.after {
                After::Close if matches!(read, Progress::Moved) => return Progress::Ended,
                After::Close => return read,
                After::GoOn => {
                    self.unsent = (way.then)(self.round);
                    self.sent = 0;
                    self.round += 1;
                }
            }
        }
        if self.unsent.is_empty() {
            return read;
        }
        match self.stream.write(&self.unsent[self.sent..]) {
            Ok(written) => {
                self.sent += written;
                Progress::Moved
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => read,
            Err(_) => Progress::Ended,
        }
    }

    fn read_all(&mut self) -> Progress {
        let mut bytes = [0; 16 << 10];
        let mut progress = Progress::Stuck;
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return Progress::Ended,
                Ok(_) => progress = Progress::Moved,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return progress,
                Err(_) => return Progress::Ended,
            }
        }
    }

    /// Finds out whether the connection has ended, and leaves what has come.
    fn look(&self) -> Progress {
        match self.stream.peek(&mut [0]) {
            Ok(0) => Progress::Ended,
            Ok(_) => Progress::Stuck,
            Err(error) if error.kind() == ErrorKind::WouldBlock => Progress::Stuck,
            Err(_) => Progress::Ended,
        }
    }
}
