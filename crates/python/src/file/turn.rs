//! Whose turn it is on the loop: calls that never suspend must not keep everybody else waiting.
//!
//! Time is shared by turns of the loop, not by tasks. 100 tasks with 1 ms each would make a ticker 100 ms late; here all
//! tasks of one turn share [`TURN`], however many they are. Those that find it used up wait in a line, and each turn serves
//! the first [`MOST_SHARES`] of it.

use crate::files::driver::LoopFuture;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::PyTraverseError;
use std::collections::{TryReserveError, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What all files of one loop may use in one turn of it. (A ticker waits for two turns at most: asyncio runs what is due
/// behind what is ready.)
const TURN: Duration = Duration::from_millis(1);
/// The most calls that go on in one turn after they gave way. To give way costs 5 microseconds with all that is cold
/// afterwards, so a fifth of a millisecond each.
const MOST_SHARES: usize = 5;
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
    line: VecDeque<Py<LoopFuture>>,
    share: Option<Duration>,
    /// The address of the task that was the last to find the turn used up.
    task: usize,
}

static CURRENT_TASK: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// The address of the task that runs in this thread; 0 if none does.
fn running_task(py: Python<'_>) -> usize {
    let task = CURRENT_TASK
        .import(py, "asyncio", "current_task")
        .and_then(|current_task| current_task.call0());
    task.map_or(0, |task| task.as_ptr() as usize)
}

impl Turn {
    /// Counts a call that is about to finish without waiting. True: it has to give way first.
    pub(crate) fn charge(&mut self, bytes: usize) -> bool {
        if self.units.count(bytes) {
            return false;
        }
        self.units.set(0);
        let now = Instant::now();
        if now < *self.end.get_or_insert(now + TURN) {
            return false;
        }
        // From now on each call looks at the clock. A read that the kernel begins and ends in the caller's thread takes 35
        // microseconds: eight of each of 32 tasks that were woken together made a ticker 20 ms late.
        self.units.set(LOOK_EVERY);
        !self.is_new()
    }

    /// Whether some of the turn is left; the next look at the clock is then as far away as after [`charge`](Self::charge).
    pub(crate) fn has_time(&self) -> bool {
        let has_time = self.end.is_some_and(|end| Instant::now() < end);
        if has_time {
            self.units.set(0);
        }
        has_time
    }

    /// Whether the running task is another than the last that asked.
    ///
    /// A task that has just been woken goes on for once. Thousands that make one call each, as under `gather`, take the
    /// loop as long to start and to end as the calls take, so to suspend them would cost them half of that again and spare
    /// the loop little.
    fn is_new(&mut self) -> bool {
        let task = Python::attach(running_task);
        std::mem::replace(&mut self.task, task) != task
    }

    /// A call has done work beyond what it was charged: whoever comes next hears of it.
    pub(crate) fn used(&mut self, bytes: usize) {
        self.units.add(bytes);
    }

    /// A call waits in the line. True if it is the first: somebody has to call `next` in the next turn of the loop.
    ///
    /// # Errors
    /// If there is no memory for a longer line.
    pub(crate) fn give_way(&mut self, future: Py<LoopFuture>) -> Result<bool, TryReserveError> {
        self.line.try_reserve(1)?;
        self.line.push_back(future);
        Ok(self.line.len() == 1)
    }

    /// The loop has come round: the calls that go on now, and whether there are others.
    pub(crate) fn next(&mut self) -> (Vec<Py<LoopFuture>>, bool) {
        self.begin();
        // allocates: at most MOST_SHARES
        let served: Vec<_> = self.line.drain(..self.line.len().min(MOST_SHARES)).collect();
        self.share = u32::try_from(served.len())
            .ok()
            .and_then(|count| TURN.checked_div(count));
        (served, !self.line.is_empty())
    }

    /// The loop has come round.
    pub(crate) fn begin(&mut self) {
        self.end = None;
    }

    /// A call that gave way goes on.
    pub(crate) fn go_on(&mut self) {
        self.units.set(0);
        self.end = Some(Instant::now() + self.share.unwrap_or(TURN));
        self.task = Python::attach(running_task);
    }

    /// What may know the loop.
    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.line.iter().try_for_each(|future| visit.call(future))
    }

    /// Nobody will be served any more.
    pub(crate) fn leave(&mut self) -> VecDeque<Py<LoopFuture>> {
        std::mem::take(&mut self.line)
    }
}
