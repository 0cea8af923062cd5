//! One thread's sockets on one backend: turns, and what has to be in the backend after each.
//!
//! Handlers and events change a socket's state and list it; [`Core::settle`] then compares what is in the backend with what the
//! state calls for, and pushes what is missing. It is the only place that pushes entries.

use crate::backend::{Backend, Calls, Ending};
use crate::clock::Clock;
use crate::context::Context;
use crate::datagram::Outbox;
use crate::handler::Handler;
use crate::limits::Limits;
use crate::recv::Way;
use crate::send::{self, Decision, Spares};
use crate::stats::Stats;
use crate::table::{Fin, Kind, Phase, Slot, SocketId, Table, Tag, What};
use proactor_engine::ring::Event;
use rustix::net::{Shutdown, SocketAddrAny};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::time::Duration;

/// How long accepting stops after descriptors have run out, unless a socket is closed before.
const HOLD_MS: u64 = 100;

/// Why no connection is accepted for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    No,
    /// Descriptors or memory had run out; tried again at this time, or when a socket was closed.
    Until(u64),
    /// The unsent bytes of all sockets exceed their bound.
    Memory,
}

/// What handlers may change, by way of a [`Context`].
pub(crate) struct State {
    pub(crate) table: Table,
    /// Sockets to be settled.
    todo: Vec<SocketId>,
    pub(crate) spares: Spares,
    /// How this turn's sends go.
    pub(crate) way: send::Way,
    pub(crate) limits: Limits,
    /// Unsent bytes of all sockets.
    pub(crate) buffered: usize,
    pub(crate) stats: Stats,
    pub(crate) clock: Clock,
    pub(crate) listeners: Vec<SocketId>,
    pub(crate) hold: Hold,
    /// The last accept has failed for want of something, and the handler was told.
    hold_told: bool,
    /// Streams that wait for their peer's end, and until when; in order.
    pub(crate) lingering: VecDeque<(u64, SocketId)>,
    /// When to look for idle streams.
    pub(crate) next_sweep_ms: u64,
    /// Connects that were asked for.
    pub(crate) connects: Vec<(SocketId, SocketAddrAny)>,
    pub(crate) no_delay: bool,
    /// Sends of so many bytes are not copied, where that can be.
    pub(crate) zero_copy_above: usize,
    /// Sockets to be settled in the next turn.
    pub(crate) later: Vec<SocketId>,
    /// What datagram sockets have to send.
    pub(crate) outboxes: HashMap<SocketId, Outbox>,
}

impl State {
    pub(crate) fn new(limits: Limits, no_delay: bool) -> Self {
        State {
            table: Table::default(),
            todo: Vec::new(),
            spares: Spares::default(),
            way: send::Way::Direct,
            limits,
            buffered: 0,
            stats: Stats::default(),
            clock: Clock::new(),
            listeners: Vec::new(),
            hold: Hold::No,
            hold_told: false,
            lingering: VecDeque::new(),
            next_sweep_ms: 0,
            connects: Vec::new(),
            no_delay,
            zero_copy_above: usize::MAX,
            later: Vec::new(),
            outboxes: HashMap::new(),
        }
    }

    /// Puts a socket on the list of those to be settled.
    #[inline]
    pub(crate) fn list(&mut self, id: SocketId) {
        if let Some(slot) = self.table.get_mut(id) {
            if !std::mem::replace(&mut slot.listed, true) {
                self.todo.push(id);
            }
        }
    }

    #[inline]
    pub(crate) fn is_open(&self, id: SocketId) -> bool {
        self.table.get(id).is_some_and(|slot| slot.phase == Phase::Open)
    }

    /// Stops accepting for want of descriptors or memory. True: the handler has not been told since a connection was accepted.
    pub(crate) fn hold_accepts(&mut self) -> bool {
        if self.hold == Hold::No {
            self.stats.holds += 1;
        }
        self.hold = Hold::Until(self.clock.now_ms + HOLD_MS);
        // Other listeners would meet the same.
        self.list_listeners();
        !std::mem::replace(&mut self.hold_told, true)
    }

    /// Stops accepting if the unsent bytes exceed their bound.
    pub(crate) fn check_memory(&mut self) {
        if self.buffered > self.limits.total_bytes && self.hold == Hold::No {
            self.hold = Hold::Memory;
            self.stats.holds += 1;
            self.list_listeners();
        }
    }

