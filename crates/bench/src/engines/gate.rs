//! The meeting point of a cell's threads and the one that watches over them.
//!
//! No thread waits for one that will not come: a set-up that fails and a panic [cancel](Gate::cancel) the
//! rest.

use crate::job::Cell;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Times of a round.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// Time at which the first op may begin.
    pub start: Instant,
    /// Time before which completions are not counted.
    pub measured_from: Instant,
    /// Time after which no op begins.
    pub deadline: Option<Instant>,
}

impl Times {
    /// Returns the times of a cell whose first op begins at `start`.
    pub(super) fn of(start: Instant, cell: &Cell) -> Times {
        let measured_from = start + Duration::from_millis(cell.ramp_ms);
        let runtime = cell.runtime_ms.map(Duration::from_millis);
        Times {
            start,
            measured_from,
            deadline: runtime.and_then(|runtime| measured_from.checked_add(runtime)),
        }
    }
}

/// A barrier for a number of threads and one that watches.
pub struct Gate {
    threads: usize,
    state: Mutex<State>,
    /// Signals in both directions: the watcher waits for the last thread, and the threads for the watcher.
    for_watcher: Condvar,
    for_threads: Condvar,
}

#[derive(Default)]
struct State {
    ready: usize,
    done: usize,
    /// Start time, once they may begin.
    start: Option<Instant>,
    released: bool,
    /// True if a thread could not be set up.
    failed: bool,
    cancelled: bool,
}

/// Guard that cancels the gate if its thread panics.
pub struct Present<'a>(&'a Gate);

impl Drop for Present<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.cancel();
        }
    }
}

impl Gate {
    /// Creates the gate for this many threads and one that watches.
    pub fn new(threads: usize) -> Gate {
        Gate {
            threads,
            state: Mutex::default(),
            for_watcher: Condvar::new(),
            for_threads: Condvar::new(),
        }
    }

    /// Waits until every thread is ready, or has failed. For the watcher.
    pub fn all_ready(&self) {
        self.watch(|state| state.ready);
    }

    /// Lets the threads begin. For the watcher.
    pub fn begin(&self) {
        self.lock().start = Some(Instant::now());
        self.for_threads.notify_all();
    }

    /// Waits until every thread has done its part. For the watcher.
    pub fn all_done(&self) {
        self.watch(|state| state.done);
    }

    /// Lets the threads go. For the watcher.
    pub fn release(&self) {
        self.lock().released = true;
        self.for_threads.notify_all();
    }

    /// Ends all waiting; a thread that has not begun does not begin.
    pub fn cancel(&self) {
        self.lock().cancelled = true;
        self.for_threads.notify_all();
        self.for_watcher.notify_all();
    }

    /// Registers a thread: while it holds this guard, the others do not wait for it in vain.
    pub fn enter(&self) -> Present<'_> {
        Present(self)
    }

    /// Reports that a thread is ready, or not. Returns when it may begin if all are.
    pub(super) fn ready(&self, ready: bool) -> Option<Instant> {
        let mut state = self.lock();
        state.failed |= !ready;
        state.ready += 1;
        self.tell_watcher(state.ready);
        let state = wait(&self.for_threads, state, |state| state.start.is_none());
        state.start.filter(|_| !state.failed && !state.cancelled)
    }

    /// Reports that a thread has done its part.
    pub(super) fn done(&self) {
        let mut state = self.lock();
        state.done += 1;
        self.tell_watcher(state.done);
        drop(wait(&self.for_threads, state, |state| !state.released));
    }

    /// Wakes the watcher if this thread is the last: each call would be counted.
    fn tell_watcher(&self, arrived: usize) {
        if arrived == self.threads {
            self.for_watcher.notify_one();
        }
    }

    fn watch(&self, arrived: fn(&State) -> usize) {
        drop(wait(&self.for_watcher, self.lock(), |state| {
            arrived(state) < self.threads
        }));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until the condition holds, or the gate is cancelled.
fn wait<'a>(
    signal: &Condvar,
    state: MutexGuard<'a, State>,
    more: impl Fn(&State) -> bool,
) -> MutexGuard<'a, State> {
    let waited = signal.wait_while(state, |state| !state.cancelled && more(state));
    waited.unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that no thread waits for ever if two are expected and one comes, or one panics.
    #[test]
    fn nobody_waits_for_a_thread_that_does_not_come() {
        let gate = Gate::new(2);
        thread::scope(|scope| {
            let came = scope.spawn(|| {
                let times = gate.ready(true);
                gate.done();
                times
            });
            gate.cancel();
            assert!(came.join().unwrap().is_none());
        });

        let gate = Gate::new(1);
        thread::scope(|scope| {
            let fell = scope.spawn(|| {
                let _present = gate.enter();
                // Without the hook, which would print it.
                std::panic::resume_unwind(Box::new("on the way"));
            });
            gate.all_ready();
            gate.begin();
            gate.all_done();
            gate.release();
            assert!(fell.join().is_err());
        });
    }
}
