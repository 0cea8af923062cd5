//! What a worker's thread does: turns of its rings, and what is asked of it.

use crate::balance::Balance;
use crate::context::Context;
use crate::handler::Handler;
use crate::latency::Latency;
use crate::listen::Bound;
use crate::serve::Service;
use crate::sockets::Sockets;
use crate::table::SocketId;
use crate::worker::{AcceptFailed, Asked, Snapshot, DRAIN, MAIL, SNAPSHOT, STOP};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// How long a worker that ends now waits for its connections to close.
const CLOSING: Duration = Duration::from_millis(200);

/// The sockets of one ring, and their service.
pub(crate) struct Ring<S> {
    sockets: Sockets,
    watched: Watched<S>,
    latency: Latency,
    requests: u64,
}

/// The service, with what the group wants to know of it.
struct Watched<S> {
    service: S,
    accept_failed: AcceptFailed,
    balance: Balance,
    /// The connection that opens was handed over, and is counted already.
    is_handed: bool,
}

impl<S: Service> Handler for Watched<S> {
    fn opened(&mut self, cx: &mut Context<'_>, id: SocketId) {
        if self.is_handed || !self.balance.hand_over(|| cx.detach(id)) {
            self.service.opened(cx, id);
        }
    }

    #[inline]
    fn received(&mut self, cx: &mut Context<'_>, id: SocketId, bytes: &[u8]) {
        self.service.received(cx, id, bytes);
    }

    fn ended(&mut self, cx: &mut Context<'_>, id: SocketId) {
        self.service.ended(cx, id);
    }

    fn writable(&mut self, cx: &mut Context<'_>, id: SocketId) {
        self.service.writable(cx, id);
    }

    fn closed(&mut self, cx: &mut Context<'_>, id: SocketId, error: Option<&io::Error>) {
        self.balance.ended();
        self.service.closed(cx, id, error);
    }

    fn accept_failed(&mut self, cx: &mut Context<'_>, listener: SocketId, error: &io::Error) {
        (self.accept_failed)(error);
        self.service.accept_failed(cx, listener, error);
    }
}

impl<S: Service> Ring<S> {
    pub(crate) fn new(
        mut sockets: Sockets,
        service: S,
        accept_failed: AcceptFailed,
        balance: Balance,
        listeners: Vec<Bound>,
    ) -> io::Result<Self> {
        for bound in listeners {
            sockets.adopt(bound)?;
        }
        Ok(Ring {
            sockets,
            watched: Watched {
                service,
                accept_failed,
                balance,
                is_handed: false,
            },
            latency: Latency::default(),
            requests: 0,
        })
    }

    #[inline]
    fn turn(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.sockets.turn(&mut self.watched, timeout)?;
        let requests = self.watched.service.requests(&self.sockets.stats());
        if requests > self.requests {
            self.latency
                .record(self.sockets.last_turn(), requests - self.requests);
            self.requests = requests;
        }
        Ok(())
    }

    /// Takes over the connections that other rings have handed to this one.
    fn take_mail(&mut self, last: bool) {
        let connections = self.watched.balance.take(last);
        self.watched.is_handed = true;
        for connection in connections {
            self.sockets.adopt_stream(connection, &mut self.watched);
        }
        self.watched.is_handed = false;
    }

    fn connections(&mut self) -> usize {
        self.sockets.with(|cx| cx.connections())
    }

    fn add_to(&mut self, snapshot: &mut Snapshot) {
        snapshot.stats += self.sockets.stats();
        snapshot.connections += self.connections();
        snapshot.requests += self.requests;
        snapshot.calls += self.sockets.calls();
        snapshot.latency.add(&self.latency);
    }
}

/// Serves until the end.
pub(crate) fn serve<S: Service>(rings: &mut [Ring<S>], spin: Duration, asked: &Asked) -> io::Result<()> {
    let result = serve_on(rings, spin, asked);
    answer(rings, asked);
    result
}

fn serve_on<S: Service>(rings: &mut [Ring<S>], spin: Duration, asked: &Asked) -> io::Result<()> {
    let mut is_draining = false;
    loop {
        match &mut *rings {
            [ring] => ring.turn(None)?,
            rings => turn_all(rings, spin, asked)?,
        }
        asked.count_turn();
        let word = asked.word();
        if word == 0 {
            continue;
        }
        if word & MAIL != 0 {
            asked.clear(MAIL);
            rings.iter_mut().for_each(|ring| ring.take_mail(false));
        }
        if word & SNAPSHOT != 0 {
            asked.clear(SNAPSHOT);
            answer(rings, asked);
        }
        if word & STOP != 0 {
            return rings.iter_mut().try_for_each(close);
        }
        if word & DRAIN != 0 {
            if !std::mem::replace(&mut is_draining, true) {
                rings.iter_mut().try_for_each(drain)?;
            }
            if rings.iter_mut().all(|ring| ring.connections() == 0) {
                return Ok(());
            }
        }
    }
}

fn answer<S: Service>(rings: &mut [Ring<S>], asked: &Asked) {
    let mut snapshot = Snapshot::default();
    rings.iter_mut().for_each(|ring| ring.add_to(&mut snapshot));
    asked.answer(snapshot);
}

/// Turns of several rings, of which none may wait by itself: until there were events, or something is asked.
fn turn_all<S: Service>(rings: &mut [Ring<S>], spin: Duration, asked: &Asked) -> io::Result<()> {
    let began = Instant::now();
    loop {
        let mut found = false;
        for ring in rings.iter_mut() {
            let before = ring.sockets.stats().events;
            ring.turn(Some(Duration::ZERO))?;
            found |= ring.sockets.stats().events != before;
        }
        if found || asked.word() != 0 {
            return Ok(());
        }
        if began.elapsed() >= spin {
            return sleep(rings);
        }
        std::hint::spin_loop();
    }
}

/// Waits until one of the rings has events, or something is due.
fn sleep<S>(rings: &mut [Ring<S>]) -> io::Result<()> {
    let due = rings.iter().filter_map(|ring| ring.sockets.next_timer()).min();
    let timeout = due.map(|due| Timespec {
        tv_sec: due.as_secs() as i64,
        tv_nsec: i64::from(due.subsec_nanos()),
    });
    let descriptors = rings.iter_mut().map(|ring| ring.sockets.own_descriptor());
    // allocates: an entry for each ring
    let descriptors = descriptors.collect::<io::Result<Vec<_>>>()?;
    let polled = |fd| {
        // SAFETY: the ring owns its descriptor and lives longer than the poll.
        PollFd::from_borrowed_fd(unsafe { BorrowedFd::borrow_raw(fd) }, PollFlags::IN)
    };
    // allocates: an entry for each ring
    let mut polled: Vec<PollFd<'_>> = descriptors.into_iter().map(polled).collect();
    match poll(&mut polled, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Accepts no more. Connections that have come before are served.
fn drain<S: Service>(ring: &mut Ring<S>) -> io::Result<()> {
    ring.turn(Some(Duration::ZERO))?;
    ring.take_mail(true);
    ring.sockets.with(|cx| {
        for id in cx.listeners() {
            cx.close(id);
        }
    });
    Ok(())
}

/// Closes everything, within a bounded time.
fn close<S: Service>(ring: &mut Ring<S>) -> io::Result<()> {
    let deadline = Instant::now() + CLOSING;
    ring.take_mail(true);
    ring.sockets.with(|cx| {
        for id in cx.ids() {
            cx.close(id);
        }
    });
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || ring.sockets.with(|cx| cx.ids().is_empty()) {
            return Ok(());
        }
        ring.turn(Some(left))?;
    }
}