    /// Accepts again if what was missing may be there.
    pub(crate) fn check_hold(&mut self, closed: bool) {
        let over = match self.hold {
            Hold::No => false,
            Hold::Until(when) => closed || self.clock.now_ms >= when,
            Hold::Memory => self.limits.is_relieved(self.buffered),
        };
        if over {
            self.hold = Hold::No;
            self.list_listeners();
            // The bound may have been exceeded while something else was missing.
            self.check_memory();
        }
    }

    pub(crate) fn accepted_one(&mut self) {
        self.hold_told = false;
    }

    /// Looks at the listeners again if the number of streams is bounded, for it has changed.
    pub(crate) fn count_changed(&mut self) {
        if self.limits.max_connections != usize::MAX {
            self.list_listeners();
        }
    }

    pub(crate) fn list_listeners(&mut self) {
        for at in 0..self.listeners.len() {
            self.list(self.listeners[at]);
        }
    }
}

impl Slot {
    /// Whether bytes are to be received: for the handler, or to be thrown away before the stream is closed.
    pub(crate) fn wants_bytes(&self) -> bool {
        !self.peer_ended
            && match self.phase {
                Phase::Open => !self.reading.paused && !self.queue.is_full,
                Phase::Flushing | Phase::Lingering => true,
                Phase::Connecting | Phase::Stopping => false,
            }
    }
}

pub(crate) struct Core<B: Backend> {
    pub(crate) backend: B,
    pub(crate) calls: B::Calls,
    pub(crate) state: State,
    decision: Decision,
    /// The last turn without its wait.
    pub(crate) took: Duration,
    answers_later: bool,
    events: Vec<Event>,
    pub(crate) hot: Box<[u8]>,
}

impl<B: Backend> Core<B> {
    pub(crate) fn new(backend: B, calls: B::Calls, state: State, decision: Decision) -> Self {
        Core {
            backend,
            calls,
            state,
            decision,
            took: Duration::ZERO,
            answers_later: false,
            events: Vec::new(),
            hot: Box::default(),
        }
    }

    /// See [`Config::answers_later`](crate::Config::answers_later).
    pub(crate) fn answering_later(mut self, later: bool) -> Self {
        self.answers_later = later;
        self
    }

    /// Waits for events, at most for `timeout`, and does what follows from them.
    pub(crate) fn turn<H: Handler>(&mut self, handler: &mut H, timeout: Option<Duration>) -> io::Result<()> {
        self.settle_all(handler)?;
        let timeout = if handler.has_other_work() {
            Some(Duration::ZERO)
        } else {
            self.state.shorten(timeout)
        };
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        let waited = self.backend.wait(timeout, &mut events);
        self.state.clock.begin_turn();
        self.state.stats.turns += 1;
        self.state.stats.events += events.len() as u64;
        self.state.way = if self.backend.has_pool() {
            self.decision.way(events.len())
        } else {
            send::Way::Direct
        };
        for event in &events {
            self.dispatch(event, handler);
        }
        self.events = events;
        self.state.expire();
        let settled = self.settle_all(handler);
        self.took = self.state.clock.turn();
        self.decision.turn_took(self.took);
        if !self.answers_later {
            // What is done between turns has no batch.
            self.state.way = send::Way::Direct;
        }
        waited.and(settled)
    }

    /// Whether the next turn has something to do without waiting.
    pub(crate) fn has_work(&self) -> bool {
        let state = &self.state;
        !state.todo.is_empty() || !state.connects.is_empty() || self.backend.has_work()
    }

    fn settle_all<H: Handler>(&mut self, handler: &mut H) -> io::Result<()> {
        match self.start_connects().and_then(|()| self.settle_listed(handler)) {
            // The kernel takes nothing before its completions are read: go on in the next turn.
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(()),
            result => result,
        }
    }

    fn settle_listed<H: Handler>(&mut self, handler: &mut H) -> io::Result<()> {
        while !self.state.todo.is_empty() {
            let todo = std::mem::take(&mut self.state.todo);
            for (at, &id) in todo.iter().enumerate() {
                if let Err(e) = self.settle(id, handler) {
                    // allocates: eight bytes a socket
                    self.state.todo.splice(0..0, todo[at..].iter().copied());
                    return Err(e);
                }
            }
            if self.state.todo.is_empty() {
                self.state.todo = todo;
                self.state.todo.clear();
            }
        }
        Ok(())
    }

