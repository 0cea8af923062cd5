//! A thread and its rings, seen from the threads that started it.
//!
//! A worker makes its sockets in its own thread, for a ring belongs to the thread that made it, and says whether that succeeded;
//! listeners come afterwards, so that nothing is accepted before all workers are there. Invariant: what others ask of it is in one
//! word, which it reads once a turn.

use crate::balance::Balance;
use crate::config::Config;
use crate::latency::Latency;
use crate::listen::Bound;
use crate::serve::Service;
use crate::serving::{self, Ring};
use crate::sockets::{Chosen, Sockets, Waker};
use crate::stats::Stats;
use rustix::thread::CpuSet;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A snapshot is wanted.
pub(crate) const SNAPSHOT: u32 = 1;
/// No connection is accepted any more; the worker ends with its last one.
pub(crate) const DRAIN: u32 = 2;
/// The worker ends now.
pub(crate) const STOP: u32 = 4;
/// Connections were handed to one of its rings.
pub(crate) const MAIL: u32 = 8;

/// How long one waits for a worker's snapshot: a handler may take long.
const SNAPSHOT_WAIT: Duration = Duration::from_millis(500);
/// How often one looks meanwhile whether the worker has ended.
const SNAPSHOT_LOOK: Duration = Duration::from_millis(10);

/// A thread of a group.
#[derive(Debug, Clone, Default)]
pub struct WorkerPlan {
    /// What each of its rings is made of; one, or one for each kernel worker that it drives.
    pub rings: Vec<Config>,
    /// The processor that it is bound to.
    pub cpu: Option<u32>,
    /// The worker before it whose kernel worker its rings share.
    pub shares_with: Option<usize>,
}

/// What a worker has done so far.
#[derive(Clone, Default)]
pub struct Snapshot {
    /// What has happened to its sockets.
    pub stats: Stats,
    /// Streams that are open.
    pub connections: usize,
    /// Requests that its service has answered.
    pub requests: u64,
    /// System calls that its sockets have made.
    pub calls: u64,
    /// From the end of a turn's wait until its replies were sent or queued, for each of its requests.
    pub latency: Latency,
}

/// Is told why no connection can be accepted for now, from any worker's thread.
pub(crate) type AcceptFailed = Arc<dyn Fn(&io::Error) + Send + Sync>;

/// What is asked of a worker, and its answers.
#[derive(Default)]
pub(crate) struct Asked {
    word: AtomicU32,
    /// Turns that have brought something, written by the worker only.
    turns: AtomicU64,
    answer: Mutex<Answer>,
    answered: Condvar,
    has_ended: AtomicBool,
}

/// The last snapshot, and how many there were.
#[derive(Default)]
struct Answer {
    number: u64,
    /// The worker's turns when it was given.
    turns: u64,
    snapshot: Snapshot,
}

impl Asked {
    fn lock(&self) -> MutexGuard<'_, Answer> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, what: u32, waker: &Waker) {
        self.word.fetch_or(what, Ordering::Release);
        waker.wake();
    }

    /// Tells of connections that were handed over.
    pub(crate) fn mail(&self, waker: &Waker) {
        self.ask(MAIL, waker);
    }

    /// What is asked for.
    #[inline]
    pub(crate) fn word(&self) -> u32 {
        self.word.load(Ordering::Acquire)
    }

    /// Takes note of a turn.
    #[inline]
    pub(crate) fn count_turn(&self) {
        let turns = self.turns.load(Ordering::Relaxed);
        self.turns.store(turns + 1, Ordering::Release);
    }

    /// Takes note that something is being done.
    pub(crate) fn clear(&self, what: u32) {
        self.word.fetch_and(!what, Ordering::AcqRel);
    }

    pub(crate) fn answer(&self, snapshot: Snapshot) {
        let mut answer = self.lock();
        answer.number += 1;
        answer.turns = self.turns.load(Ordering::Relaxed);
        answer.snapshot = snapshot;
        drop(answer);
        self.answered.notify_all();
    }
}

/// A worker's ends of what connects it with its group.
pub(crate) struct Ends {
    pub(crate) accept_failed: AcceptFailed,
    /// Gets what the sockets are on, or why there are none.
    pub(crate) made: Sender<io::Result<Made>>,
    /// Brings the listeners of each ring. A worker ends if the other side is dropped.
    pub(crate) listeners: Receiver<Vec<Vec<Bound>>>,
    /// Is readable when a worker has ended.
    pub(crate) ended: Arc<OwnedFd>,
    /// Of each of its rings.
    pub(crate) balance: Vec<Balance>,
}

