//! A seeded program of peers, handlers and time on the simulated kernel.

use super::app::{bytes_at, check_bytes, App, Done, Side, LONG, MAX_MESSAGE};
use super::kinds::{faults, limits, End};
use crate::backend::sim::{Faults, Kernel, Random, Settings, Sim};
use crate::backend::Calls;
use crate::clock::simulated;
use crate::config::SendPolicy;
use crate::core::{Core, Hold, State};
use crate::listen;
use crate::send::Decision;
use crate::table::{Fin, Kind, Phase, Table};
use std::cell::RefCell;
use std::os::fd::{FromRawFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

/// Operations of one program, turns not counted.
const OPERATIONS: usize = 60;
const MAX_LISTENERS: usize = 3;
/// Turns in which everything has to come to its end.
const MAX_TURNS: usize = 3000;
/// Turns of the end in which faults still happen.
const FAULTY_TURNS: usize = 30;

pub(super) struct Program {
    core: Core<Sim>,
    kernel: Rc<RefCell<Kernel>>,
    app: App,
    /// Numbers of the connections whose peer takes part, with the bytes it has read.
    peers: Vec<(usize, usize)>,
    end: End,
    /// Connections come that were accepted elsewhere.
    adopts: bool,
}

impl Program {
    pub(super) fn new(seed: u64, has_pool: bool) -> Self {
        simulated::start();
        let mut random = Random::new(seed);
        let end = [End::Peers, End::Here, End::Idle, End::Dropped][random.below(4)];
        let scale = if random.chance(30) { LONG } else { 1 };
        let mut settings = Settings {
            faults: if random.chance(100) {
                Faults::default()
            } else {
                faults(&mut random)
            },
            has_pool,
            by_descriptor: random.chance(500),
            has_quiet_sends: false,
            max_fds: 4 + random.below(20),
            completions: 2 + random.below(30),
            socket_bytes: 300 * scale,
            buffers: 1 + random.below(4),
            max_buffers: 4 + random.below(16),
            buffer_bytes: if has_pool {
                (1 + random.below(100)) * scale
            } else {
                0
            },
        };
        let of_kernel = Random::new(random.next());
        let policy = [SendPolicy::Auto, SendPolicy::Direct, SendPolicy::Queued][random.below(3)];
        let limits = limits(&mut random, end, scale);
        let mut state = State::new(limits, true);
        // Of another generator, so that seeds from before it was there are the same programs.
        let mut later = Random::new(seed.rotate_left(32));
        if later.chance(500) {
            state.zero_copy_above = 1 + later.below(200 * scale);
        }
        if later.chance(300) {
            settings.faults.told_twice = later.below(500);
        }
        if later.chance(300) {
            state.table = Table::of_at_most(1 + later.below(6));
        }
        settings.has_quiet_sends = Random::new(seed.rotate_left(16)).chance(500);
        let adopts = later.chance(160) && state.limits.max_connections == usize::MAX;
        let kernel = Rc::new(RefCell::new(Kernel::new(of_kernel, settings)));
        let core = Core::new(
            Sim::new(Rc::clone(&kernel)),
            Sim::new(Rc::clone(&kernel)),
            state,
            Decision::new(policy),
        );
        let mut program = Program {
            core,
            app: App::new(Rc::clone(&kernel), random, scale),
            kernel,
            peers: Vec::new(),
            end,
            adopts,
        };
        program.listen();
        program
    }

    pub(super) fn run(mut self) -> Done {
        for _ in 0..OPERATIONS {
            self.operation();
            if self.app.random.chance(500) {
                self.turn();
            }
        }
        match self.end {
            End::Dropped => {}
            End::Idle => self.wait_for_idle(),
            End::Peers | End::Here => self.finish(),
        }
        let done = Done {
            stats: self.core.state.stats,
            ..self.app.done
        };
        let (kernel, end) = (Rc::clone(&self.kernel), self.end);
        drop(self);
        let open = kernel.borrow().open_fds();
        assert_eq!(open, 0, "descriptors are left open, {end:?}");
        simulated::stop();
        done
    }

    fn operation(&mut self) {
        match self.app.random.below(20) {
            0 | 1 if self.kernel.borrow().has_listener() => {
                let number = self.kernel.borrow_mut().peer_connects();
                self.peers.push((number, 0));
            }
            0 | 1 => self.listen(),
            2 if self.adopts && self.app.random.chance(500) => self.adopt(),
            2 => {
                let app = &mut self.app;
                self.core.with_context(|cx| app.connect(cx));
                self.find_peers();
            }
            3..=7 => self.peer_sends(),
            8..=11 => self.peer_reads(),
            12 => self.peer_ends(),
            13..=16 => self.act(),
            17 if self.app.random.chance(200) => match self.app.random.below(2) {
                0 => self.listen(),
                _ => self.close_listener(),
            },
            18 => simulated::advance(Duration::from_millis(self.app.random.next() % 60)),
            _ => self.turn(),
        }
    }

    fn listen(&mut self) {
        let has_room = self.core.state.listeners.len() < MAX_LISTENERS;
        let fd = has_room.then(|| self.kernel.borrow_mut().new_listener());
        if let Some(fd) = fd.flatten() {
            if listen::add_listener(&mut self.core.state, fd).is_none() {
                self.core.calls.close(fd);
            }
        }
    }

    fn adopt(&mut self) {
        let accepted = self.kernel.borrow_mut().new_socket();
        let Some((fd, number)) = accepted else { return };
        self.kernel.borrow_mut().connections[number].established = true;
        self.peers.push((number, 0));
        // SAFETY: the simulated number is taken out again before anything is done with it.
        let connection = unsafe { OwnedFd::from_raw_fd(fd) };
        self.core.adopt(connection, &mut self.app);
    }

    fn close_listener(&mut self) {
        let listeners = &self.core.state.listeners;
        let at = self.app.random.below(listeners.len().max(1));
        if let Some(&id) = listeners.get(at) {
            self.core.with_context(|cx| cx.close(id));
        }
    }

    /// Peers of connections that were made from here.
    fn find_peers(&mut self) {
        let known = self.peers.iter().map(|(number, _)| number + 1).max().unwrap_or(0);
        let count = self.kernel.borrow().connections.len();
        self.peers.extend((known..count).map(|number| (number, 0)));
    }

    fn peer(&mut self) -> Option<usize> {
        let at = self.app.random.below(self.peers.len().max(1));
        let number = self.peers.get(at)?.0;
        self.kernel.borrow().connections[number].established.then_some(at)
    }

    fn act(&mut self) {
        let at = self.app.random.below(self.app.live.len().max(1));
        if let Some(&id) = self.app.live.keys().nth(at) {
            let app = &mut self.app;
            self.core.with_context(|cx| app.act(cx, id));
        }
    }

    fn peer_sends(&mut self) {
        let Some(at) = self.peer() else { return };
        let number = self.peers[at].0;
        let len = 1 + self.app.random.below(MAX_MESSAGE * self.app.scale);
        let mut kernel = self.kernel.borrow_mut();
        let connection = &mut kernel.connections[number];
        if !connection.peer_ended && !connection.peer_gone {
            let bytes = bytes_at(number, Side::Peer, connection.peer_sent, len);
            connection.peer_send(bytes);
        }
    }

    fn peer_reads(&mut self) {
        if let Some(at) = self.peer() {
            let most = 1 + self.app.random.below(MAX_MESSAGE * 2 * self.app.scale);
            self.read(at, most);
        }
    }

    fn read(&mut self, at: usize, most: usize) {
        let (number, position) = self.peers[at];
        let bytes = self.kernel.borrow_mut().connections[number].peer_read(most);
        check_bytes(number, Side::Here, position, &bytes);
        self.peers[at].1 += bytes.len();
        self.app.done.read_by_peers += bytes.len() as u64;
    }

    fn peer_ends(&mut self) {
        let Some(at) = self.peer() else { return };
        let number = self.peers[at].0;
        let mut kernel = self.kernel.borrow_mut();
        let connection = &mut kernel.connections[number];
        match self.app.random.below(4) {
            0 | 1 => connection.peer_ended = true,
            2 => {
                connection.peer_ended = true;
                connection.peer_gone = true;
            }
            _ => connection.peer_reset(),
        }
    }

    fn turn(&mut self) {
        let timeout = match self.app.random.below(3) {
            0 => None,
            1 => Some(Duration::ZERO),
            _ => Some(Duration::from_millis(20)),
        };
        self.turn_of(timeout);
    }

    fn buffers(&self) -> usize {
        self.kernel.borrow().buffers.len()
    }

    fn turn_of(&mut self, timeout: Option<Duration>) {
        let (before, buffers) = (self.core.state.stats, self.buffers());
        let was_held = matches!(self.core.state.hold, Hold::Until(_));
        self.core
            .turn(&mut self.app, timeout)
            .expect("a turn does not fail");
        self.kernel.borrow_mut().sleeps = false;
        let grown = self.buffers() > buffers || buffers == self.kernel.borrow().settings.max_buffers;
        let stats = self.core.state.stats;
        assert!(
            stats.starved == before.starved || grown,
            "the pool stays as it is"
        );
        let is_held = matches!(self.core.state.hold, Hold::Until(_)) && stats.holds == before.holds;
        let held = was_held && is_held;
        assert!(
            stats.closed == before.closed || !held,
            "accepting waits though a descriptor is free"
        );
        self.app.done.asleep += u64::from(self.kernel.borrow().asleep);
        self.check();
    }

    /// What holds after every turn.
    fn check(&self) {
        let state = &self.core.state;
        let kernel = self.kernel.borrow();
        let (mut unsent, mut streams) = (0, 0);
        for id in state.table.ids() {
            let slot = state.table.get(id).expect("it is there");
            assert_eq!(
                usize::from(slot.entries),
                kernel.entries_of(id),
                "entries of {id:?}"
            );
            unsent += slot.queue.len();
            assert!(
                slot.queue.len() <= state.limits.socket_bytes + MAX_MESSAGE * self.app.scale,
                "{id:?} exceeds its bound"
            );
            if slot.kind == Kind::Stream {
                streams += 1;
                assert!(self.app.live.contains_key(&id), "{id:?} is not known");
            }
        }
        assert_eq!(state.buffered, unsent, "unsent bytes");
        assert_eq!(streams, self.app.live.len(), "streams");
        if kernel.idle {
            self.check_idle();
        }
        let accepted = self.app.live.values().filter(|stream| stream.accepted).count();
        let most = state.limits.max_connections.saturating_add(MAX_LISTENERS - 1);
        assert!(accepted <= most, "{accepted} streams were accepted");
        assert!(state.buffered <= state.limits.total_bytes || state.hold != Hold::No);
    }

    /// Nothing more can happen by itself: what is wanted is in the kernel.
    fn check_idle(&self) {
        let state = &self.core.state;
        let has_room = state.table.streams() < state.limits.max_connections;
        for (id, slot) in state
            .table
            .ids()
            .filter_map(|id| Some((id, state.table.get(id)?)))
        {
            if slot.listed || slot.stopping {
                continue;
            }
            let (is, wanted) = match (slot.kind, slot.phase) {
                (Kind::Listener, _) => (slot.accepting, state.hold == Hold::No && has_room),
                (_, Phase::Open) => {
                    let stream = &self.app.live[&id];
                    let wanted = !stream.paused && !stream.full && !stream.ended;
                    (self.kernel.borrow().receives(id), wanted)
                }
                _ => (slot.reading.armed.is_some(), slot.wants_bytes()),
            };
            assert_eq!(is, wanted, "{id:?} in {}", self.describe());
            assert!(
                slot.fin != Fin::Wanted || !slot.queue.is_empty(),
                "{id:?} in {}",
                self.describe()
            );
            let lingers = slot.phase == Phase::Lingering && slot.peer_ended;
            assert!(!lingers, "{id:?} waits for what has come in {}", self.describe());
            let as_wanted = slot.reading.armed.is_none_or(|armed| armed == slot.reading.way);
            assert!(as_wanted, "{id:?} in {}", self.describe());
            assert!(
                slot.queue.is_in_flight() || slot.queue.is_empty(),
                "{}",
                self.describe()
            );
        }
    }

    /// Everything is read and closed.
    fn finish(&mut self) {
        let close = self.end == End::Here;
        let app = &mut self.app;
        self.core.with_context(|cx| app.let_go(cx, close));
        let mut turns = 0;
        while self.core.state.table.streams() > 0 || !self.kernel.borrow().backlog.is_empty() {
            if turns == FAULTY_TURNS {
                self.kernel.borrow_mut().faults = Faults::default();
            }
            self.find_peers();
            for at in 0..self.peers.len() {
                self.read(at, usize::MAX);
                let connection = &mut self.kernel.borrow_mut().connections[self.peers[at].0];
                connection.peer_ended |= !close && connection.established;
            }
            if close {
                // Those that have been accepted meanwhile.
                let app = &mut self.app;
                self.core.with_context(|cx| app.let_go(cx, true));
            }
            self.turn_of(None);
            turns += 1;
            self.check_sleep(turns);
        }
        self.check_end();
    }

    /// A wait without an end is right only where a peer has to do something.
    fn check_sleep(&self, turns: usize) {
        let asleep = self.kernel.borrow().asleep && turns > FAULTY_TURNS + 5;
        assert!(
            turns < MAX_TURNS && !asleep,
            "it hangs after {turns} turns: {}",
            self.describe()
        );
    }

    fn describe(&self) -> String {
        let state = &self.core.state;
        let slots: Vec<String> = state
            .table
            .ids()
            .map(|id| {
                let slot = state.table.get(id).expect("it is there");
                format!(
                    "\n{id:?} {:?} {:?} fd {} entries {} listed {} stopping {} fin {:?} peer_ended {} {:?} {:?}",
                    slot.kind,
                    slot.phase,
                    slot.fd,
                    slot.entries,
                    slot.listed,
                    slot.stopping,
                    slot.fin,
                    slot.peer_ended,
                    slot.reading,
                    slot.queue
                )
            })
            .collect();
        format!("{:?} hold {:?}{}", self.end, state.hold, slots.concat())
    }

    /// Nobody does anything any more: time alone closes all that is open.
    fn wait_for_idle(&mut self) {
        self.kernel.borrow_mut().faults = Faults::default();
        self.app.ending = true;
        let mut turns = 0;
        while self.core.state.table.streams() > 0 {
            self.turn_of(None);
            turns += 1;
            self.check_sleep(turns);
        }
        self.check_end();
    }

    /// What holds once all streams have ended.
    fn check_end(&mut self) {
        for id in self.core.state.listeners.clone() {
            self.core.with_context(|cx| cx.close(id));
        }
        let mut turns = 0;
        while self.core.state.table.ids().next().is_some() {
            self.turn_of(Some(Duration::ZERO));
            turns += 1;
            assert!(
                turns < MAX_TURNS,
                "the listener is not closed: {}",
                self.describe()
            );
        }
        assert_eq!(self.core.state.buffered, 0);
        assert!(self.app.live.is_empty());
        let kernel = self.kernel.borrow();
        assert!(kernel.is_quiet());
        assert!(kernel.buffers.iter().all(Option::is_none), "buffers are missing");
        assert_eq!(kernel.open_fds(), 0, "descriptors are left open");
        drop(kernel);
        for at in 0..self.peers.len() {
            self.read(at, usize::MAX);
            let (number, read) = self.peers[at];
            let kernel = self.kernel.borrow();
            let Some(outcome) = self.app.outcomes.get(&number) else {
                continue;
            };
            let connection = &kernel.connections[number];
            assert!(read <= outcome.sent);
            if outcome.clean && !connection.reset {
                assert_eq!(read, outcome.sent, "bytes to the peer of {number} are missing");
                assert!(connection.ended, "the peer of {number} sees no end");
            }
        }
    }
}
