//! Whose turn it is on the loop: calls that never suspend must not keep everybody else waiting.
//!
//! Time is shared by turns of the loop, not by tasks. 100 tasks with 1 ms each would make a ticker 100 ms late; here all
//! tasks of one turn share [`TURN`].

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What all files of one loop may use in one turn of it.
const TURN: Duration = Duration::from_millis(2);
/// The least that one task gets: giving way costs about 2 microseconds.
const LEAST: Duration = Duration::from_micros(20);
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

    fn with(&self, bytes: usize) -> u32 {
        let more = 1 + u32::try_from(bytes / UNIT_BYTES).unwrap_or(u32::MAX / 2);
        self.0.load(Ordering::Relaxed) + more
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
    deadline: Option<Instant>,
    /// Calls that have given way in this turn of the loop.
    yields: u32,
    slice: Option<Duration>,
}

impl Turn {
    /// Counts a call that is about to finish without waiting. True: it has to give way first.
    pub(crate) fn charge(&mut self, bytes: usize) -> bool {
        if self.units.count(bytes) {
            return false;
        }
        self.units.set(0);
        let now = Instant::now();
        now >= *self.deadline.get_or_insert(now + self.slice.unwrap_or(TURN))
    }

    /// A call gives way. True if it is the first in this turn of the loop: somebody has to call `next` in the next.
    pub(crate) fn give_way(&mut self) -> bool {
        self.yields += 1;
        self.yields == 1
    }

    /// A call that gave way goes on.
    pub(crate) fn go_on(&mut self) {
        self.units.set(0);
        self.deadline = Some(Instant::now() + self.slice.unwrap_or(TURN));
    }

    /// The loop has come round: those that gave way share the next turn.
    pub(crate) fn next(&mut self) {
        self.slice = Some((TURN / self.yields.max(1)).clamp(LEAST, TURN));
        self.yields = 0;
    }

    /// A call has suspended: the loop has its turn anyway.
    pub(crate) fn suspended(&mut self) {
        self.units.set(0);
        self.deadline = None;
    }
}
