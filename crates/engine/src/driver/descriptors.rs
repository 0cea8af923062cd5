//! Ops that open a descriptor wait here while the process has too few.
//!
//! They wait in the order in which they came. No op that needs no descriptor waits behind them, and none that closes its
//! descriptor itself behind one that leaves it to the caller. They are tried again
//! when an op of the process has closed a descriptor, and by a timer, since nothing tells of those that the program closes
//! itself. The timer is an op in the backend, so that whoever watches the driver hears of it on every engine. Invariant:
//! while an op waits the driver is in line (`crate::descriptors`), and the timer runs unless the backend is full.

use super::Driver;
use crate::backend::{Raw, Taken};
use crate::config::Config;
use crate::descriptors::{self, Opens};
use crate::inflight::{State, Token};
use crate::op::{Op, Options, Timeout};
use crate::probe::{Chosen, Engine};
use crate::sys;
use std::collections::{TryReserveError, VecDeque};
use std::time::Duration;

/// The pause between two attempts: short while descriptors come and go, and doubled up to the longest while none does.
const SHORTEST_PAUSE_MS: u64 = 1;
const LONGEST_PAUSE_MS: u64 = 20;

/// What a driver knows of its ops that wait for a descriptor.
pub(super) struct Parking {
    /// For each kind, in the order in which they came. A token whose op was cancelled stays until its turn.
    queues: [VecDeque<Token>; 2],
    /// The timer, while it runs.
    timer: Option<Token>,
    pause_ms: u64,
    /// Whether to try again whatever has or has not been closed.
    due: bool,
    /// `descriptors::releases()` at the last attempt.
    releases: u64,
    /// What the kernel said when it refused a descriptor. One op at a time is tried until one succeeds.
    refusal: Option<i32>,
    /// None: the process's default.
    wait: Option<Duration>,
    /// The driver is shutting down.
    closing: bool,
}

impl Parking {
    pub(super) fn new(config: &Config, chosen: &Chosen) -> Self {
        // The simulator's errors are meant, and the same in each run.
        let simulated = (chosen.engine == Engine::Sim).then_some(Duration::ZERO);
        Parking {
            queues: Default::default(),
            timer: None,
            pause_ms: SHORTEST_PAUSE_MS,
            due: false,
            releases: 0,
            refusal: None,
            wait: config.descriptor_wait.or(simulated),
            closing: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queues.iter().all(VecDeque::is_empty)
    }

    /// Makes room for so many ops in each queue.
    pub(super) fn make_room(&mut self, ops: usize) -> Result<(), TryReserveError> {
        let mut queues = self.queues.iter_mut();
        queues.try_for_each(|queue| queue.try_reserve(ops.saturating_sub(queue.len())))
    }

    fn wait_ms(&self) -> u64 {
        self.wait.map_or_else(descriptors::default_wait_ms, |wait| {
            wait.as_millis().try_into().unwrap_or(u64::MAX)
        })
    }

    /// Whether ops wait at all.
    fn waits(&self) -> bool {
        !self.closing && self.wait != Some(Duration::ZERO) && self.wait_ms() > 0
    }
}

impl Driver {
    /// Ops in the slab but for the driver's own timer.
    pub(super) fn accepted(&self) -> usize {
        self.slab.len() - usize::from(self.parking.timer.is_some())
    }

    pub(super) fn needs_permit(&self, op: &Op) -> bool {
        op.opens().is_some() && self.parking.waits()
    }

    /// Moves ops from the backlog to the backend while it has room.
    pub(super) fn pump(&mut self) {
        if !self.parking.is_empty() {
            self.unpark();
        }
        while self.in_flight < self.depth {
            let Some(&token) = self.backlog.front() else {
                return;
            };
            let Some(slot) = self.slab.get_mut(token) else {
                // Cancelled.
                self.backlog.pop_front();
                continue;
            };
            if let (Some(opens), None) = (slot.op.opens(), &slot.permit) {
                if !self.admit_descriptor(token, opens) {
                    self.backlog.pop_front();
                    continue;
                }
            }
            if !self.start(token) {
                return;
            }
            self.backlog.pop_front();
        }
    }

