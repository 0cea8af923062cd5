//! A bounded pool of threads that do whole ops by blocking calls.
//!
//! Threads start when there is work and none is free, and end after a while without work, or when the pool is dropped.
//! A worker that is stuck in the kernel when the pool is dropped is interrupted; see `sys::interrupt`.

use super::{raw_of, readiness, Mailbox, Readiness};
use crate::backend::{CancelOutcome, Raw};
use crate::config::default_threads;
use crate::inflight::Token;
use crate::op::{Op, Options};
use crate::sys::interrupt::{self, Interruption};
use crate::sys::{self, perform};
use std::collections::{TryReserveError, VecDeque};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long an idle worker stays: longer than the pauses of a busy program, short enough to leave no idle process with
/// threads.
const IDLE: Duration = Duration::from_secs(2);

struct Job {
    token: Token,
    op: Box<Op>,
    skip: usize,
    options: Options,
    /// Whether it may wait for somebody else: a thread that does so is not one of the pool's bound.
    waits: bool,
}

impl Job {
    fn new(token: Token, op: Box<Op>, skip: usize, options: Options) -> Self {
        let waits = match &*op {
            Op::Blocking(op) => op.waits,
            // Only here because it is to signal an eventfd.
            op => options.notify.is_some() && !matches!(readiness(op), Readiness::None),
        };
        Job {
            token,
            op,
            skip,
            options,
            waits,
        }
    }

    /// The most threads that may work on ops like this one, for an op that has such a bound.
    fn most_threads(&self) -> Option<usize> {
        match &*self.op {
            Op::ReadCached(op) => Some(op.most_threads.max(1)),
            _ => None,
        }
    }
}

struct Running {
    token: Token,
    /// On an op with a bound of its own.
    bounded: bool,
    tid: libc::pid_t,
    cancelled: Arc<AtomicBool>,
    interruption: Option<Interruption>,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    running: Vec<Running>,
    threads: usize,
    /// Ops, queued and running, that may wait for somebody else.
    waiting: usize,
    closing: bool,
    handles: Vec<JoinHandle<()>>,
}

impl State {
    /// Workers without a job: idle, woken, or just started. Each looks for one before it is idle again.
    fn free(&self) -> usize {
        self.threads - self.running.len()
    }

    /// The first job that may be begun: one of a kind that has a bound waits for another of its kind, and not the others
    /// behind it.
    fn take_job(&mut self) -> Option<Job> {
        let bounded = self.running.iter().filter(|running| running.bounded).count();
        let may_begin = |job: &Job| job.most_threads().is_none_or(|most| bounded < most);
        let at = self.jobs.iter().position(may_begin)?;
        self.jobs.remove(at)
    }

    /// No longer on a job. In one hold of the lock with the look for the next one: in between, nobody would count on
    /// this worker, and a thread would be started for what it is about to take.
    fn leave(&mut self, tid: libc::pid_t, waited: bool) {
        self.waiting -= usize::from(waited);
        let at = self.running.iter().position(|r| r.tid == tid);
        // Ends the interruption before this thread does anything else that a signal could disturb.
        drop(self.running.swap_remove(at.expect("next() put it there")));
    }
}

struct Shared {
    state: Mutex<State>,
    work: Condvar,
    mailbox: Arc<Mailbox>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("no worker panics while it holds the pool")
    }
}

pub(super) struct Pool {
    shared: Arc<Shared>,
    max_threads: OnceLock<usize>,
    forked: bool,
}

impl Pool {
    pub(super) fn new(max_threads: Option<usize>, mailbox: Arc<Mailbox>) -> Self {
        let shared = Shared {
            state: Mutex::default(),
            work: Condvar::new(),
            mailbox,
        };
        Pool {
            shared: Arc::new(shared),
            max_threads: max_threads.map_or_else(OnceLock::new, OnceLock::from),
            forked: false,
        }
    }

    /// Makes room for so many jobs in all.
    pub(super) fn make_room(&self, jobs: usize) -> Result<(), TryReserveError> {
        let mut state = self.shared.lock();
        let more = jobs.saturating_sub(state.jobs.len());
        state.jobs.try_reserve(more)
    }

