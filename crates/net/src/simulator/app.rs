//! The handler of a simulated program, which checks all that it is told.

use crate::backend::sim::{Kernel, Random, Sim};
use crate::backend::Calls;
use crate::clock::simulated;
use crate::context::Context;
use crate::handler::Handler;
use crate::listen;
use crate::recv::Way;
use crate::stats::Stats;
use crate::table::SocketId;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// The longest message of a program of scale 1.
pub(super) const MAX_MESSAGE: usize = 200;
/// The scale of programs with long messages, which leave the pool.
pub(super) const LONG: usize = 300;
/// After so many bytes of a connection they repeat.
const PERIOD: usize = 250_007;
/// What the handlers of one turn may take together.
const SLOW_TURN: Duration = Duration::from_millis(20);
/// Ids of streams that were closed, kept to use them wrongly.
const OLD_IDS: usize = 8;

/// Who sends.
#[derive(Clone, Copy)]
pub(super) enum Side {
    Here,
    Peer,
}

static NOISE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut random = Random::new(1);
    let mut bytes: Vec<u8> = (0..PERIOD).map(|_| random.next() as u8).collect();
    bytes.extend_from_within(..MAX_MESSAGE * LONG);
    bytes
});

/// The bytes that one side of a connection sends at a position.
pub(super) fn bytes_at(connection: usize, side: Side, position: usize, len: usize) -> &'static [u8] {
    let start = ((connection * 2 + side as usize) * 7919 + position) % PERIOD;
    &NOISE[start..start + len]
}

/// Checks bytes against those that were sent.
pub(super) fn check_bytes(connection: usize, side: Side, position: usize, bytes: &[u8]) {
    let mut position = position;
    for part in bytes.chunks(MAX_MESSAGE * LONG) {
        let sent = bytes_at(connection, side, position, part.len());
        assert!(
            part == sent,
            "connection {connection} has wrong bytes after {position}"
        );
        position += part.len();
    }
}

/// A stream, as the handler sees it.
pub(super) struct Stream {
    pub(super) number: usize,
    pub(super) received: usize,
    pub(super) sent: usize,
    pub(super) accepted: bool,
    opened: bool,
    pub(super) ended: bool,
    pub(super) paused: bool,
    /// `send` has returned false, and `writable` was not called since.
    pub(super) full: bool,
    shut: bool,
    aborted: bool,
    /// Nothing had failed before it was aborted.
    aborted_open: bool,
    closed_at: Option<Instant>,
    active: Instant,
}

/// What became of a connection.
pub(super) struct Outcome {
    pub(super) sent: usize,
    /// It was closed in order, so all that was sent has to arrive unless something was reset.
    pub(super) clean: bool,
}

/// What a program has done.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) stats: Stats,
    pub(super) opened: u64,
    pub(super) read_by_peers: u64,
    /// Waits that nothing would have ended.
    pub(super) asleep: u64,
    /// Streams that have left the pool because of long messages.
    pub(super) long: u64,
    /// Connects that found no slot.
    pub(super) no_slots: u64,
}

pub(super) struct App {
    pub(super) kernel: Rc<RefCell<Kernel>>,
    pub(super) random: Random,
    /// The lengths of messages and bounds are so many times as large.
    pub(super) scale: usize,
    has_pool: bool,
    pub(super) live: BTreeMap<SocketId, Stream>,
    pub(super) outcomes: BTreeMap<usize, Outcome>,
    old: Vec<SocketId>,
    /// The program is coming to its end: nothing new is begun.
    pub(super) ending: bool,
    pub(super) done: Done,
}

fn now() -> Instant {
    simulated::now().expect("the clock is simulated")
}

impl App {
    pub(super) fn new(kernel: Rc<RefCell<Kernel>>, random: Random, scale: usize) -> Self {
        let has_pool = kernel.borrow().settings.has_pool;
        App {
            has_pool,
            kernel,
            random,
            scale,
            live: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            old: Vec::new(),
            ending: false,
            done: Done::default(),
        }
    }

    fn begin(&mut self, id: SocketId, number: usize, opened: bool) {
        let stream = Stream {
            number,
            received: 0,
            sent: 0,
            accepted: opened,
            opened,
            ended: false,
            paused: false,
            full: false,
            shut: false,
            aborted: false,
            aborted_open: false,
            closed_at: None,
            active: now(),
        };
        assert!(self.live.insert(id, stream).is_none(), "{id:?} is opened twice");
    }

