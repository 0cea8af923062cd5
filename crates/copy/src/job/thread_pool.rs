//! The threads that a copy has besides its first, as the one that needs them sees them.

use crate::api::report::Report;
use crate::job::queue::{Batch, Job, Need, Queue};
use std::sync::Arc;

/// Threads of a copy. `walk/thread_pool.rs` starts them.
pub(crate) trait ThreadPool: Send + Sync {
    /// Starts as many threads as are needed. With fewer, the copy takes longer and is the same.
    fn call(self: Arc<Self>, need: Need);

    /// Has a new thread do what the caller would do, and waits for its end. Returns `None` if no thread can be started.
    fn replace(self: Arc<Self>) -> Option<Report>;

    /// Waits until all threads have ended, and returns their reports.
    fn dismiss(&self) -> Vec<Report>;
}

/// Hands jobs to all threads, and starts those that are needed for them.
pub(crate) struct Dispatcher<'a> {
    queue: &'a Queue,
    /// `None` for a thread that brings nothing that others could do.
    pub(crate) thread_pool: Option<Arc<dyn ThreadPool + 'a>>,
}

impl<'a> Dispatcher<'a> {
    pub(crate) fn new(queue: &'a Queue, thread_pool: Option<Arc<dyn ThreadPool + 'a>>) -> Dispatcher<'a> {
        Dispatcher { queue, thread_pool }
    }

    /// Adds jobs to the queue, the first on top.
    pub(crate) fn push(&self, jobs: &mut Vec<Job>) {
        self.call(self.queue.push(jobs));
    }

    /// Offers a long batch to at most this many idle threads.
    pub(crate) fn offer(&self, batch: &Arc<Batch>, helpers: usize) {
        self.call(self.queue.offer(batch, helpers));
    }

    /// Starts the threads in reserve, only some of them for short files.
    pub(crate) fn call_reserve(&self, long: bool) {
        self.call(self.queue.call_reserve(long));
    }

    /// Starts threads if the queue has said that they are needed.
    pub(crate) fn call(&self, needed: Option<Need>) {
        if let (Some(need), Some(thread_pool)) = (needed, &self.thread_pool) {
            thread_pool.clone().call(need);
        }
    }
}