    /// Hands one op to the backend. False if that has no room.
    fn start(&mut self, token: Token) -> bool {
        let Some(slot) = self.slab.get_mut(token) else {
            return true;
        };
        if self.backend.submit(token, slot) == Taken::Full {
            return false;
        }
        slot.state = State::InFlight;
        // The timer takes no op's place: at a depth of one there would be none left.
        self.in_flight += usize::from(!slot.is_timer);
        true
    }

    /// Whether the op may begin. If not, it waits here from now on.
    fn admit_descriptor(&mut self, token: Token, opens: Opens) -> bool {
        if !self.parking.waits() {
            return true;
        }
        let Some(slot) = self.slab.get_mut(token) else {
            return true;
        };
        slot.permit = match self.parking.queues[opens as usize].is_empty() {
            true => descriptors::take(self.id, opens, slot.op.descriptors()),
            false => None,
        };
        if slot.permit.is_some() {
            return true;
        }
        self.park(token, opens, false);
        false
    }

    fn park(&mut self, token: Token, opens: Opens, first: bool) {
        let Some(slot) = self.slab.get_mut(token) else {
            return;
        };
        if slot.parked_ms == 0 {
            slot.parked_ms = descriptors::now_ms();
        }
        if self.parking.is_empty() {
            self.parking.pause_ms = SHORTEST_PAUSE_MS;
            self.parking.releases = descriptors::releases();
        }
        let queue = &mut self.parking.queues[opens as usize];
        if queue.is_empty() {
            descriptors::join(self.id, opens);
        }
        match first {
            true => queue.push_front(token),
            false => queue.push_back(token),
        }
        self.start_timer();
    }

    /// Forgets what was cancelled at the head of a queue, and says which op is there.
    fn head(&mut self, opens: Opens) -> Option<(u64, Token)> {
        while let Some(&token) = self.parking.queues[opens as usize].front() {
            if let Some(slot) = self.slab.get_mut(token) {
                return Some((slot.parked_ms, token));
            }
            self.unqueue(opens);
        }
        None
    }

    /// Takes the head of a queue out of it.
    fn unqueue(&mut self, opens: Opens) {
        let queue = &mut self.parking.queues[opens as usize];
        queue.pop_front();
        if queue.is_empty() {
            descriptors::leave(self.id, opens);
        }
        if self.parking.is_empty() {
            self.parking.refusal = None;
        }
    }

    /// Starts ops that have waited, if there may be descriptors for them.
    fn unpark(&mut self) {
        let releases = descriptors::releases();
        let changed = releases != self.parking.releases;
        if changed || self.parking.due || self.parking.closing {
            self.parking.releases = releases;
            self.parking.due = false;
            if changed {
                self.parking.pause_ms = SHORTEST_PAUSE_MS;
            }
            self.start_parked();
        }
        self.start_timer();
    }

    fn start_parked(&mut self) {
        let mut attempts = match self.parking.refusal {
            Some(_) => 1,
            None => usize::MAX,
        };
        let mut without = [false; 2];
        // The one that has waited longest, of those that can be helped.
        while let Some((_, token, opens)) = [Opens::Passing, Opens::Kept]
            .into_iter()
            .filter(|opens| !without[*opens as usize])
            .filter_map(|opens| self.head(opens).map(|(since, token)| (since, token, opens)))
            .min_by_key(|(since, ..)| *since)
        {
            if self.in_flight >= self.depth || attempts == 0 {
                // Its turn is of no use to it now.
                self.parking.due |= attempts > 0;
                return descriptors::pass(self.id);
            }
            let Some(slot) = self.slab.get_mut(token) else {
                return;
            };
            if slot.op.opens().is_some() && slot.permit.is_none() && !self.parking.closing {
                slot.permit = descriptors::take(self.id, opens, slot.op.descriptors());
                if slot.permit.is_none() {
                    without[opens as usize] = true;
                    continue;
                }
            }
            if !self.start(token) {
                self.parking.due = true;
                return descriptors::pass(self.id);
            }
            self.unqueue(opens);
            attempts -= 1;
        }
    }