    pub(super) fn connect(&mut self, cx: &mut Context<'_>) {
        let Some((fd, number)) = self.kernel.borrow_mut().new_socket() else {
            return;
        };
        let to: SocketAddr = ([127, 0, 0, 1], 1).into();
        match listen::add_connecting(cx.state(), fd, to.into()) {
            Some(id) => self.begin(id, number, false),
            None => {
                self.done.no_slots += 1;
                Sim::new(Rc::clone(&self.kernel)).close(fd);
            }
        }
    }

    fn stream(&mut self, id: SocketId) -> &mut Stream {
        self.live.get_mut(&id).expect("the stream is open")
    }

    /// Sends as much as a program that keeps to its bound may.
    pub(super) fn send(&mut self, cx: &mut Context<'_>, id: SocketId) {
        let len = 1 + self.random.below(MAX_MESSAGE * self.scale);
        let stream = self.live.get_mut(&id).expect("the stream is open");
        let can = cx.is_open(id) && !stream.shut;
        if stream.full && can {
            return;
        }
        let nothing_waits = cx.unsent(id) == 0;
        let has_room = cx.send(id, bytes_at(stream.number, Side::Here, stream.sent, len));
        if !can {
            assert!(!has_room, "{id:?} takes bytes though it is not open");
            return;
        }
        stream.sent += len;
        if nothing_waits {
            stream.active = now();
        }
        stream.full = !has_room;
    }

    fn close(&mut self, cx: &mut Context<'_>, id: SocketId) {
        cx.close(id);
        self.stream(id).closed_at.get_or_insert(now());
    }

    fn abort(&mut self, cx: &mut Context<'_>, id: SocketId) {
        let was_open = cx.is_open(id);
        cx.abort(id);
        self.stream(id).aborted = true;
        self.stream(id).aborted_open |= was_open;
        assert!(!cx.is_open(id));
    }

    /// Does something with a stream.
    pub(super) fn act(&mut self, cx: &mut Context<'_>, id: SocketId) {
        match self.random.below(24) {
            0..=11 => self.send(cx, id),
            12 | 13 => {
                cx.pause(id);
                self.stream(id).paused = true;
            }
            14..=16 => {
                cx.resume(id);
                self.stream(id).paused = false;
            }
            17 => {
                if cx.is_open(id) {
                    self.stream(id).shut = true;
                }
                cx.shutdown(id);
            }
            18 | 19 => self.close(cx, id),
            20 => self.abort(cx, id),
            21 => self.misuse(cx),
            // A handler that takes long. A turn has one time for all idle streams.
            22 if cx.limits().idle.is_none() => simulated::advance(Duration::from_millis(2)),
            _ => {}
        }
    }

    /// Uses the id of a stream that was closed.
    fn misuse(&mut self, cx: &mut Context<'_>) {
        if self.old.is_empty() {
            return;
        }
        let id = self.old[self.random.below(self.old.len())];
        assert!(!cx.send(id, b"for nobody") && !cx.is_open(id) && cx.unsent(id) == 0);
        cx.close(id);
        cx.abort(id);
        cx.shutdown(id);
        cx.resume(id);
    }

    fn act_in_callback(&mut self, cx: &mut Context<'_>, id: SocketId) {
        if !self.ending && self.random.chance(400) {
            self.act(cx, id);
        }
    }

    /// Lets all streams come to their end.
    pub(super) fn let_go(&mut self, cx: &mut Context<'_>, close: bool) {
        self.ending = true;
        let ids: Vec<SocketId> = self.live.keys().copied().collect();
        for id in ids {
            cx.resume(id);
            self.stream(id).paused = false;
            if close || self.stream(id).ended {
                self.close(cx, id);
            }
        }
    }
}

impl Handler for App {
    fn opened(&mut self, cx: &mut Context<'_>, id: SocketId) {
        match self.live.get_mut(&id) {
            Some(stream) => assert!(
                !std::mem::replace(&mut stream.opened, true),
                "{id:?} is opened twice"
            ),
            None => {
                let fd = cx.state().table.get(id).expect("it was opened").fd;
                let number = self.kernel.borrow().number(fd);
                self.begin(id, number, true);
            }
        }
        self.stream(id).active = now();
        self.done.opened += 1;
        self.act_in_callback(cx, id);
    }

