//! Who does what: a stack of jobs and the threads that take them.
//!
//! The newest job goes first, so the tree is walked depth first and little is waiting at a time. A directory is read and
//! filled by one thread: two that create files in one directory wait for each other in the kernel. Only a thread that
//! has nothing else to do helps with a long one.
//!
//! Threads start when there is something for them to do: a copy of a few files needs none but its own. Some are in
//! reserve for cold sources, where threads wait for the device and not for a processor.

use crate::dir::Dir;
use crate::listing::Listing;
use rustix::fs::FileType;
use std::collections::VecDeque;
use std::ffi::CString;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// One entry to copy. Its directory knows that it is pending.
pub(crate) struct Job {
    pub(crate) dir: Arc<Dir>,
    pub(crate) source: CString,
    /// Its name in the target, where it is another one.
    pub(crate) target: Option<CString>,
    pub(crate) kind: FileType,
}

/// A batch of a directory's entries, shared between its owner and those who help.
pub(crate) struct Batch {
    pub(crate) dir: Arc<Dir>,
    pub(crate) listing: Listing,
    next: AtomicUsize,
}

/// Entries taken at once, at most: enough that the counter costs nothing.
pub(crate) const SHARE: usize = 64;

impl Batch {
    pub(crate) fn new(dir: Arc<Dir>, listing: Listing) -> Batch {
        Batch {
            dir,
            listing,
            next: AtomicUsize::new(0),
        }
    }

    /// The next entries that nobody has taken, `count` at most.
    pub(crate) fn take(&self, count: usize) -> Option<std::ops::Range<usize>> {
        debug_assert!((1..=SHARE).contains(&count));
        let start = self.next.fetch_add(count, Ordering::Relaxed);
        let end = self.listing.len().min(start.saturating_add(count));
        (start < end).then_some(start..end)
    }

    /// Entries that nobody has taken.
    pub(crate) fn left(&self) -> usize {
        self.listing
            .len()
            .saturating_sub(self.next.load(Ordering::Relaxed))
    }
}

/// What a thread gets to do.
pub(crate) enum Work {
    Entry(Job),
    Help(Arc<Batch>),
}

impl State {
    fn ready(&mut self) -> Option<Work> {
        let job = self.jobs.pop().map(Work::Entry);
        job.or_else(|| self.batches.front().cloned().map(Work::Help))
    }
}

/// Which threads there is something to do for.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Need {
    /// None but the first.
    #[default]
    First,
    /// One for each CPU, or as many as were asked for.
    Helpers,
    /// Some more, which wait for the device.
    Cold,
    /// As many as may be: what waits for the device is long.
    ColdLong,
}

#[derive(Default)]
pub(crate) struct Schedule {
    state: Mutex<State>,
    changed: Condvar,
    /// For whoever starts threads: more are needed, or all is done.
    needed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: Vec<Job>,
    batches: VecDeque<Arc<Batch>>,
    /// Threads at work, which may bring more.
    busy: usize,
    idle: usize,
    need: Need,
    /// A thread has panicked: nobody shall wait for it.
    broken: bool,
}

impl Schedule {
    /// Adds jobs; the first of them is taken first.
    pub(crate) fn push(&self, jobs: &mut Vec<Job>) {
        if jobs.is_empty() {
            return;
        }
        let mut state = self.state.lock().unwrap();
        state.jobs.extend(jobs.drain(..).rev());
        // The one that comes first is for us.
        if state.jobs.len() > 1 {
            self.share(state);
        }
    }

    /// Offers a long batch to whoever has nothing to do.
    pub(crate) fn offer(&self, batch: &Arc<Batch>) {
        let mut state = self.state.lock().unwrap();
        state.batches.push_back(batch.clone());
        self.share(state);
    }

    /// There is something for others.
    fn share(&self, mut state: MutexGuard<'_, State>) {
        self.call(&mut state, Need::Helpers);
        if state.idle > 0 {
            drop(state);
            self.changed.notify_all();
        }
    }

    fn call(&self, state: &mut State, need: Need) {
        if state.need < need {
            state.need = need;
            self.needed.notify_all();
        }
    }

    /// Takes the offer back: the last entries are taken.
    pub(crate) fn withdraw(&self, batch: &Arc<Batch>) {
        let mut state = self.state.lock().unwrap();
        state.batches.retain(|other| !Arc::ptr_eq(other, batch));
    }