    pub(super) fn submit(&self, token: Token, op: Box<Op>, skip: usize, options: Options) {
        let max_threads = *self.max_threads.get_or_init(default_threads);
        let mut state = self.shared.lock();
        let job = Job::new(token, op, skip, options);
        let enough = job.most_threads().is_some_and(|most| {
            let queued = state.jobs.iter().filter(|job| job.most_threads().is_some());
            let running = state.running.iter().filter(|running| running.bounded);
            queued.count() + running.count() >= most
        });
        state.waiting += usize::from(job.waits);
        state.jobs.push_back(job);
        if enough {
            // One of those comes back for it.
            return;
        }
        if state.free() > 0 {
            self.shared.work.notify_one();
        }
        if state.free() >= state.jobs.len() {
            return;
        }
        if state.threads < max_threads + state.waiting {
            let shared = Arc::clone(&self.shared);
            let spawned = std::thread::Builder::new()
                .name("proactor-worker".into())
                .stack_size(256 * 1024)
                .spawn(move || work(&shared));
            match spawned {
                Ok(handle) => {
                    state.threads += 1;
                    state.handles.retain(|h| !h.is_finished());
                    state.handles.push(handle);
                }
                // No thread to be had and none there: say so instead of waiting for ever.
                Err(e) if state.threads == 0 => {
                    let job = state.jobs.pop_back().expect("pushed above");
                    state.waiting -= usize::from(job.waits);
                    let errno = e.raw_os_error().unwrap_or(libc::EAGAIN);
                    drop(state);
                    finish(&self.shared, job, -errno);
                }
                Err(_) => {}
            }
        }
    }

    pub(super) fn cancel(&self, token: Token, done: &mut Vec<Raw>) -> CancelOutcome {
        let mut state = self.shared.lock();
        if let Some(at) = state.jobs.iter().position(|job| job.token == token) {
            let job = state.jobs.remove(at).expect("position() found it");
            state.waiting -= usize::from(job.waits);
            drop(state);
            signal(&job.options);
            done.push(raw_of(token, -libc::ECANCELED, job.op));
            return CancelOutcome::Cancelled;
        }
        let Some(running) = state.running.iter_mut().find(|r| r.token == token) else {
            return CancelOutcome::Finished;
        };
        running.cancelled.store(true, Ordering::Relaxed);
        match &running.interruption {
            // allocates: an iterator, no memory
            Some(interruption) => interruption.repeat(),
            None => running.interruption = Some(Interruption::of_thread(running.tid)),
        }
        CancelOutcome::Running
    }
}

impl Pool {
    /// In a forked child: the threads are not here, and one of them may have held the lock.
    pub(super) fn forget_threads(&mut self) {
        self.forked = true;
        // The other owners of the shared state are gone without letting go of it; neither can this one.
        std::mem::forget(Arc::clone(&self.shared));
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if self.forked {
            return;
        }
        let mut state = self.shared.lock();
        state.closing = true;
        let handles = std::mem::take(&mut state.handles);
        drop(state);
        self.shared.work.notify_all();
        for handle in handles {
            // The driver has drained: workers are idle or about to be.
            let _ = handle.join();
        }
    }
}

fn work(shared: &Shared) {
    block_signals();
    interrupt::admit();
    let tid = sys::gettid();
    let cancelled = Arc::new(AtomicBool::new(false));
    let mut state = shared.lock();
    while let Some(mut job) = next(shared, state, tid, &cancelled) {
        let res = run(&mut job, &cancelled);
        let waited = job.waits;
        // Posted first: an op that `cancel` does not find here any more is there.
        finish(shared, job, res);
        state = shared.lock();
        state.leave(tid, waited);
    }
}

/// The next job, or None when this worker is no longer needed.
fn next(
    shared: &Shared,
    mut state: MutexGuard<'_, State>,
    tid: libc::pid_t,
    cancelled: &Arc<AtomicBool>,
) -> Option<Job> {
    loop {
        if let Some(job) = state.take_job() {
            cancelled.store(false, Ordering::Relaxed);
            let cancelled = Arc::clone(cancelled);
            state.running.push(Running {
                token: job.token,
                bounded: job.most_threads().is_some(),
                tid,
                cancelled,
                interruption: None,
            });
            return Some(job);
        }
        if state.closing {
            state.threads -= 1;
            return None;
        }
        let (guard, waited) = shared
            .work
            .wait_timeout(state, IDLE)
            .expect("no worker panics in next()");
        state = guard;
        if waited.timed_out() && state.jobs.is_empty() {
            state.threads -= 1;
            return None;
        }
    }
}

