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

pub(crate) use chain::{gathered, not_started, End};
pub use chain::{Chain, FailedChain};
pub use complete::{Completion, Output};
use descriptors::Parking;
pub use disabled::Disabled;
pub use each::Each;
pub(crate) use run::finished;
pub use run::Failed;

use crate::backend::{Backend, CancelOutcome, Raw};
use crate::buffer::BufferTable;
use crate::config::Config;
use crate::error::{Refusal, SubmitError};
use crate::inflight::{Slab, State, Token};
use crate::op::{Nop, Op, Options};
use crate::probe::{self, Chosen, Engine, Support};
use crate::{inline, sys};
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
/// use proactor::{Driver, op::{Open, Read}};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut driver = Driver::new()?;
/// let file = driver.run(Open::new("Cargo.toml", libc::O_RDONLY))?;
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
    ready: VecDeque<Completion>,
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

    /// Accepts one op.
    ///
    /// Nothing is in the kernel's hands before [`flush`](Self::flush) or [`wait`](Self::wait), unless the queue fills up
    /// before; ops that could be finished at once are complete already.
    ///
    /// # Errors
    /// The op comes back when the queue and the backlog are full, when the op can never succeed (a vector of more than
    /// 1,024 buffers, an offset beyond 2^63, a read into read-only memory), or in a forked child.
    pub fn submit(&mut self, op: impl Into<Op>) -> Result<Token, SubmitError> {
        self.submit_with(op, Options::default())
    }

    /// Accepts one op with a priority, a notification, or without the attempt to finish it at once.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    pub fn submit_with(&mut self, op: impl Into<Op>, options: Options) -> Result<Token, SubmitError> {
        self.accept(op.into(), options, false)
    }

    /// `awaited`: a future takes the result.
    fn accept(&mut self, op: Op, options: Options, awaited: bool) -> Result<Token, SubmitError> {
        if let Err(refusal) = self.admit(&op, &options, false, 1) {
            return Err(SubmitError {
                op: Box::new(op),
                refusal,
            });
        }
        // The priority concerns the device, which an inline op does not touch. But who may not use a class is to hear of it.
        let inline = self.inline && !options.no_inline && !options.priority.is_real_time();
        let token = self.slab.insert(op, options);
        if let Some(slot) = self.slab.get_mut(token).filter(|_| awaited) {
            slot.awaited = true;
        }
        self.pending += 1;
        if inline && self.try_inline(token) {
            return Ok(token);
        }
        self.backlog.push_back(token);
        if self.backlog.len() == 1 {
            self.pump();
        }
        Ok(token)
    }

    /// Accepts ops until one is refused; what is left in `ops` is untouched.
    ///
    /// # Errors
    /// Only if the very first is refused. That one is then in the error.
    pub fn submit_batch(&mut self, ops: &mut VecDeque<Op>) -> Result<Vec<Token>, SubmitError> {
        let mut tokens = Vec::with_capacity(ops.len()); // allocates: 8 bytes for each op of the caller's
        while let Some(op) = ops.pop_front() {
            match self.submit(op) {
                Ok(token) => tokens.push(token),
                Err(error) if tokens.is_empty() => return Err(error),
                Err(error) => {
                    ops.push_front(*error.op);
                    break;
                }
            }
        }
        Ok(tokens)
    }

    /// Accepts a chain: each op starts when the one before it has succeeded in full. After a failure or a short transfer
    /// the rest complete with ECANCELED. The kernel runs the chain where it can, the driver where not.
    ///
    /// # Errors
    /// All or nothing: the ops come back with the refusal of the first that is refused.
    pub fn submit_linked(&mut self, ops: Vec<Op>) -> Result<Vec<Token>, (Vec<Op>, Refusal)> {
        self.accept_linked(ops, false)
    }

    pub(crate) fn accept_linked(
        &mut self,
        ops: Vec<Op>,
        awaited: bool,
    ) -> Result<Vec<Token>, (Vec<Op>, Refusal)> {
        let options = Options::default();
        let refusal = ops
            .iter()
            .find_map(|op| self.admit(op, &options, true, ops.len()).err());
        if let Some(refusal) = refusal {
            return Err((ops, refusal));
        }
        // A chain goes to the kernel in one piece, so nothing may stand before it in the backlog.
        self.pump();
        let by_kernel = self.backlog.is_empty()
            && self.in_flight + ops.len() <= self.depth
            && !ops.iter().any(|op| self.needs_permit(op))
            && self.backend.links(&ops);
        let tokens: Vec<Token> = ops
            .into_iter()
            .map(|op| self.slab.insert(op, Options::default()))
            .collect();
        self.pending += tokens.len();
        for (i, &token) in tokens.iter().enumerate() {
            let next = tokens.get(i + 1).copied();
            let slot = self.slab.get_mut(token).expect("inserted above");
            slot.awaited = awaited;
            if by_kernel {
                slot.link = next.is_some();
                self.backlog.push_back(token);
            } else {
                slot.next = next;
            }
        }
        if !by_kernel {
            self.backlog.extend(tokens.first()); // allocates: one token at most
        }
        self.pump();
        Ok(tokens)
    }

    fn admit(&self, op: &Op, options: &Options, linked: bool, count: usize) -> Result<(), Refusal> {
        if self.is_forked() {
            return Err(Refusal::Forked);
        }
        if self.slab.len() + self.ready.len() + count > self.bound {
            return Err(Refusal::Full { bound: self.bound });
        }
        op.check(options, linked).map_err(Refusal::Invalid)
    }

    fn try_inline(&mut self, token: Token) -> bool {
        let slot = self.slab.get_mut(token).expect("the caller has just inserted it");
        let Some(res) = inline::attempt(&mut slot.op, &mut slot.skip) else {
            return false;
        };
        self.finish(Raw::new(token, res), true);
        self.announce();
        true
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
    /// many were added.
    ///
    /// # Errors
    /// `Interrupted` when a signal handler ran while it waited, or work of the kernel's own for this thread (the end of a
    /// ring, say): nothing is lost, call again.
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
        loop {
            self.pump();
            let missing = min.min(max).min(self.pending).saturating_sub(self.ready.len());
            self.collect(self.at_once(missing), left)?;
            if self.ready.len() >= min.min(max).min(self.pending) || left == Some(Duration::ZERO) {
                break;
            }
            if let Some(deadline) = deadline {
                left = Some(deadline.saturating_duration_since(Instant::now()));
            }
        }
        let count = max.min(self.ready.len());
        for completion in self.ready.drain(..count) {
            self.pending -= usize::from(!completion.more);
            out.push(completion);
        }
        // What `max` has left behind must stay visible.
        self.announce();
        Ok(count)
    }

    /// One round with the backend.
    fn collect(&mut self, min: usize, timeout: Option<Duration>) -> io::Result<()> {
        let mut raw = std::mem::take(&mut self.raw);
        let result = self.backend.wait(min, timeout, &mut raw);
        for one in raw.drain(..) {
            self.finish(one, false);
        }
        self.raw = raw;
        // Next steps, which must not lie here until the caller returns.
        let more = !self.backlog.is_empty() || !self.parking.is_empty();
        self.pump();
        match result {
            Ok(()) if more => self.backend.flush(),
            result => result,
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
        if self.slab.take_done(token).is_some() {
            return;
        }
        // A multishot op may have several events here, and its end.
        self.ready.retain(|c| {
            self.pending -= usize::from(c.token == token && !c.more);
            c.token != token
        });
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
    /// instance). [`wait`](Self::wait) with `min == 0` resets it; do not read from it or close it. Ask for it before there
    /// are ops: linux_aio first waits for the transfers it has in flight, which nothing would tell of.
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

    fn take_op(&mut self, token: Token) -> Op {
        self.slab.remove(token).unwrap_or(Op::Nop(Nop))
    }
}