/// What a worker says when its sockets are made.
pub(crate) struct Made {
    pub(crate) chosen: Chosen,
    pub(crate) waker: Waker,
    /// What a ring begins with that shares this one's kernel worker.
    pub(crate) attach: Option<proactor_engine::Config>,
}

/// A worker, seen from another thread.
pub(crate) struct Worker {
    pub(crate) asked: Arc<Asked>,
    pub(crate) waker: Option<Waker>,
    thread: std::thread::JoinHandle<io::Result<()>>,
}

impl Worker {
    /// Starts the thread, which makes its sockets and then waits for its listeners. There is a service for each ring.
    pub(crate) fn start<S: Service + Send + 'static>(
        name: String,
        plan: WorkerPlan,
        services: Vec<S>,
        ends: Ends,
    ) -> io::Result<Self> {
        let asked = Arc::new(Asked::default());
        let shared = Arc::clone(&asked);
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            let ended = Ended {
                asked: Arc::clone(&shared),
                tell: ends.ended,
            };
            let spin = plan
                .rings
                .first()
                .map_or(Duration::ZERO, |config| config.user_spin);
            let sockets = match make(plan) {
                Ok((sockets, it)) => {
                    let _ = ends.made.send(Ok(it));
                    sockets
                }
                Err(e) => {
                    let _ = ends.made.send(Err(e));
                    return Ok(());
                }
            };
            let Ok(listeners) = ends.listeners.recv() else {
                return Ok(());
            };
            let mut rings = Vec::new();
            let parts = sockets.into_iter().zip(services).zip(listeners).zip(ends.balance);
            for (((sockets, service), listeners), balance) in parts {
                let failed = Arc::clone(&ends.accept_failed);
                rings.push(Ring::new(sockets, service, failed, balance, listeners)?);
            }
            let result = serving::serve(&mut rings, spin, &shared);
            // The listeners are closed before the end is told.
            drop(rings);
            drop(ended);
            result
        })?;
        Ok(Worker {
            asked,
            waker: None,
            thread,
        })
    }

    fn ask(&self, what: u32) {
        if let Some(waker) = &self.waker {
            self.asked.ask(what, waker);
        }
    }

    pub(crate) fn drain(&self) {
        self.ask(DRAIN);
    }

    pub(crate) fn stop(&self) {
        self.ask(STOP);
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.asked.has_ended.load(Ordering::Acquire)
    }

    /// Asks for a snapshot. The number that is returned is for [`snapshot`](Self::snapshot), which waits for it. A worker that
    /// had no turn since its last one is not woken up: that would keep an idle kernel worker awake.
    pub(crate) fn ask_snapshot(&self) -> Option<u64> {
        let answer = self.asked.lock();
        let (number, is_new) = (
            answer.number,
            answer.turns == self.asked.turns.load(Ordering::Acquire),
        );
        drop(answer);
        if is_new || self.is_finished() {
            return None;
        }
        self.ask(SNAPSHOT);
        Some(number)
    }

    /// The snapshot that was asked for, or the last one of a worker that has ended or that is busy.
    pub(crate) fn snapshot(&self, asked: Option<u64>) -> Snapshot {
        let deadline = Instant::now() + SNAPSHOT_WAIT;
        let mut answer = self.asked.lock();
        while asked == Some(answer.number) && !self.is_finished() && Instant::now() < deadline {
            let waited = self.asked.answered.wait_timeout(answer, SNAPSHOT_LOOK);
            answer = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        answer.snapshot.clone()
    }

    /// Waits for the end.
    pub(crate) fn join(self) -> io::Result<()> {
        match self.thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// Tells of the worker's end, also of one by a panic.
struct Ended {
    asked: Arc<Asked>,
    tell: Arc<OwnedFd>,
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.asked.has_ended.store(true, Ordering::Release);
        // EAGAIN: it is readable already.
        let _ = rustix::io::write(&self.tell, &1u64.to_ne_bytes());
    }
}

fn make(plan: WorkerPlan) -> io::Result<(Vec<Sockets>, Made)> {
    if let Some(cpu) = plan.cpu {
        let mut set = CpuSet::new();
        set.set(cpu as usize);
        rustix::thread::sched_setaffinity(None, &set)?;
    }
    let mut rings = plan
        .rings
        .into_iter()
        .map(Config::build)
        .collect::<io::Result<Vec<Sockets>>>()?;
    let first = rings.first_mut().ok_or(io::ErrorKind::InvalidInput)?;
    let made = Made {
        chosen: first.chosen().clone(),
        waker: first.waker()?,
        attach: first.attachment()?,
    };
    Ok((rings, made))
}
