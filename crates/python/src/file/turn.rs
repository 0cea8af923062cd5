//! Whose turn it is on the loop: calls that never suspend must not keep everybody else waiting.
//!
//! Time is shared by turns of the loop, not by tasks. 100 tasks with 1 ms each would make a ticker 100 ms late; here all
//! tasks of one turn share [`TURN`], however many they are. Those that find it used up wait in a line, and each turn serves
//! the first [`SHARES`] of it, or more if those that are served have little to do.

use pyo3::prelude::*;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What all files of one loop may use in one turn of it. (A ticker waits for two turns at most: asyncio runs what is due
/// behind what is ready.)
const TURN: Duration = Duration::from_millis(1);
/// The calls that go on in one turn after they gave way. To give way costs 5 microseconds with all that is cold
/// afterwards, so a fifth of a millisecond each.
const SHARES: usize = 5;
/// As many of those that make one call and no other, such as thousands of files that are read by one `gather`.
const MOST_SHARES: usize = 64;
/// Units of work between two looks at the clock. A unit is one finished call, or 4 KiB.
const LOOK_EVERY: u32 = 16;
const UNIT_BYTES: usize = 4096;

/// Work that was done since the last look at the clock. Whoever is attached counts, so there is no need to be atomic.
#[derive(Default)]
pub(crate) struct Units(AtomicU32);

impl Units {
    /// Counts a call, unless the clock has to be looked at then.
    pub(crate) fn count(&self, bytes: usize) -> bool {
        let units = self.with(bytes);
        let early = units < LOOK_EVERY;
        if early {
            self.set(units);
        }
        early
    }

    fn add(&self, bytes: usize) {
        self.set(self.with(bytes));
    }

    fn with(&self, bytes: usize) -> u32 {
        let more = u32::try_from(1 + bytes / UNIT_BYTES).unwrap_or(u32::MAX);
        self.0.load(Ordering::Relaxed).saturating_add(more)
    }

    fn set(&self, units: u32) {
        self.0.store(units, Ordering::Relaxed);
    }
}

/// The time that the files of one loop have used.
#[derive(Default)]
pub(crate) struct Turn {
    /// The loop's open files know it, too.
    pub(crate) units: Arc<Units>,
    /// None: nobody has looked at the clock in this turn of the loop.
    end: Option<Instant>,
    /// The futures of calls that have given way, in that order.
    line: VecDeque<Py<PyAny>>,
    share: Option<Duration>,
    /// How many were served last, and when; none if the line was empty since.
    served: Option<(usize, Instant)>,
    /// Somebody has given way since then.
    came_back: bool,
}

impl Turn {
    /// Counts a call that is about to finish without waiting. True: it has to give way first.
    pub(crate) fn charge(&mut self, bytes: usize) -> bool {
        if self.units.count(bytes) {
            return false;
        }
        let now = Instant::now();
        let used_up = now >= *self.end.get_or_insert(now + TURN);
        // In a turn that is used up everybody looks at the clock.
        self.units.set(if used_up { LOOK_EVERY } else { 0 });
        used_up
    }

    /// A call has done work beyond what it was charged: whoever comes next hears of it.
    pub(crate) fn used(&mut self, bytes: usize) {
        self.units.add(bytes);
    }

    /// A call waits in the line. True if it is the first: somebody has to call `next` in the next turn of the loop.
    pub(crate) fn give_way(&mut self, future: Py<PyAny>) -> bool {
        self.line.push_back(future);
        self.came_back = true;
        self.line.len() == 1
    }

    /// The loop has come round: the calls that go on now, and whether there are others.
    pub(crate) fn next(&mut self) -> (Vec<Py<PyAny>>, bool) {
        self.begin();
        let shares = self.shares();
        let served: Vec<_> = self.line.drain(..self.line.len().min(shares)).collect();
        self.share = u32::try_from(served.len())
            .ok()
            .and_then(|count| TURN.checked_div(count));
        if self.line.is_empty() {
            self.served = None;
        }
        (served, !self.line.is_empty())
    }

    /// Twice as many as the last time, if those were done within a turn and none of them wants more.
    fn shares(&mut self) -> usize {
        let now = Instant::now();
        let came_back = std::mem::take(&mut self.came_back);
        let shares = match self.served {
            Some((count, at)) if !came_back && now - at < TURN => (2 * count).min(MOST_SHARES),
            _ => SHARES,
        };
        self.served = Some((shares, now));
        shares
    }

    /// The loop has come round.
    pub(crate) fn begin(&mut self) {
        self.end = None;
    }

    /// A call that gave way goes on.
    pub(crate) fn go_on(&mut self) {
        self.units.set(0);
        self.end = Some(Instant::now() + self.share.unwrap_or(TURN));
    }

    /// Nobody will be served any more.
    pub(crate) fn leave(&mut self) -> VecDeque<Py<PyAny>> {
        std::mem::take(&mut self.line)
    }
}
