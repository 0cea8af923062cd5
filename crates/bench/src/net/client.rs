//! The load: threads that each wait for their connections with epoll.
//!
//! In a closed loop each connection always has `depth` requests in flight. In an open loop a request is due
//! at a fixed time, whether the server keeps up or not, and its latency counts from then.

use super::load::Load;
use super::server::Process;
use super::socket::{Address, Stream};
use super::wire::{Asked, Wire};
use super::{Costs, Found};
use crate::tally::Tally;
use rustix::event::{epoll, poll, PollFd, PollFlags, Timespec};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Interval between two checks of `stop`.
const LOOK: Duration = Duration::from_millis(50);
/// Delay until all threads have begun.
const START: Duration = Duration::from_millis(20);
const READ_BYTES: usize = 256 << 10;
const EVENTS: usize = 256;

/// Times of a round: when requests begin, and which of them count.
#[derive(Debug, Clone, Copy)]
struct Times {
    start: Instant,
    begin: Instant,
    end: Instant,
}

/// Result of one thread.
#[derive(Default)]
struct Done {
    tally: Tally,
    unanswered: u64,
    /// Connections, kept open until the server's costs are read: the thread that served one may end with it,
    /// and its costs with the thread.
    connections: Vec<Connection>,
}

/// Runs one round.
pub(super) fn run(
    address: &Address,
    wire: &Wire,
    load: &Load,
    process: Option<&Process>,
    counts: bool,
    stop: &AtomicBool,
) -> Result<Found, String> {
    let mut parts = divided(connect(address, load.connections)?, load.threads);
    let start = Instant::now() + START;
    let begin = start + Duration::from_millis(load.ramp_ms);
    let times = Times {
        start,
        begin,
        end: begin + Duration::from_millis(load.runtime_ms),
    };
    let ended = AtomicBool::new(false);
    let ended = &ended;
    thread::scope(|scope| {
        let spawned: Vec<_> = parts
            .drain(..)
            .enumerate()
            .map(|(number, connections)| {
                scope.spawn(move || {
                    let done = Client::new(wire, load, connections, number, times).and_then(|mut client| {
                        client.serve(ended)?;
                        Ok(client.done())
                    });
                    if done.is_err() {
                        ended.store(true, Ordering::Relaxed);
                    }
                    done
                })
            })
            .collect();
        let over = || ended.load(Ordering::Relaxed) || stop.load(Ordering::Relaxed);
        sleep_until(times.begin, over);
        let costs = Costs::begin(process, counts);
        let begun = Instant::now();
        sleep_until(times.end, over);
        let elapsed = begun.elapsed();
        let costs = costs.and_then(Costs::end);
        ended.store(true, Ordering::Relaxed);
        let mut all = Done::default();
        for thread in spawned {
            let one = thread.join().expect("no panic")?;
            all.tally.add(&one.tally);
            all.unanswered += one.unanswered;
            all.connections.extend(one.connections);
        }
        let (used, calls) = costs?;
        if all.tally.ios == 0 {
            return Err("the server answered no request".into());
        }
        Ok(Found {
            elapsed,
            tally: all.tally,
            unanswered: load.rate.map(|_| all.unanswered),
            used,
            calls,
        })
    })
}

pub(super) fn connect(address: &Address, count: u32) -> Result<Vec<Connection>, String> {
    let one = |number: u32| {
        let stream = Stream::connect(address).and_then(|stream| stream.set_nonblocking().map(|()| stream));
        let stream = stream.map_err(|e| format!("{address}, connection {}: {e}", number + 1))?;
        Ok(Connection::new(stream, u64::from(number)))
    };
    (0..count).map(one).collect()
}

fn divided(connections: Vec<Connection>, threads: u32) -> Vec<Vec<Connection>> {
    let mut parts: Vec<Vec<Connection>> = (0..threads).map(|_| Vec::new()).collect();
    for (number, connection) in connections.into_iter().enumerate() {
        parts[number % threads as usize].push(connection);
    }
    parts
}

fn sleep_until(time: Instant, over: impl Fn() -> bool) {
    while !over() {
        match time.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => thread::sleep(left.min(LOOK)),
            _ => return,
        }
    }
}

/// A request without an answer.
#[derive(Debug, Clone, Copy)]
struct Pending {
    asked: Asked,
    /// Time at which it was sent, or was to be sent.
    due: Instant,
}