    fn start_timer(&mut self) {
        if self.parking.timer.is_some() || self.parking.is_empty() || self.parking.closing {
            return;
        }
        let pause = Duration::from_millis(self.parking.pause_ms);
        let token = self.slab.insert(Timeout::new(pause).into(), Options::default());
        if let Some(slot) = self.slab.get_mut(token) {
            slot.abandoned = true;
            slot.is_timer = true;
        }
        if self.start(token) {
            self.parking.timer = Some(token);
        } else {
            self.slab.remove(token);
        }
    }

    /// The timer has ended. `errno`: why it could not run.
    fn timer_ended(&mut self, errno: Option<i32>) {
        self.parking.timer = None;
        self.parking.due = true;
        self.parking.pause_ms = (2 * self.parking.pause_ms).min(LONGEST_PAUSE_MS);
        self.fail_those_that_waited_enough(errno);
    }

    /// With `errno` all of them: there would be nothing to try them again.
    fn fail_those_that_waited_enough(&mut self, errno: Option<i32>) {
        let (now, wait) = (descriptors::now_ms(), self.parking.wait_ms());
        let progress = descriptors::progress_ms();
        let errno_of_all = errno;
        let errno = errno.or(self.parking.refusal).unwrap_or(libc::EMFILE);
        for opens in [Opens::Passing, Opens::Kept] {
            while let Some((since, token)) = self.head(opens) {
                if errno_of_all.is_none() && now.saturating_sub(since.max(progress)) < wait {
                    break;
                }
                self.unqueue(opens);
                self.finish(Raw::new(token, -errno), true);
            }
        }
    }

    /// Looks at what a result says about descriptors. None if that was all: the timer's, or of an op that now waits.
    pub(super) fn descriptor_told(&mut self, raw: Raw, inline: bool) -> Option<Raw> {
        let (token, errno) = (raw.token, -raw.res);
        if self.parking.timer == Some(token) {
            self.slab.remove(token);
            let ended = [0, libc::ETIME, libc::ECANCELED].contains(&errno);
            self.timer_ended((!ended).then_some(errno));
            return None;
        }
        let waits = self.parking.waits();
        let slot = self.slab.get_mut(token)?;
        if sys::lacks_descriptor(errno) && waits && slot.cancelled {
            // It would have waited.
            return Some(Raw {
                res: -libc::ECANCELED,
                ..raw
            });
        }
        // What is linked or notified has had its consequences.
        let done = inline || slot.link || slot.options.notify.is_some();
        if sys::lacks_descriptor(errno) && waits && !done {
            if let Some(op) = raw.op {
                slot.op = *op;
            }
            slot.permit = None;
            let opens = slot.op.opens().unwrap_or(Opens::Passing);
            self.parking.refusal = Some(errno);
            self.park(token, opens, true);
            return None;
        }
        if let Some(permit) = &mut slot.permit {
            permit.opened();
        }
        if slot.parked_ms != 0 && !inline {
            descriptors::progressed();
            self.parking.due = true;
            self.parking.refusal = None;
        }
        Some(raw)
    }

    /// Whether the op has found no descriptor, and would wait for one were it not cancelled.
    pub(super) fn would_wait(&self, raw: &Raw, token: Token) -> bool {
        raw.token == token && sys::lacks_descriptor(-raw.res) && self.parking.waits()
    }

    /// Lets those that still wait try without a permit, and then fail: the driver is shutting down.
    pub(super) fn wait_for_descriptors_no_more(&mut self) {
        self.parking.closing = true;
        for opens in [Opens::Passing, Opens::Kept] {
            if !self.parking.queues[opens as usize].is_empty() {
                descriptors::leave(self.id, opens);
            }
        }
        if let Some(timer) = self.parking.timer {
            self.cancel_quietly(timer);
        }
    }
}
