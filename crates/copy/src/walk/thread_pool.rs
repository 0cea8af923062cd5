//! The threads that a copy has besides its first. The thread that finds that more are needed starts them, so a copy of a
//! few files has none: to start one, wake it and see it end takes a tenth of what such a copy takes.

use crate::api::report::Report;
use crate::job::queue::Need;
use crate::job::thread_pool::ThreadPool;
use crate::walk::run::Run;
use crate::walk::walker::Walker;
use std::io;
use std::sync::{Arc, Mutex};
use std::thread::{Builder, Scope, ScopedJoinHandle};

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
            let mut walker = Walker::new(run, thread_pool, number);
            walker.start().ok()?;
            // The first one takes the caller's place.
            if number > 0 {
                run.queue.enter();
            }
            walker.work();
            Some(walker.report())
        })
    }
}

impl ThreadPool for Threads<'_, '_> {
    fn call(self: Arc<Self>, need: Need) {
        let mut started = self.started.lock().unwrap();
        let numbers = started.len() + 1..self.run.limits.threads(need);
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