    fn start_connects(&mut self) -> io::Result<()> {
        let connects = std::mem::take(&mut self.state.connects);
        for (at, (id, address)) in connects.iter().enumerate() {
            if let Err(e) = self.start_connect(*id, address.clone()) {
                // allocates: an entry for each connection that is being made
                self.state.connects = connects[at..].to_vec();
                return Err(e);
            }
        }
        Ok(())
    }

    fn start_connect(&mut self, id: SocketId, address: SocketAddrAny) -> io::Result<()> {
        let Some(slot) = self
            .state
            .table
            .get_mut(id)
            .filter(|slot| slot.phase == Phase::Connecting)
        else {
            return Ok(());
        };
        self.backend
            .connect(slot.fd, address, Tag::new(id, What::Connect))?;
        slot.entries += 1;
        Ok(())
    }

    /// Pushes what a socket's state calls for and the backend does not have. A socket is off the list once that is done.
    #[inline]
    fn settle<H: Handler>(&mut self, id: SocketId, handler: &mut H) -> io::Result<()> {
        let Some(slot) = self.state.table.get_mut(id) else {
            return Ok(());
        };
        match slot.kind {
            Kind::Listener => return self.settle_listener(id),
            Kind::Datagram => return self.settle_datagram(id, handler),
            Kind::Stream | Kind::Free => {}
        }
        // An open stream that is not to be shut down is the way of almost all.
        let is_ending = slot.phase != Phase::Open || slot.fin == Fin::Wanted;
        if is_ending && !self.settle_end(id, handler)? {
            return Ok(());
        }
        self.settle_entries(id)
    }

    /// The send and the receive of a stream that is not stopping.
    #[inline]
    fn settle_entries(&mut self, id: SocketId) -> io::Result<()> {
        let state = &mut self.state;
        let Some(slot) = state.table.get_mut(id) else {
            return Ok(());
        };
        if slot.phase == Phase::Connecting {
            slot.listed = false;
            return Ok(());
        }
        if let Some((start, len)) = slot.queue.start() {
            let zero_copy = slot.zero_copy && len >= state.zero_copy_above;
            let tag = Tag::new(id, What::Send);
            // SAFETY: the queue keeps the memory as it is until `finish`, which follows the last event; the sockets are dropped only
            // after the backend is drained.
            let pushed = unsafe { self.backend.send(slot.fd, start, len, zero_copy, tag) };
            if let Err(e) = pushed {
                slot.queue.revoke();
                return Err(e);
            }
            slot.entries += 1;
            state.stats.queued_sends += 1;
            state.stats.zero_copy_sends += u64::from(zero_copy);
        }
        let wanted = slot.wants_bytes();
        match slot.reading.armed {
            None if wanted => {
                let way = slot.reading.way;
                let what = if way == Way::Pool { What::Recv } else { What::Poll };
                self.backend.recv(slot.fd, way, Tag::new(id, what))?;
                slot.reading.armed = Some(way);
                slot.entries += 1;
                state.stats.armed += 1;
            }
            Some(armed) if (!wanted || armed != slot.reading.way) && !slot.stopping => {
                let what = if armed == Way::Pool {
                    What::Recv
                } else {
                    What::Poll
                };
                let ending = Ending::One(Tag::new(id, what));
                self.backend.stop(slot.fd, ending, Tag::new(id, What::Stop))?;
                slot.stopping = true;
                slot.entries += 1;
            }
            _ => {}
        }
        slot.listed = false;
        Ok(())
    }

    /// What a stream needs that is being closed or shut down. False: there is nothing else to do for it.
    fn settle_end<H: Handler>(&mut self, id: SocketId, handler: &mut H) -> io::Result<bool> {
        let Some(slot) = self.state.table.get_mut(id) else {
            return Ok(false);
        };
        let sent = slot.queue.is_empty() && !slot.queue.is_in_flight();
        if slot.fin == Fin::Wanted && sent {
            self.calls.shutdown(slot.fd, Shutdown::Write);
            slot.fin = Fin::Sent;
        }
        if slot.phase == Phase::Flushing && sent {
            if slot.fin != Fin::Sent {
                self.calls.shutdown(slot.fd, Shutdown::Write);
                slot.fin = Fin::Sent;
            }
            if slot.peer_ended || self.state.limits.linger.is_zero() {
                slot.phase = Phase::Stopping;
            } else {
                slot.phase = Phase::Lingering;
                self.state.linger(id);
            }
        }
        let slot = self.state.table.get_mut(id).expect("found above");
        if slot.phase != Phase::Stopping {
            return Ok(true);
        }
        if slot.entries == 0 {
            self.finish(id, handler);
        } else {
            self.stop_all(id)?;
        }
        Ok(false)
    }

