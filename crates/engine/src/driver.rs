//! Accepts ops, keeps them while they are in flight, collects what comes back.
//!
//! A driver belongs to one thread and takes no locks. It does not know how a backend works. Invariants: each accepted op
//! is reported exactly once (a multishot op until `more` is false), and its memory is freed only after the backend has
//! let go of it, whatever becomes of the caller, the driver or the process that forked.

mod awaiting;
mod chain;
pub(crate) mod complete;
mod descriptors;
mod disabled;
mod each;
mod lend;
mod register;
mod run;
mod shutdown;
mod submit;
mod watched;

pub(crate) use chain::{gathered, not_started, End};
pub use chain::{Chain, FailedChain};
pub(crate) use complete::Ready;
pub use complete::{Completion, Output};
use descriptors::Parking;
pub use disabled::Disabled;
pub use each::Each;
pub use run::Failed;
pub(crate) use run::{driver_error, finished, typed};
pub use watched::Watched;

use crate::backend::{Backend, CancelOutcome, Raw};
use crate::buffer::BufferTable;
use crate::config::Config;
use crate::error::Refusal;
use crate::inflight::{Slab, State, Token};
use crate::probe::{self, Chosen, Engine, Support};
use crate::sys;
use std::collections::VecDeque;
use std::io;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::task;
use std::time::{Duration, Instant};

static NEXT_DRIVER_ID: AtomicU64 = AtomicU64::new(1);

/// One queue of ops on one backend, used by one thread.
///
/// ```
/// use proactor_engine::{Driver, op::{Open, OpenFlags, Read}};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut driver = Driver::new()?;
/// let file = driver.run(Open::new("Cargo.toml", OpenFlags::READ_ONLY))?;
/// let (count, bytes) = driver.run(Read::new(file, Vec::with_capacity(4096)))?;
/// assert!(count > 0 && bytes.starts_with(b"["));
/// # Ok(()) }
/// ```
pub struct Driver {
    /// Dropped by hand (`shutdown.rs`): before the slab, and not at all if the kernel could not be waited for.
    backend: ManuallyDrop<Box<dyn Backend>>,
    slab: Slab,
    /// Accepted, with no room in the backend yet. In order. A token whose op was cancelled meanwhile stays for a while.
    backlog: VecDeque<Token>,
    /// At most so many of those.
    stale: usize,
    /// What has completed and has not been handed out. The ops are in their slots.
    ready: VecDeque<Ready>,
    raw: Vec<Raw>,
    /// Of futures whose ops have ended. They are woken when the driver is not borrowed (`io`).
    woken: Vec<task::Waker>,
    /// What ends a wait where there is no ring (`awaiting.rs`).
    wake_event: Option<Arc<OwnedFd>>,
    in_flight: usize,
    /// Accepted and not yet handed out, less the abandoned ones.
    pending: usize,
    depth: usize,
    bound: usize,
    inline: bool,
    /// The ring polls its device.
    iopoll: bool,
    parking: Parking,
    /// Somebody watches `eventfd()`, so it must tell of completions that the kernel does not know.
    watched: bool,
    chosen: Chosen,
    id: u64,
    generation: u32,
    buffers: Option<Arc<BufferTable>>,
    not_send: PhantomData<*const ()>, // a ring made for one submitter refuses every other thread
}

impl Driver {
    /// A driver with the default configuration on the best backend that works here.
    ///
    /// # Errors
    /// As [`Config::build`].
    pub fn new() -> io::Result<Self> {
        Config::default().build()
    }

    /// The configuration to start from.
    pub fn builder() -> Config {
        Config::default()
    }

    pub(crate) fn with_config(mut config: Config) -> io::Result<Self> {
        let generation = sys::fork::generation();
        config.driver_id = NEXT_DRIVER_ID.fetch_add(1, Ordering::Relaxed);
        let (backend, chosen) = probe::open(&config)?;
        let depth = config.depth as usize;
        Ok(Driver {
            backend: ManuallyDrop::new(backend),
            slab: Slab::default(),
            backlog: VecDeque::new(),
            stale: 0,
            ready: VecDeque::new(),
            raw: Vec::new(),
            woken: Vec::new(),
            wake_event: None,
            in_flight: 0,
            pending: 0,
            depth,
            bound: depth.saturating_add(config.backlog),
            inline: config.inline,
            iopoll: config.iopoll && chosen.engine == Engine::IoUring,
            parking: Parking::new(&config, &chosen),
            watched: false,
            chosen,
            id: config.driver_id,
            generation,
            buffers: None,
            not_send: PhantomData,
        })
    }

