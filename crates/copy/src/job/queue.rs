//! A stack of jobs, and the threads that take them.
//!
//! The newest job goes first, so the tree is walked depth first and little is waiting at a time. A directory is read and
//! filled by one thread: those that create files in one directory wait for each other in the kernel. Only those who
//! have nothing else to do help with a long one, and if its files are small only one of them.
//!
//! Threads start when there is something for them to do: a copy of a few files needs none but its own. Some are in
//! reserve for cold sources, where threads wait for the device and not for a processor.

use crate::pair::directory::Dir;
use crate::pair::Entry;
use crate::sys::listing::Listing;
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

impl Job {
    /// Returns an entry put aside. Its directory must know of it.
    pub(crate) fn of(entry: &Entry<'_>, kind: FileType) -> Job {
        Job {
            dir: entry.at.dir.clone(),
            source: entry.source.into(),
            target: (entry.source != entry.target).then(|| entry.target.into()),
            kind,
        }
    }
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

    /// Takes the next entries that no thread has taken, `count` at most.
    pub(crate) fn take(&self, count: usize) -> Option<std::ops::Range<usize>> {
        debug_assert!((1..=SHARE).contains(&count));
        let start = self.next.fetch_add(count, Ordering::Relaxed);
        let end = self.listing.len().min(start.saturating_add(count));
        (start < end).then_some(start..end)
    }

    /// Returns the number of entries that no thread has taken.
    pub(crate) fn left(&self) -> usize {
        self.listing
            .len()
            .saturating_sub(self.next.load(Ordering::Relaxed))
    }
}

/// Work for a thread.
pub(crate) enum Work {
    Entry(Job),
    Help(Arc<Batch>),
}

impl State {
    /// The need, if it is more than before.
    fn call(&mut self, need: Need) -> Option<Need> {
        let more = self.need < need;
        self.need = self.need.max(need);
        more.then_some(need)
    }

    fn ready(&mut self) -> Option<Work> {
        if let Some(job) = self.jobs.pop() {
            return Some(Work::Entry(job));
        }
        let (batch, helpers) = self.batches.iter_mut().find(|(_, helpers)| *helpers > 0)?;
        *helpers -= 1;
        Some(Work::Help(batch.clone()))
    }
}

/// The threads that there is work for.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Need {
    /// The first thread is enough.
    #[default]
    First,
    /// One for each CPU, or as many as were asked for.
    Helpers,
    /// Some more, which wait for the device.
    Cold,
    /// All threads that may be started: what waits for the device is long.
    ColdLong,
}

#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: Vec<Job>,
    /// And how many may still come to help.
    batches: VecDeque<(Arc<Batch>, usize)>,
    /// Threads at work, which may bring more.
    busy: usize,
    idle: usize,
    need: Need,
    /// A thread has panicked: no other waits for it.
    broken: bool,
}

impl Queue {
    /// Adds jobs; the first of them is taken first. Which threads are needed for that, where it is more than before.
    #[must_use]
    pub(crate) fn push(&self, jobs: &mut Vec<Job>) -> Option<Need> {
        if jobs.is_empty() {
            return None;
        }
        let mut state = self.state.lock().unwrap();
        state.jobs.extend(jobs.drain(..).rev());
        // The one that comes first is for us.
        match state.jobs.len() {
            1 => None,
            _ => self.share(state),
        }
    }

    /// Offers a long batch to at most `helpers` idle threads. Returns what is needed for that, as `push` does.
    #[must_use]
    pub(crate) fn offer(&self, batch: &Arc<Batch>, helpers: usize) -> Option<Need> {
        let mut state = self.state.lock().unwrap();
        state.batches.push_back((batch.clone(), helpers));
        self.share(state)
    }

    /// There is something for others.
    fn share(&self, mut state: MutexGuard<'_, State>) -> Option<Need> {
        let needed = state.call(Need::Helpers);
        if state.idle > 0 {
            drop(state);
            self.changed.notify_all();
        }
        needed
    }

    /// Takes the offer back: the last entries are taken.
    pub(crate) fn withdraw(&self, batch: &Arc<Batch>) {
        let mut state = self.state.lock().unwrap();
        state.batches.retain(|(other, _)| !Arc::ptr_eq(other, batch));
    }

    /// A thread ends before its time: the others end too.
    pub(crate) fn break_off(&self) {
        if let Ok(mut state) = self.state.lock() {
            state.broken = true;
        }
        self.changed.notify_all();
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

    /// Counts threads as ended that brought no jobs.
    pub(crate) fn leave(&self, count: usize) {
        let mut state = self.state.lock().unwrap();
        debug_assert!(
            state.busy > count,
            "the thread that has started them is still at work"
        );
        state.busy -= count;
    }

    /// Those in reserve are to start, for small files only some. What is needed for that, as for `push`.
    #[must_use]
    pub(crate) fn call_reserve(&self, long: bool) -> Option<Need> {
        let need = if long { Need::ColdLong } else { Need::Cold };
        self.state.lock().unwrap().call(need)
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
                // This thread is the last one awake: no other can bring more.
                state.busy = 0;
                self.changed.notify_all();
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

    #[test]
    fn those_in_reserve_are_needed_when_they_are_called() {
        let queue = Queue::default();
        queue.enter();
        assert_eq!(queue.call_reserve(false), Some(Need::Cold));
        assert_eq!(queue.call_reserve(true), Some(Need::ColdLong));
        // What others call for is no less.
        assert_eq!(queue.call_reserve(false), None);
        assert_eq!(queue.next().map(drop), None);
        // The next copy begins alone.
        queue.enter();
        assert_eq!(queue.call_reserve(false), Some(Need::Cold));
    }

    #[test]
    fn others_begin_where_there_is_room() {
        let queue = Queue::default();
        queue.enter();
        // No processor is free; one is, and there are reserves; no more than are wanted.
        for (wanted, jobs, most, begun) in [(3, 1, 4, 0), (3, 2, 2, 1), (3, 2, 4, 3), (2, 8, 8, 2)] {
            assert_eq!(queue.enter_others(wanted, jobs, most), begun);
            queue.leave(begun);
        }
        assert_eq!(queue.enter_others(2, 2, 3), 2);
        assert_eq!(queue.enter_others(1, 2, 4), 0);
    }
}
