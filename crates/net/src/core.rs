//! One thread's sockets on one backend: turns, and what has to be in the backend after each.
//!
//! Handlers and events change a socket's state and list it; `settle.rs` then compares what is in the backend with what the
//! state calls for, and pushes what is missing.

use crate::backend::Backend;
use crate::clock::Clock;
use crate::context::Context;
use crate::datagram::Outbox;
use crate::event;
use crate::handler::Handler;
use crate::limits::Limits;
use crate::send::{self, Decision, Spares};
use crate::stats::Stats;
use crate::table::{Phase, SocketId, Table};
use proactor_engine::ring::Event;
use rustix::net::SocketAddrAny;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::time::Duration;

/// SendKind long accepting stops after descriptors have run out, unless a socket is closed before.
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
    pub(crate) todo: Vec<SocketId>,
    pub(crate) spares: Spares,
    /// SendKind this turn's sends go.
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

    /// Has a stream's bytes sent at the end of the turn. False: it has more of them than it may, or it is gone.
    #[inline]
    pub(crate) fn enqueue(&mut self, id: SocketId, bytes: &[u8]) -> bool {
        let Some(slot) = self.table.get_mut(id) else {
            return false;
        };
        if bytes.is_empty() {
            return true;
        }
        if slot.queue.is_empty() {
            slot.active_ms = self.clock.now_ms;
        }
        if slot.queue.push(bytes, &mut self.spares).is_err() {
            self.fail(id, libc::ENOMEM);
            return false;
        }
        self.buffered += bytes.len();
        slot.queue.is_full |= slot.queue.len() > self.limits.socket_bytes;
        let has_room = !slot.queue.is_full;
        if !std::mem::replace(&mut slot.listed, true) {
            self.todo.push(id);
        }
        if self.buffered > self.limits.total_bytes {
            self.check_memory();
        }
        has_room
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

pub(crate) struct Core<B: Backend> {
    pub(crate) backend: B,
    pub(crate) calls: B::Calls,
    pub(crate) state: State,
    decision: Decision,
    /// The last turn without its wait.
    pub(crate) took: Duration,
    answers_later: bool,
    /// The next wait is short: something waits for the end of a send of which no event tells.
    pub(crate) hurries: bool,
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
            hurries: false,
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
        let timeout = if std::mem::take(&mut self.hurries) || handler.has_other_work() {
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
        let (state, calls) = (&mut self.state, &mut self.calls);
        self.backend
            .each_sent(|id| event::on_sent(state, calls, id, handler));
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

    /// Calls `with` with what a handler would get.
    pub(crate) fn with_context<R>(&mut self, with: impl FnOnce(&mut Context<'_>) -> R) -> R {
        // The last turn may have been long ago.
        self.state.clock.now_ms = self.state.clock.read_ms();
        with(&mut Context::new(&mut self.state, &mut self.calls))
    }
}