    /// Which backend this driver is on, and why.
    pub fn chosen(&self) -> &Chosen {
        &self.chosen
    }

    /// How this driver does one kind of op.
    pub fn support(&self, kind: crate::op::OpKind) -> Support {
        self.backend.support(kind)
    }

    /// Ops accepted whose (last) completion has not been handed out.
    pub fn pending(&self) -> usize {
        self.pending
    }

    /// Completions that `wait` would hand out without waiting.
    pub fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Whether this process was forked after the driver was made, so that it can no longer be used.
    pub fn is_forked(&self) -> bool {
        self.generation != sys::fork::current()
    }

    /// Tells whoever watches `eventfd()` of a completion that did not come from the backend.
    fn announce(&mut self) {
        if self.watched && !self.ready.is_empty() {
            self.backend.wake();
        }
    }

    /// Hands what has been accepted to the kernel, as far as the queue has room.
    ///
    /// # Errors
    /// What the kernel says when it cannot take any (ENOMEM, EAGAIN). Nothing is lost; try again after a `wait`.
    pub fn flush(&mut self) -> io::Result<()> {
        self.check_fork()?;
        self.pump();
        self.backend.flush()
    }

    /// Collects completions into `out`: at least `min`, at most `max`, unless `timeout` passes first.
    ///
    /// Never waits for more than are pending. `min == 0` does not block; `timeout == None` is for ever. Returns how
    /// many were added: fewer than `min` also if a signal handler ran after the first ones.
    ///
    /// # Errors
    /// `Interrupted` when a signal handler ran while it waited, or work of the kernel's own for this thread (the end of a
    /// ring, say), `OutOfMemory` if `out` cannot grow: nothing is lost, call again.
    pub fn wait(
        &mut self,
        min: usize,
        max: usize,
        timeout: Option<Duration>,
        out: &mut Vec<Completion>,
    ) -> io::Result<usize> {
        self.check_fork()?;
        // A time that the clock cannot hold never comes.
        let deadline = timeout.and_then(|t| Instant::now().checked_add(t));
        let mut left = timeout.filter(|_| deadline.is_some());
        let before = out.len();
        loop {
            self.pump();
            let given = out.len() - before;
            let wanted = min.min(max).min(given + self.pending);
            let missing = wanted.saturating_sub(given + self.ready.len());
            let tried = self.collect_into(missing, left, max - given, out);
            let given = out.len() - before;
            match tried {
                // Seldom: what is taken for enough was not.
                Err(_) if given > 0 => break,
                tried => tried?,
            }
            let wanted = min.min(max).min(given + self.pending);
            if given + self.ready.len() >= wanted || left == Some(Duration::ZERO) {
                break;
            }
            if let Some(deadline) = deadline {
                left = Some(deadline.saturating_duration_since(Instant::now()));
            }
        }
        let count = (max - (out.len() - before)).min(self.ready.len());
        match out.try_reserve(count) {
            Err(_) if out.len() > before => {}
            tried => {
                tried?;
                self.hand_out(count, out);
            }
        }
        // What `max` has left behind must stay visible.
        self.announce();
        Ok(out.len() - before)
    }

    /// One round with the backend.
    fn collect(&mut self, min: usize, timeout: Option<Duration>) -> io::Result<()> {
        self.collect_into(min, timeout, 0, &mut Vec::new())
    }

    /// As `collect`. If the round seems to bring all that are `missing`, so that nothing can fail any more, at most `max`
    /// completions go right to `out`, as far as it has room and nothing is before them.
    fn collect_into(
        &mut self,
        missing: usize,
        timeout: Option<Duration>,
        max: usize,
        out: &mut Vec<Completion>,
    ) -> io::Result<()> {
        let mut raw = std::mem::take(&mut self.raw);
        let min = self.at_once(missing);
        let result = self.backend.wait(min, timeout, &mut raw);
        let full = match result.is_ok() && raw.len() >= missing {
            true => out.len().saturating_add(max),
            false => 0,
        };
        self.finish_all_into(&mut raw, full, out);
        self.raw = raw;
        // Next steps, which must not lie here until the caller returns.
        let more = !self.backlog.is_empty() || !self.parking.is_empty();
        self.pump();
        match result {
            Ok(()) if more => self.backend.flush(),
            result => result,
        }
    }