    /// Ends all entries of a socket that is stopping.
    pub(crate) fn stop_all(&mut self, id: SocketId) -> io::Result<()> {
        let Some(slot) = self.state.table.get_mut(id) else {
            return Ok(());
        };
        if slot.notifies && slot.entries == 1 {
            // Nothing can end this but the network, or the end of the connection.
            if !std::mem::replace(&mut slot.purged, true) {
                self.calls.disconnect(slot.fd);
            }
            slot.listed = false;
            return Ok(());
        }
        if !slot.stopping {
            let mut tags = [Tag(0); 5];
            let pooled = match slot.kind {
                Kind::Datagram => What::Message,
                _ => What::Recv,
            };
            let in_flight = [
                (slot.accepting, What::Accept),
                (slot.awaits_room, What::Room),
                (slot.reading.armed == Some(Way::Pool), pooled),
                (slot.reading.armed == Some(Way::Ready), What::Poll),
                (slot.queue.is_in_flight(), What::Send),
            ];
            let mut count = 0;
            for (_, what) in in_flight.into_iter().filter(|(is, _)| *is) {
                tags[count] = Tag::new(id, what);
                count += 1;
            }
            if count == 0 {
                // A connect is all that it can be.
                tags[0] = Tag::new(id, What::Connect);
                count = 1;
            }
            self.backend
                .stop(slot.fd, Ending::All(&tags[..count]), Tag::new(id, What::Stop))?;
            // After the entries were asked to end: closing alone ends none of them, and a shutdown ends what the cancellation
            // has missed.
            match slot.kind {
                // A shutdown would send an end before the reset.
                Kind::Stream if slot.resets => self.calls.disconnect(slot.fd),
                Kind::Stream => {
                    self.calls.shutdown(slot.fd, Shutdown::Both);
                    slot.fin = Fin::Sent;
                }
                Kind::Listener | Kind::Datagram | Kind::Free => {}
            }
            slot.stopping = true;
            slot.entries += 1;
        }
        slot.listed = false;
        Ok(())
    }

    fn settle_listener(&mut self, id: SocketId) -> io::Result<()> {
        let free = self.state.limits.max_connections > self.state.table.streams();
        let wanted = self.state.hold == Hold::No && free;
        // With a bound, one at a time: the kernel would accept more than there is room for.
        let bounded = self.state.limits.max_connections != usize::MAX;
        let Some(slot) = self.state.table.get_mut(id) else {
            return Ok(());
        };
        if slot.phase == Phase::Stopping {
            if slot.entries > 0 {
                return self.stop_all(id);
            }
            self.backend.release(slot.fd);
            self.calls.close(slot.fd);
            self.state.table.remove(id);
            self.state.listeners.retain(|&other| other != id);
            return Ok(());
        }
        if wanted && !slot.accepting {
            let once = bounded || slot.reading.way == Way::Ready;
            self.backend.accept(slot.fd, once, Tag::new(id, What::Accept))?;
            slot.accepting = true;
            slot.entries += 1;
            self.state.stats.armed += 1;
        } else if !wanted && slot.accepting && !slot.stopping {
            let ending = Ending::One(Tag::new(id, What::Accept));
            self.backend.stop(slot.fd, ending, Tag::new(id, What::Stop))?;
            slot.stopping = true;
            slot.entries += 1;
        }
        if let Some(slot) = self.state.table.get_mut(id) {
            slot.listed = false;
        }
        Ok(())
    }

    /// Calls `with` with what a handler would get.
    pub(crate) fn with_context<R>(&mut self, with: impl FnOnce(&mut Context<'_>) -> R) -> R {
        // The last turn may have been long ago.
        self.state.clock.now_ms = self.state.clock.read_ms();
        with(&mut Context::new(&mut self.state, &mut self.calls))
    }
}
