//! A thread, its sockets, its listeners: it serves until it is told to stop.
//!
//! A worker makes its sockets in its own thread, for a ring belongs to the thread that made it, and says whether that succeeded;
//! listeners come afterwards, so that nothing is accepted before all workers are there. Invariant: what others ask of it is in one
//! word, which it reads once a turn.

use crate::config::Config;
use crate::context::Context;
use crate::handler::Handler;
use crate::latency::Latency;
use crate::listen::Bound;
use crate::serve::Service;
use crate::sockets::{Chosen, Sockets, Waker};
use crate::stats::Stats;
use crate::table::SocketId;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A snapshot is wanted.
const SNAPSHOT: u32 = 1;
/// No connection is accepted any more; the worker ends with its last one.
const DRAIN: u32 = 2;
/// The worker ends now.
const STOP: u32 = 4;

/// How long a worker that ends now waits for its connections to close.
const CLOSING: Duration = Duration::from_millis(200);
/// How long one waits for a worker's snapshot: a handler may take long.
const SNAPSHOT_WAIT: Duration = Duration::from_millis(500);
/// How often one looks meanwhile whether the worker has ended.
const SNAPSHOT_LOOK: Duration = Duration::from_millis(10);

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

#[derive(Default)]
struct Asked {
    word: AtomicU32,
    answer: Mutex<Answer>,
    answered: Condvar,
    has_ended: AtomicBool,
}

/// The last snapshot, and how many there were.
#[derive(Default)]
struct Answer {
    number: u64,
    snapshot: Snapshot,
}