    /// `full`: as many as `out` is to have at most.
    #[inline(never)]
    fn finish_all_into(&mut self, raw: &mut Vec<Raw>, full: usize, out: &mut Vec<Completion>) {
        for one in raw.drain(..) {
            let at_once = self.ready.is_empty() && out.len() < full;
            if !(at_once && self.hand_out_single(&one, out)) {
                self.finish(one, false);
            }
        }
    }

    /// Asks for one op to stop, and says what came of it. Its completion comes all the same, and with it the buffer.
    pub fn cancel(&mut self, token: Token) -> CancelOutcome {
        let outcome = self.cancel_quietly(token);
        self.announce();
        outcome
    }

    fn cancel_quietly(&mut self, token: Token) -> CancelOutcome {
        if self.is_forked() {
            return CancelOutcome::Finished;
        }
        let Some(slot) = self.slab.get_mut(token) else {
            return CancelOutcome::Finished;
        };
        slot.cancelled = true;
        if slot.state == State::Waiting {
            // In the backlog, or behind an op that it is linked to; `finish` takes its successors along.
            self.finish(Raw::new(token, -libc::ECANCELED), true);
            self.tidy_backlog();
            return CancelOutcome::Cancelled;
        }
        let mut raw = std::mem::take(&mut self.raw);
        let mut outcome = self.backend.cancel(token, &mut raw);
        if raw.iter().any(|one| self.would_wait(one, token)) {
            outcome = CancelOutcome::Cancelled;
        }
        for one in raw.drain(..) {
            self.finish(one, false);
        }
        self.raw = raw;
        outcome
    }

    /// Counts a token that may be stale, and throws them out when they are half of all: each one at once would make
    /// cancelling many take the square of their number.
    fn tidy_backlog(&mut self) {
        self.stale += 1;
        if self.stale > self.backlog.len() / 2 {
            self.backlog.retain(|&token| self.slab.get_mut(token).is_some());
            self.stale = 0;
        }
    }

    /// Gives up on one op: it is cancelled if that is still possible, its completion is not reported, and its buffer is
    /// freed when the backend has let go of it. The descriptor of an abandoned open is closed.
    pub fn abandon(&mut self, token: Token) {
        if self.slab.awaits_its_end(token) {
            drop(self.slab.take_done(token));
            return;
        }
        // A multishot op may have several events here, and its end.
        self.ready.retain(|ready| {
            self.pending -= usize::from(ready.token == token && !ready.more());
            ready.token != token
        });
        if self.slab.take_done(token).is_some() {
            return;
        }
        let Some(slot) = self.slab.get_mut(token).filter(|slot| !slot.abandoned) else {
            return;
        };
        slot.abandoned = true;
        self.pending -= 1;
        let in_flight = self.in_flight;
        self.cancel_quietly(token);
        if self.in_flight < in_flight && !self.backlog.is_empty() {
            self.pump();
            let _ = self.backend.flush(); // the next wait tells
        }
        self.announce();
    }

    /// A descriptor that polls readable while a completion can be collected, for another event loop (an eventfd or an epoll
    /// instance). [`wait`](Self::wait) with `min == 0` resets it; do not read from it or close it. [`watched`](Self::watched)
    /// gives it as an `AsFd`. Ask for it before there are ops: linux_aio first waits for the transfers it has in flight, which nothing would tell of.
    ///
    /// # Errors
    /// If it cannot be made (EMFILE).
    pub fn eventfd(&mut self) -> io::Result<RawFd> {
        self.check_fork()?;
        let fd = self.backend.eventfd()?;
        self.watched = true;
        self.announce();
        Ok(fd)
    }

    #[inline]
    fn check_fork(&self) -> io::Result<()> {
        match self.is_forked() {
            true => Err(io::Error::other(Refusal::Forked.to_string())),
            false => Ok(()),
        }
    }
}