/// A connection with its requests.
#[derive(Debug)]
pub(super) struct Connection {
    stream: Stream,
    id: u64,
    next: u64,
    pending: VecDeque<Pending>,
    /// Bytes to send, of which those before `sent` are sent.
    out: Vec<u8>,
    sent: usize,
    /// Beginning of a response.
    partial: Vec<u8>,
    watched_for_room: bool,
}

impl Connection {
    fn new(stream: Stream, id: u64) -> Connection {
        Connection {
            stream,
            id,
            next: 0,
            pending: VecDeque::new(),
            out: Vec::new(),
            sent: 0,
            partial: Vec::new(),
            watched_for_room: false,
        }
    }

    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Queues one request.
    pub fn ask(&mut self, wire: &Wire, due: Instant) {
        let asked = wire.ask(self.id, self.next, &mut self.out);
        self.next += 1;
        self.pending.push_back(Pending { asked, due });
    }

    /// Returns the number of bytes of all pending responses.
    pub fn expected_len(&self, wire: &Wire) -> usize {
        self.pending.iter().map(|one| wire.response_len(one.asked)).sum()
    }

    /// Sends what fits, and returns true if that is all.
    pub fn flush(&mut self) -> Result<bool, String> {
        while self.sent < self.out.len() {
            match self.stream.write_some(&self.out[self.sent..]) {
                Ok(Some(count)) => self.sent += count,
                Ok(None) => return Ok(false),
                Err(e) => return Err(self.failed(&e.to_string())),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(true)
    }

    /// Reads once, and calls `answered` with the due time and length of each response that is complete.
    /// Returns true if anything was read.
    pub fn read(
        &mut self,
        wire: &Wire,
        buffer: &mut [u8],
        mut answered: impl FnMut(Instant, usize),
    ) -> Result<bool, String> {
        let count = match self.stream.read_some(buffer) {
            Ok(None) => return Ok(false),
            Ok(Some(0)) => return Err(self.failed("the server closed it")),
            Ok(Some(count)) => count,
            Err(e) => return Err(self.failed(&e.to_string())),
        };
        let joined;
        let mut bytes = match self.partial.is_empty() {
            true => &buffer[..count],
            false => {
                self.partial.extend_from_slice(&buffer[..count]);
                joined = std::mem::take(&mut self.partial);
                &joined[..]
            }
        };
        while !bytes.is_empty() {
            let Some(first) = self.pending.front().copied() else {
                return Err(self.failed("more bytes came back than were asked for"));
            };
            match wire.check(first.asked, bytes) {
                Ok(Some(len)) => {
                    self.pending.pop_front();
                    answered(first.due, len);
                    bytes = &bytes[len..];
                }
                Ok(None) => break,
                Err(why) => return Err(self.failed(&why)),
            }
        }
        self.partial.extend_from_slice(bytes);
        Ok(true)
    }

    fn failed(&self, why: &str) -> String {
        let answered = self.next - self.pending.len() as u64;
        format!("connection {}, after {answered} responses: {why}", self.id + 1)
    }
}

/// Connections of one thread.
struct Client<'a> {
    wire: &'a Wire,
    depth: usize,
    times: Times,
    set: OwnedFd,
    connections: Vec<Connection>,
    /// State of an open loop.
    open: Option<Open>,
    tally: Tally,
}

/// Requests that are due at fixed times.
struct Open {
    next_due: Instant,
    interval: Duration,
    /// Requests that are due and for which no connection is free.
    late: VecDeque<Instant>,
    /// Connections with room, the one that waited longest first; a connection occurs once for each request
    /// that it can take.
    free: VecDeque<usize>,
}

impl Open {
    fn new(load: &Load, connections: usize, number: usize, times: Times) -> Option<Open> {
        let rate = load.rate?;
        let interval = Duration::from_secs_f64(f64::from(load.threads) / rate as f64);
        let each = 0..connections;
        Some(Open {
            // The threads' requests are due in turn.
            next_due: times.start + interval.mul_f64(number as f64 / f64::from(load.threads)),
            interval,
            late: VecDeque::new(),
            free: (0..load.depth).flat_map(|_| each.clone()).collect(),
        })
    }
}

impl<'a> Client<'a> {
    fn new(
        wire: &'a Wire,
        load: &Load,
        connections: Vec<Connection>,
        number: usize,
        times: Times,
    ) -> Result<Client<'a>, String> {
        let failed = |e: rustix::io::Errno| format!("epoll: {e}");
        let set = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)?;
        for (at, connection) in connections.iter().enumerate() {
            let data = epoll::EventData::new_u64(at as u64);
            epoll::add(&set, connection.stream(), data, epoll::EventFlags::IN).map_err(failed)?;
        }
        Ok(Client {
            wire,
            depth: load.depth as usize,
            times,
            set,
            open: Open::new(load, connections.len(), number, times),
            connections,
            tally: Tally::default(),
        })
    }

    fn serve(&mut self, ended: &AtomicBool) -> Result<(), String> {
        sleep_until(self.times.start, || ended.load(Ordering::Relaxed));
        if self.open.is_none() {
            for at in 0..self.connections.len() {
                (0..self.depth).for_each(|_| self.connections[at].ask(self.wire, Instant::now()));
                self.flush(at)?;
            }
        }
        let mut events = Vec::with_capacity(EVENTS);
        let mut buffer = vec![0; READ_BYTES];
        while !ended.load(Ordering::Relaxed) && Instant::now() < self.times.end {
            self.send_what_is_due()?;
            self.wait(&mut events)?;
            for event in events.drain(..) {
                let at = event.data.u64() as usize;
                self.read(at, &mut buffer)?;
                self.flush(at)?;
            }
        }
        Ok(())
    }

    fn send_what_is_due(&mut self) -> Result<(), String> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let now = Instant::now();
        while open.next_due <= now {
            open.late.push_back(open.next_due);
            open.next_due += open.interval;
        }
        while let Some(open) = &mut self.open {
            if open.late.is_empty() || open.free.is_empty() {
                break;
            }
            let (due, at) = open
                .late
                .pop_front()
                .zip(open.free.pop_front())
                .expect("both have one");
            self.connections[at].ask(self.wire, due);
            self.flush(at)?;
        }
        Ok(())
    }

    /// Waits until a connection is ready or a request is due.
    fn wait(&mut self, events: &mut Vec<epoll::Event>) -> Result<(), String> {
        let left = match &self.open {
            None => LOOK,
            Some(open) => open.next_due.saturating_duration_since(Instant::now()).min(LOOK),
        };
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: left.subsec_nanos().into(),
        };
        // epoll_wait counts in milliseconds where epoll_pwait2 is not available.
        if self.open.is_some() {
            let mut ready = [PollFd::new(&self.set, PollFlags::IN)];
            match poll(&mut ready, Some(&timeout)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(format!("ppoll: {e}")),
            }
        }
        let timeout = if self.open.is_some() {
            Timespec::default()
        } else {
            timeout
        };
        events.clear();
        match epoll::wait(&self.set, rustix::buffer::spare_capacity(events), Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(format!("epoll_wait: {e}")),
        }
    }

    fn read(&mut self, at: usize, buffer: &mut [u8]) -> Result<(), String> {
        let (times, tally) = (self.times, &mut self.tally);
        let connection = &mut self.connections[at];
        let mut answers = 0;
        let mut now = None;
        connection.read(self.wire, buffer, |due, len| {
            let now = *now.get_or_insert_with(Instant::now);
            answers += 1;
            if times.begin <= now && now < times.end {
                tally.record(len as u64, now.saturating_duration_since(due));
            }
        })?;
        match &mut self.open {
            Some(open) => open.free.extend(std::iter::repeat_n(at, answers)),
            None => {
                if let Some(now) = now {
                    (0..answers).for_each(|_| connection.ask(self.wire, now));
                }
            }
        }
        Ok(())
    }

    /// Sends, and watches for room where not all fits.
    fn flush(&mut self, at: usize) -> Result<(), String> {
        let connection = &mut self.connections[at];
        let wants_room = !connection.flush()?;
        if wants_room != connection.watched_for_room {
            connection.watched_for_room = wants_room;
            let flags = match wants_room {
                true => epoll::EventFlags::IN | epoll::EventFlags::OUT,
                false => epoll::EventFlags::IN,
            };
            let data = epoll::EventData::new_u64(at as u64);
            epoll::modify(&self.set, connection.stream(), data, flags).map_err(|e| format!("epoll: {e}"))?;
        }
        Ok(())
    }

    /// Ends the round. Requests without an answer have taken at least until now: an open loop that left them
    /// out would hide the longest waits.
    fn done(mut self) -> Done {
        let mut unanswered = 0;
        if let Some(open) = &self.open {
            let sent = self
                .connections
                .iter()
                .flat_map(|one| one.pending.iter().map(|p| p.due));
            let end = self.times.end;
            for due in sent.chain(open.late.iter().copied()).filter(|due| *due < end) {
                unanswered += 1;
                self.tally.wait_at_least(end.saturating_duration_since(due));
            }
        }
        Done {
            tally: self.tally,
            unanswered,
            connections: self.connections,
        }
    }
}