    fn received(&mut self, cx: &mut Context<'_>, id: SocketId, bytes: &[u8]) {
        assert!(!bytes.is_empty());
        let has_pool = self.has_pool;
        let stream = self.stream(id);
        assert!(stream.opened && !stream.ended && stream.closed_at.is_none() && !stream.aborted);
        // A pool's buffer may have been filled before.
        let wanted = has_pool || !(stream.paused || stream.full);
        assert!(wanted, "{id:?} was read though it is paused or full");
        check_bytes(stream.number, Side::Peer, stream.received, bytes);
        let is_long = cx
            .state()
            .table
            .get(id)
            .is_some_and(|slot| slot.reading.way == Way::Ready);
        self.done.long += u64::from(is_long && self.has_pool);
        let stream = self.stream(id);
        stream.received += bytes.len();
        stream.active = now();
        self.act_in_callback(cx, id);
    }

    fn ended(&mut self, cx: &mut Context<'_>, id: SocketId) {
        let stream = self.stream(id);
        assert!(!std::mem::replace(&mut stream.ended, true), "{id:?} ends twice");
        let (number, received) = (stream.number, stream.received);
        {
            let kernel = self.kernel.borrow();
            let connection = &kernel.connections[number];
            assert!(connection.peer_ended || connection.reset, "{id:?} has no end");
            assert_eq!(received, connection.peer_sent, "bytes of {id:?} are missing");
        }
        if self.ending || self.random.chance(600) {
            self.close(cx, id);
        } else {
            self.act_in_callback(cx, id);
        }
    }

    fn writable(&mut self, cx: &mut Context<'_>, id: SocketId) {
        assert!(
            std::mem::replace(&mut self.stream(id).full, false),
            "{id:?} was writable"
        );
        assert!(cx.unsent(id) <= cx.limits().socket_bytes / 2);
        self.act_in_callback(cx, id);
    }

    fn closed(&mut self, cx: &mut Context<'_>, id: SocketId, error: Option<&io::Error>) {
        let stream = self.live.remove(&id).expect("a stream is closed once");
        assert!(
            error.is_none() || !stream.aborted_open,
            "{id:?} was closed here: {error:?}"
        );
        assert!(!cx.is_open(id));
        self.old.push(id);
        if self.old.len() > OLD_IDS {
            self.old.remove(0);
        }
        let kernel = self.kernel.borrow();
        let connection = &kernel.connections[stream.number];
        assert!(connection.released);
        assert!(connection.shut, "{id:?} is closed without a shutdown");
        assert!(connection.closed, "told before the descriptor is closed");
        let limits = cx.limits();
        match error.map(|error| error.raw_os_error().expect("a number")) {
            None => {
                let closed_at = stream.closed_at.filter(|_| !stream.aborted);
                assert!(
                    closed_at.is_some() || stream.aborted,
                    "{id:?} was not closed here"
                );
                // A turn has one time, and its handlers may have taken some since.
                let waited = closed_at.is_none_or(|at| now() - at + SLOW_TURN >= limits.linger);
                let may = !stream.opened || connection.peer_gone || waited;
                assert!(!connection.cut || may, "{id:?} is cut off: {connection:?}");
            }
            Some(libc::ECONNREFUSED) => assert!(!stream.opened),
            Some(libc::ECONNRESET | libc::EPIPE) => assert!(connection.reset, "{id:?}: {error:?}"),
            Some(libc::ETIMEDOUT) => {
                let idle = limits.idle.expect("there is a bound");
                // The core counts whole milliseconds.
                let idle = idle - Duration::from_millis(1);
                assert!(
                    now() - stream.active >= idle,
                    "{id:?} was not idle: {:?}",
                    now() - stream.active
                );
            }
            Some(errno) => panic!("{id:?} is closed with {errno}"),
        }
        let clean = error.is_none() && !stream.aborted;
        let outcome = Outcome {
            sent: stream.sent,
            clean,
        };
        self.outcomes.insert(stream.number, outcome);
    }

    fn accept_failed(&mut self, _: &mut Context<'_>, _: SocketId, error: &io::Error) {
        assert_eq!(error.raw_os_error(), Some(libc::EMFILE));
    }
}