fn run(job: &mut Job, cancelled: &AtomicBool) -> i32 {
    if let Err(errno) = set_priority(job.options.priority.raw()) {
        return -errno;
    }
    let res = loop {
        if cancelled.load(Ordering::Relaxed) {
            break -libc::ECANCELED;
        }
        match perform::perform_until(&mut job.op, job.skip, cancelled) {
            // Somebody else's signal, or ours: the top of the loop knows.
            e if e == -libc::EINTR => {}
            // O_NONBLOCK: the ring waits all the same, or such a file would be of no use to an asynchronous program.
            e if e == -libc::EAGAIN && wait_for_readiness(&job.op) => {}
            res => break res,
        }
    };
    if job.options.priority.raw() != 0 {
        let _ = set_priority_raw(0);
    }
    res
}

/// False if nothing is to be waited for: the op wants EAGAIN.
fn wait_for_readiness(op: &Op) -> bool {
    let (Readiness::Events(events), Some(file)) = (readiness(op), perform::transfer_file(op)) else {
        return false;
    };
    let mut entry = libc::pollfd {
        fd: file.fd(),
        events: events as i16,
        revents: 0,
    };
    // SAFETY: one live pollfd. An interruption ends the wait; the caller looks why.
    unsafe { libc::poll(&raw mut entry, 1, -1) };
    true
}

fn finish(shared: &Shared, job: Job, res: i32) {
    let Job {
        token, op, options, ..
    } = job;
    // First the caller's eventfd: whoever has the completion can count on it.
    signal(&options);
    shared.mailbox.post(raw_of(token, res, op));
}

fn signal(options: &Options) {
    if let Some(fd) = &options.notify {
        sys::eventfd_signal(fd.as_raw_fd());
    }
}

fn set_priority(raw: u16) -> Result<(), i32> {
    if raw == 0 {
        return Ok(());
    }
    set_priority_raw(raw)
}

fn set_priority_raw(raw: u16) -> Result<(), i32> {
    const IOPRIO_WHO_PROCESS: libc::c_int = 1;
    // SAFETY: no pointers. 0 is the calling thread.
    let ret = unsafe {
        libc::syscall(
            libc::SYS_ioprio_set,
            IOPRIO_WHO_PROCESS,
            0,
            libc::c_int::from(raw),
        )
    };
    if ret < 0 {
        Err(sys::errno())
    } else {
        Ok(())
    }
}

/// Keeps the program's own signals away from workers, but for faults. Which of the real-time signals interrupts
/// `interrupt::admit` knows. SIGURG, which stands in for it, stays as it was inherited: a program that takes it from a
/// signalfd has it blocked.
fn block_signals() {
    // SAFETY: the set is a live local, filled by sigfillset.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signo in 1..32 {
            if !matches!(
                signo,
                libc::SIGSEGV
                    | libc::SIGBUS
                    | libc::SIGFPE
                    | libc::SIGILL
                    | libc::SIGABRT
                    | interrupt::WITHOUT_QUEUE
            ) {
                libc::sigaddset(&raw mut set, signo);
            }
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::{Nop, ReadCached};

    fn job(op: impl Into<Op>) -> Job {
        Job::new(Token(0), Box::new(op.into()), 0, Options::default())
    }

    fn cached(most_threads: usize) -> ReadCached {
        ReadCached {
            most_threads,
            ..ReadCached::new(Vec::new())
        }
    }

    #[test]
    fn what_has_a_bound_keeps_nobody_else_waiting() {
        let mut state = State::default();
        state.running.push(Running {
            token: Token(0),
            bounded: true,
            tid: 1,
            cancelled: Arc::default(),
            interruption: None,
        });
        state
            .jobs
            .extend([job(cached(1)), job(cached(1)), job(Nop::new())]);
        assert!(matches!(*state.take_job().unwrap().op, Op::Nop(_)));
        assert!(state.take_job().is_none());
        state.running.clear();
        assert!(matches!(*state.take_job().unwrap().op, Op::ReadCached(_)));
    }
}