impl Asked {
    fn answer(&self) -> MutexGuard<'_, Answer> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A worker's ends of what connects it with its group.
pub(crate) struct Ends {
    pub(crate) accept_failed: AcceptFailed,
    /// Gets what the sockets are on, or why there are none.
    pub(crate) made: Sender<io::Result<Made>>,
    /// Brings the listeners. A worker ends if the other side is dropped.
    pub(crate) listeners: Receiver<Vec<Bound>>,
    /// Is readable when a worker has ended.
    pub(crate) ended: Arc<OwnedFd>,
}

/// What a worker says when its sockets are made.
pub(crate) struct Made {
    pub(crate) chosen: Chosen,
    waker: Waker,
}

/// A worker, seen from another thread.
pub(crate) struct Worker {
    asked: Arc<Asked>,
    waker: Option<Waker>,
    thread: std::thread::JoinHandle<io::Result<()>>,
}

impl Worker {
    /// Starts the thread, which makes its sockets and then waits for its listeners.
    pub(crate) fn start<S: Service + Send + 'static>(
        name: String,
        config: Config,
        service: S,
        ends: Ends,
    ) -> io::Result<Self> {
        let asked = Arc::new(Asked::default());
        let shared = Arc::clone(&asked);
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            let ended = Ended {
                asked: Arc::clone(&shared),
                tell: ends.ended,
            };
            let mut sockets = match make(config) {
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
            for bound in listeners {
                sockets.adopt(bound)?;
            }
            let watched = Watched {
                service,
                accept_failed: ends.accept_failed,
            };
            let result = serve(&mut sockets, watched, &shared);
            // The listeners are closed before the end is told.
            drop(sockets);
            drop(ended);
            result
        })?;
        Ok(Worker {
            asked,
            waker: None,
            thread,
        })
    }

    pub(crate) fn set_waker(&mut self, made: Made) -> Chosen {
        self.waker = Some(made.waker);
        made.chosen
    }

    fn ask(&self, what: u32) {
        self.asked.word.fetch_or(what, Ordering::Release);
        if let Some(waker) = &self.waker {
            waker.wake();
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

    /// Asks for a snapshot. The number that is returned is for [`snapshot`](Self::snapshot), which waits for it.
    pub(crate) fn ask_snapshot(&self) -> u64 {
        let number = self.asked.answer().number;
        if !self.is_finished() {
            self.ask(SNAPSHOT);
        }
        number
    }

    /// The snapshot that was asked for, or the last one of a worker that has ended or that is busy.
    pub(crate) fn snapshot(&self, asked: u64) -> Snapshot {
        let deadline = Instant::now() + SNAPSHOT_WAIT;
        let mut answer = self.asked.answer();
        while answer.number == asked && !self.is_finished() && Instant::now() < deadline {
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

fn make(config: Config) -> io::Result<(Sockets, Made)> {
    let mut sockets = config.build()?;
    let waker = sockets.waker()?;
    let chosen = sockets.chosen().clone();
    Ok((sockets, Made { chosen, waker }))
}

/// The service, whose listeners' errors are told.
struct Watched<S> {
    service: S,
    accept_failed: AcceptFailed,
}

impl<S: Service> Handler for Watched<S> {
    fn opened(&mut self, cx: &mut Context<'_>, id: SocketId) {
        self.service.opened(cx, id);
    }

    #[inline]
    fn received(&mut self, cx: &mut Context<'_>, id: SocketId, bytes: &[u8]) {
        self.service.received(cx, id, bytes);
    }

    fn ended(&mut self, cx: &mut Context<'_>, id: SocketId) {
        self.service.ended(cx, id);
    }

    fn writable(&mut self, cx: &mut Context<'_>, id: SocketId) {
        self.service.writable(cx, id);
    }

    fn closed(&mut self, cx: &mut Context<'_>, id: SocketId, error: Option<&io::Error>) {
        self.service.closed(cx, id, error);
    }

    fn accept_failed(&mut self, cx: &mut Context<'_>, listener: SocketId, error: &io::Error) {
        (self.accept_failed)(error);
        self.service.accept_failed(cx, listener, error);
    }
}

fn serve<S: Service>(sockets: &mut Sockets, mut watched: Watched<S>, asked: &Asked) -> io::Result<()> {
    let mut latency = Latency::default();
    let mut is_draining = false;
    let mut before = 0;
    let ended = loop {
        if let Err(e) = sockets.turn(&mut watched, None) {
            break Err(e);
        }
        let requests = watched.service.requests(&sockets.stats());
        if requests > before {
            latency.record(sockets.last_turn(), requests - before);
        }
        before = requests;
        let word = asked.word.load(Ordering::Acquire);
        if word == 0 {
            continue;
        }
        if word & SNAPSHOT != 0 {
            asked.word.fetch_and(!SNAPSHOT, Ordering::AcqRel);
            answer(sockets, &watched.service, &latency, asked);
        }
        if word & STOP != 0 {
            break close(sockets, &mut watched);
        }
        if word & DRAIN != 0 {
            if !std::mem::replace(&mut is_draining, true) {
                // Connections that have come before are served.
                sockets.turn(&mut watched, Some(Duration::ZERO))?;
                sockets.with(close_listeners);
            }
            if sockets.with(|cx| cx.connections()) == 0 {
                break Ok(());
            }
        }
    };
    answer(sockets, &watched.service, &latency, asked);
    ended
}

fn answer<S: Service>(sockets: &mut Sockets, service: &S, latency: &Latency, asked: &Asked) {
    let stats = sockets.stats();
    let snapshot = Snapshot {
        stats,
        connections: sockets.with(|cx| cx.connections()),
        requests: service.requests(&stats),
        calls: sockets.calls(),
        latency: latency.clone(),
    };
    let mut answer = asked.answer();
    answer.number += 1;
    answer.snapshot = snapshot;
    drop(answer);
    asked.answered.notify_all();
}

fn close_listeners(cx: &mut Context<'_>) {
    for id in cx.listeners() {
        cx.close(id);
    }
}

/// Closes everything, within a bounded time.
fn close<S: Service>(sockets: &mut Sockets, watched: &mut Watched<S>) -> io::Result<()> {
    let deadline = Instant::now() + CLOSING;
    sockets.with(|cx| {
        for id in cx.ids() {
            cx.close(id);
        }
    });
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || sockets.with(|cx| cx.ids().is_empty()) {
            return Ok(());
        }
        sockets.turn(watched, Some(left))?;
    }
}
