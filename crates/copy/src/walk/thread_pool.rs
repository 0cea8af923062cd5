//! The threads that a copy has besides its first. Whoever finds that more are needed starts them, so that a copy of a few
//! files has none: to start one, wake it and see it end takes a tenth of what such a copy takes.

use crate::api::options::{Engine, Options};
use crate::api::report::Report;
use crate::job::run::Run;
use crate::job::worker::Worker;
use crate::walk::queue::Need;
use std::io;
use std::sync::{Arc, Mutex};
use std::thread::{Builder, Scope, ScopedJoinHandle};

/// More threads than this wait for each other in the file system and not for the processor.
pub(crate) const MAX_JOBS: usize = 8;

/// So many threads, at most, wait for cold sources: 20,000 files of 100 KB took 2.0 s and with eight 2.9 (15 runs in turn), 200
/// of 8 MB 0.98 of the time, which is 1.04 of what reading alone takes.
const MAX_COLD_JOBS: usize = 16;

/// How many threads there are at most, whatever is in memory.
pub(crate) fn most_threads(options: &Options) -> usize {
    match options.jobs {
        // Questions come one after the other, and what is said about them stays beside them.
        _ if options.overwrite.ask => 1,
        0 if has_reserve(options) => MAX_COLD_JOBS,
        0 => cpus(),
        jobs => jobs,
    }
}

/// Whether more threads are called when sources are cold. Who has said how many threads there are to be gets those and no
/// others, and a ring has enough under way by itself.
pub(crate) fn has_reserve(options: &Options) -> bool {
    options.jobs == 0 && !options.overwrite.ask && options.engine != Engine::Uring
}

pub(crate) fn cpus() -> usize {
    std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(MAX_JOBS)
}

/// What a worker asks of them.
pub(crate) trait ThreadPool: Send + Sync {
    /// Starts as many as are needed. With fewer than wished, it takes longer and is the same.
    fn call(self: Arc<Self>, need: Need);

    /// Has a thread do what the caller would do, and waits for its end. `None` where no thread is to be had.
    fn replace(self: Arc<Self>) -> Option<Report>;

    /// Waits until all have ended, for what they have done.
    fn dismiss(&self) -> Vec<Report>;
}

type Handle<'scope> = ScopedJoinHandle<'scope, Option<Report>>;

pub(crate) struct Threads<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    run: &'scope Run<'scope>,
    started: Mutex<Vec<Handle<'scope>>>,
}

impl<'scope, 'env> Threads<'scope, 'env> {
    pub(crate) fn new(scope: &'scope Scope<'scope, 'env>, run: &'scope Run<'scope>) -> Arc<Self> {
        Arc::new(Threads {
            scope,
            run,
            started: Mutex::default(),
        })
    }

    fn spawn(self: &Arc<Self>, number: usize) -> io::Result<Handle<'scope>> {
        let (run, thread_pool) = (self.run, self.clone());
        let thread = Builder::new().name(format!("copy-{number}"));
        thread.spawn_scoped(self.scope, move || {
            let mut worker = Worker::of_pool(run, thread_pool, number);
            worker.take_memory().and_then(|()| worker.start_engine()).ok()?;
            // The first one takes the caller's place.
            if number > 0 {
                run.queue.enter();
            }
            worker.work();
            Some(worker.reporter.take())
        })
    }
}

impl ThreadPool for Threads<'_, '_> {
    fn call(self: Arc<Self>, need: Need) {
        let mut started = self.started.lock().unwrap();
        let numbers = started.len() + 1..self.run.threads(need);
        started.extend(numbers.map_while(|number| self.spawn(number).ok()));
    }

    fn replace(self: Arc<Self>) -> Option<Report> {
        self.spawn(0).ok().and_then(join)
    }

    fn dismiss(&self) -> Vec<Report> {
        let started = std::mem::take(&mut *self.started.lock().unwrap());
        started.into_iter().filter_map(join).collect()
    }
}

fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