    /// A thread ends before its time: the others end too.
    pub(crate) fn break_off(&self) {
        if let Ok(mut state) = self.state.lock() {
            state.broken = true;
        }
        self.changed.notify_all();
        self.needed.notify_all();
    }

    /// A thread begins. What the first one brings tells how many are needed.
    pub(crate) fn enter(&self) {
        let mut state = self.state.lock().unwrap();
        if state.busy == 0 {
            state.need = Need::First;
        }
        state.busy += 1;
    }

    /// Threads begin that bring no jobs, if fewer than `jobs` are at work: as many as are wanted, up to `most` in all. They
    /// end with `leave`, before the one that has started them.
    pub(crate) fn enter_others(&self, wanted: usize, jobs: usize, most: usize) -> usize {
        let mut state = self.state.lock().unwrap();
        let room = match state.busy < jobs {
            true => most.saturating_sub(state.busy).min(wanted),
            false => 0,
        };
        state.busy += room;
        room
    }

    /// So many threads have ended that brought no jobs.
    pub(crate) fn leave(&self, count: usize) {
        let mut state = self.state.lock().unwrap();
        debug_assert!(state.busy > count, "whoever has started them is still at work");
        state.busy -= count;
    }

    /// Has those in reserve start, for small files only some.
    pub(crate) fn call_reserve(&self, long: bool) {
        let need = if long { Need::ColdLong } else { Need::Cold };
        self.call(&mut self.state.lock().unwrap(), need);
    }

    /// Waits until more threads are needed than before. `None` when all is done.
    pub(crate) fn more(&self, before: Need) -> Option<Need> {
        let state = self.state.lock().unwrap();
        let waits = |state: &mut State| !state.broken && state.need <= before && state.busy > 0;
        let state = self.needed.wait_while(state, waits).unwrap();
        (!state.broken && state.busy > 0).then_some(state.need)
    }

    /// The next thing to do, if there is one now.
    pub(crate) fn ready(&self) -> Option<Work> {
        let mut state = self.state.lock().unwrap();
        if state.broken {
            return None;
        }
        state.ready()
    }

    /// The next thing to do, for a thread that has done its last. `None` when all is done and none can come.
    pub(crate) fn next(&self) -> Option<Work> {
        let mut state = self.state.lock().unwrap();
        loop {
            if state.broken {
                return None;
            }
            if let Some(work) = state.ready() {
                return Some(work);
            }
            if state.busy == 1 {
                // The last one awake: nobody can bring more.
                state.busy = 0;
                self.changed.notify_all();
                self.needed.notify_all();
                return None;
            }
            if state.busy == 0 {
                return None;
            }
            state.busy -= 1;
            state.idle += 1;
            state = self.changed.wait(state).unwrap();
            state.idle -= 1;
            if state.busy == 0 {
                return None;
            }
            state.busy += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is needed, when this happens while a thread is at work.
    fn needed_after(happens: impl FnOnce(&Schedule)) -> Option<Need> {
        let schedule = Schedule::default();
        schedule.enter();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| schedule.more(Need::First));
            happens(&schedule);
            let needed = waiting.join().unwrap();
            // One that comes later is told the same.
            assert_eq!(schedule.more(Need::First), needed);
            needed
        })
    }

    #[test]
    fn those_in_reserve_are_needed_when_they_are_called() {
        for (long, need) in [(false, Need::Cold), (true, Need::ColdLong)] {
            let needed = needed_after(|schedule| {
                schedule.call_reserve(long);
                // What others call for is no less.
                schedule.call_reserve(false);
            });
            assert_eq!(needed, Some(need));
        }
    }

    #[test]
    fn others_begin_where_there_is_room() {
        let schedule = Schedule::default();
        schedule.enter();
        // No processor is free; one is, and there are reserves; no more than are wanted.
        for (wanted, jobs, most, begun) in [(3, 1, 4, 0), (3, 2, 2, 1), (3, 2, 4, 3), (2, 8, 8, 2)] {
            assert_eq!(schedule.enter_others(wanted, jobs, most), begun);
            schedule.leave(begun);
        }
        assert_eq!(schedule.enter_others(2, 2, 3), 2);
        assert_eq!(schedule.enter_others(1, 2, 4), 0);
    }

    #[test]
    fn no_more_are_needed_when_all_is_done() {
        assert_eq!(needed_after(|schedule| assert!(schedule.next().is_none())), None);
    }

    #[test]
    fn no_more_are_needed_when_one_panics() {
        assert_eq!(needed_after(Schedule::break_off), None);
    }
}
