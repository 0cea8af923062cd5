//! One engine driver per event loop.
//!
//! Submissions of one loop iteration go to the kernel in one call (`flush`, scheduled once by `call_soon`). The driver's
//! eventfd is a reader of the loop; each wake-up takes all completions and resolves their futures directly.

use super::future::{from_the_loop, running_loop};
pub(crate) use super::future::{is_done, new_future, resolve, suspend_on, wake, LoopFuture};
use super::orphan::Last;
use super::reader::Reader;
pub(crate) use super::registry::current;
pub(crate) use super::waiter::Waiter;
use crate::aio_engine;
use crate::errors;
use crate::file::Turn;
use crate::memory::lacking;
use crate::python_code;
use crate::thread_bound::{AssertSend, ThreadBound};
use proactor_engine::op::Op;
use proactor_engine::{Completion, Config, Options, Refusal, SubmitError, Token};
use pyo3::exceptions::{PyNotImplementedError, PyRuntimeError};
use pyo3::gc::PyVisit;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyWeakrefMethods, PyWeakrefReference};
use pyo3::PyTraverseError;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Completions handled per wake-up: a long batch of large files must not hold up the loop. The rest keeps the driver's
/// descriptor readable.
const BATCH: usize = 16;
/// Kernel workers for disk work. Cold opens and metadata wait for the device one by one in them; the kernel's default,
/// four per processor, leaves a disk idle on small machines.
const IO_WORKERS: u32 = 16;
/// The `op` of an OSError that no op of the caller has met.
const DRIVER: &str = "driver";

/// Completions, each with who waits for it.
type Done = Vec<(Option<Waiter>, Completion)>;

/// Who waited for ops, with what is known of them, and who waited in line.
type Left = (Vec<(Waiter, Last)>, VecDeque<Py<LoopFuture>>);

/// The bridge between an event loop and an engine driver. Made by the first call on a loop; not for direct use.
#[pyclass(weakref, module = "proactor._native")]
pub(crate) struct LoopDriver {
    driver: ThreadBound,
    pub(super) event_loop: Py<PyWeakrefReference>,
    /// What the loop watches: a copy, for the engine's own goes with its thread.
    watched: Option<OwnedFd>,
    process: u32,
    waiting: HashMap<Token, Waiter>,
    flush_scheduled: bool,
    /// Handles of `_wake` that the loop has yet to run.
    flushes: u32,
    closed: bool,
    /// Who has had how much of this turn of the loop.
    pub(crate) turn: Turn,
}

impl LoopDriver {
    pub(super) fn make<'py>(
        py: Python<'py>,
        event_loop: &Bound<'py, PyAny>,
        engine: Option<&str>,
    ) -> PyResult<Bound<'py, LoopDriver>> {
        let mut config = Config::default();
        if let Some(engine) = aio_engine(engine)? {
            config = config.engine(engine);
        }
        // Kernels before 5.15 and some engines have no such limit.
        let mut driver = match config.clone().io_workers(IO_WORKERS, 0).build() {
            Ok(driver) => driver,
            Err(_) => config.build().map_err(|e| errors::no_engine(py, &e, DRIVER))?,
        };
        let watched = driver.eventfd().and_then(|fd| {
            // SAFETY: the driver has it open.
            unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned()
        });
        let watched = watched.map_err(|e| errors::io_error(py, &e, DRIVER))?;
        let fd = watched.as_raw_fd();
        let this = LoopDriver {
            driver: ThreadBound::new(driver),
            event_loop: PyWeakrefReference::new(event_loop)?.unbind(),
            watched: Some(watched),
            process: std::process::id(),
            waiting: HashMap::new(),
            flush_scheduled: false,
            flushes: 0,
            closed: false,
            turn: Turn::default(),
        };
        let this = Bound::new(py, this)?;
        let driver = this.clone().unbind();
        let (fd, reader) = (fd.into_pyobject(py)?, Bound::new(py, Reader::new(driver))?);
        let args = [fd.as_any(), reader.as_any()];
        python_code::call_method(event_loop, intern!(py, "add_reader"), args).map_err(|e| {
            if e.is_instance_of::<PyNotImplementedError>(py) {
                PyRuntimeError::new_err("proactor needs an event loop with add_reader()")
            } else {
                e
            }
        })?;
        Ok(this)
    }

    /// Whether it takes ops from here.
    pub(super) fn is_open(&mut self) -> bool {
        !self.closed && self.usable()
    }

    pub(super) fn set_waiter(&mut self, token: Token, waiter: Waiter) {
        self.waiting.insert(token, waiter);
    }

    pub(super) fn usable(&mut self) -> bool {
        self.driver.get().is_ok_and(|driver| !driver.is_forked())
    }

    /// Whether the loop runs in another thread than before, where nobody hears of what was begun. (A forked child has the
    /// loop's epoll instance in common with its parent, and leaves it alone.)
    pub(super) fn has_moved(&self) -> bool {
        !self.closed && !self.driver.is_mine() && self.process == std::process::id()
    }

    /// Hands an op to the engine; `waiter` hears of its completion. The caller has tried to finish it at once.
    ///
    /// # Errors
    /// If the op is refused.
    pub(crate) fn submit(&mut self, py: Python<'_>, op: impl Into<Op>, waiter: Waiter) -> PyResult<Token> {
        self.submit_op(py, op.into(), waiter).map_err(|(_, e)| e)
    }

    /// As `submit`, and a refused op comes back.
    pub(crate) fn submit_op(
        &mut self,
        py: Python<'_>,
        op: Op,
        waiter: Waiter,
    ) -> Result<Token, (Box<Op>, PyErr)> {
        let options = Options::default().no_inline(true);
        let room = self.waiting.try_reserve(1).map_err(lacking);
        let driver = match room.and_then(|()| self.driver.get()) {
            Ok(driver) => driver,
            Err(e) => return Err((Box::new(op), e)),
        };
        match driver.submit_with(op, options) {
            Ok(token) => {
                self.waiting.insert(token, waiter);
                Ok(token)
            }
            Err(SubmitError { op, refusal, .. }) => {
                let error = match refusal {
                    Refusal::Full { bound } => {
                        PyRuntimeError::new_err(format!("{bound} operations are pending on this loop"))
                    }
                    refusal => errors::refusal(py, &refusal),
                };
                Err((op, error))
            }
        }
    }

    /// Gives up all files of a batch: those that have not begun, and the rest of those that have.
    pub(super) fn abandon_batch(&mut self, batch: &Py<PyWeakrefReference>) {
        let mut driver = self.driver.get().ok();
        self.waiting.retain(|token, waiter| {
            let goes_on = !waiter.is_of(batch);
            if let (Some(driver), false) = (&mut driver, goes_on) {
                driver.abandon(*token);
            }
            goes_on
        });
    }

    pub(crate) fn flush_now(&mut self, py: Python<'_>) -> PyResult<()> {
        let flushed = self.driver.get()?.flush();
        flushed.map_err(|e| errors::io_error(py, &e, DRIVER))
    }

    /// Cancels and drains, or sees to it that the driver's own thread will. The engine tells nobody any more.
    fn end(&mut self) -> HashMap<Token, Waiter> {
        self.closed = true;
        self.driver.let_go();
        std::mem::take(&mut self.waiting)
    }

    /// As `end`, when the loop is gone: whoever has to hear of that, and who waits in line. One that has moved to another
    /// thread has ended before; who waits in line there is served.
    pub(super) fn leave(&mut self, py: Python<'_>) -> Option<Left> {
        self.watched = None;
        if self.closed {
            return None;
        }
        let mut results = self.finish_writes(py);
        let forked = self.process != std::process::id();
        let waiting = self.end().into_iter().map(|(token, waiter)| {
            let last = match results.remove(&token) {
                Some(result) => Last::Result(result),
                None if forked => Last::Forked,
                None => Last::Unknown,
            };
            (waiter, last)
        });
        // allocates: as many as there are
        Some((waiting.collect(), self.turn.leave()))
    }

    /// Waits, without the GIL, for the results of all ops if some of them are writes of files: only these say what is left of
    /// them.
    fn finish_writes(&mut self, py: Python<'_>) -> HashMap<Token, Completion> {
        let writes = self.waiting.values().any(|waiter| waiter.is_writing(py));
        let Some(driver) = self.driver.get().ok().filter(|_| writes) else {
            return HashMap::new();
        };
        let mut done = Vec::new();
        let mut driver = AssertSend(driver);
        py.detach(|| {
            let driver = driver.get();
            driver.finish_all();
            let _ = driver.wait(0, usize::MAX, Some(Duration::ZERO), &mut done);
        });
        let by_token = done.into_iter().map(|completion| (completion.token, completion));
        by_token.collect() // allocates: as many as were in flight
    }

    /// Nobody waits for this op any more. Harmless if it is complete.
    pub(crate) fn abandon(&mut self, token: Token) {
        if self.waiting.remove(&token).is_some() {
            if let Ok(driver) = self.driver.get() {
                driver.abandon(token);
            }
        }
    }

    /// Asks for an op to stop. Whoever waits for it hears of it.
    pub(crate) fn cancel(&mut self, token: Token) {
        if let Ok(driver) = self.driver.get() {
            driver.cancel(token);
        }
    }

    /// Whether the loop is still there.
    pub(crate) fn has_loop(&self, py: Python<'_>) -> bool {
        self.event_loop.bind(py).upgrade().is_some()
    }

    /// Whether the running loop is the one that this driver serves, in its thread.
    pub(crate) fn serves(&self, py: Python<'_>) -> bool {
        !self.closed
            && self.driver.is_mine()
            && running_loop(py).is_ok_and(|running| {
                let own = self.event_loop.bind(py).upgrade();
                own.is_some_and(|own| own.is(&running))
            })
    }

    /// As `collect` would, when the kernel is forbidden to us (a seccomp filter that came late): each op fails. What it has
    /// in flight stays in the driver.
    fn lost(&mut self, error: &io::Error) -> Done {
        if !proactor_engine::is_forbidden(error) {
            return Vec::new();
        }
        let errno = error.raw_os_error().unwrap_or(libc::EIO);
        let fail = |(token, waiter)| {
            let completion = Completion::lost(token, proactor_engine::Error::new(errno, "wait"));
            (Some(waiter), completion)
        };
        let mut lost = Vec::new();
        // Without memory for all, the others hear of it when the loop looks the next time.
        let room = lost.try_reserve_exact(self.waiting.len());
        let count = if room.is_ok() { usize::MAX } else { BATCH };
        lost.extend(self.waiting.extract_if(|_, _| true).take(count).map(fail)); // allocates: reserved, or a batch
        lost
    }

    /// What has completed, or what the kernel says instead.
    ///
    /// # Errors
    /// If the driver is not this process's or thread's, or is closed.
    fn collect(&mut self) -> PyResult<io::Result<Done>> {
        let driver = self.driver.get()?;
        let mut done = Vec::new();
        let waited = driver.wait(0, BATCH, Some(Duration::ZERO), &mut done);
        if let Some(e) = waited.err().filter(|e| e.kind() != io::ErrorKind::Interrupted) {
            return Ok(Err(e));
        }
        let with_waiter = |c: Completion| (self.waiting.remove(&c.token), c);
        Ok(Ok(done.into_iter().map(with_waiter).collect())) // allocates: at most BATCH
    }
}

/// Sees to it that the op just submitted reaches the kernel in this loop iteration.
pub(crate) fn schedule_flush(slf: &Bound<'_, LoopDriver>) -> PyResult<()> {
    let mut this = slf.borrow_mut();
    if this.flush_scheduled {
        return Ok(());
    }
    this.flush_scheduled = true;
    drop(this);
    let scheduled = call_soon(slf, intern!(slf.py(), "_wake"));
    let mut this = slf.borrow_mut();
    this.flush_scheduled = scheduled.is_ok();
    this.flushes += u32::from(scheduled.is_ok());
    if scheduled.is_err() {
        // Ctrl-C in the midst of call_soon: nobody else would hand the op over.
        this.flush_now(slf.py())?;
    }
    drop(this);
    scheduled
}

/// Has the running loop call a method of the driver.
fn call_soon(slf: &Bound<'_, LoopDriver>, method: &Bound<'_, PyString>) -> PyResult<()> {
    let event_loop = running_loop(slf.py())?;
    let method = slf.getattr(method)?;
    python_code::call_method(&event_loop, intern!(slf.py(), "call_soon"), [&method]).map(drop)
}

/// What a call suspends on that lets the loop go round.
///
/// # Errors
/// As `wait_in_line`.
pub(crate) fn give_way(slf: &Bound<'_, LoopDriver>) -> PyResult<Py<PyAny>> {
    Ok(suspend_on(&wait_in_line(slf)?))
}

/// The place of one more call that lets the loop go round: a future.
///
/// # Errors
/// If there is no running loop, or Ctrl-C hits it. MemoryError.
pub(crate) fn wait_in_line<'py>(slf: &Bound<'py, LoopDriver>) -> PyResult<Bound<'py, LoopFuture>> {
    let future = new_future(slf.py())?;
    let first = slf.borrow_mut().turn.give_way(future.clone().unbind());
    let first = first.map_err(lacking)?;
    if first {
        schedule_turn(slf).inspect_err(|_| drop(slf.borrow_mut().turn.leave()))?;
    }
    Ok(future)
}

fn schedule_turn(slf: &Bound<'_, LoopDriver>) -> PyResult<()> {
    call_soon(slf, intern!(slf.py(), "_next_turn"))
}

/// The loop runs in another thread now: its engine is left to the old one, and whoever waits for it hears so.
pub(super) fn leave_thread(slf: &Bound<'_, LoopDriver>) -> PyResult<()> {
    let py = slf.py();
    let mut this = slf.borrow_mut();
    let (waiting, fd) = (this.end(), this.watched.as_ref().map_or(-1, AsRawFd::as_raw_fd));
    drop(this);
    let fd = fd.into_pyobject(py)?.into_any();
    let remove = intern!(py, "remove_reader");
    let mut outcome = python_code::call_method(&running_loop(py)?, remove, [&fd]).map(drop);
    for (token, waiter) in waiting {
        outcome = outcome.and(waiter.loop_moved(slf, token));
    }
    outcome
}

/// `dispatch` by the loop, which has come round.
pub(super) fn turn_and_dispatch(slf: &Bound<'_, LoopDriver>) -> PyResult<()> {
    if slf.borrow().has_moved() {
        return leave_thread(slf);
    }
    slf.borrow_mut().turn.begin();
    dispatch(slf)
}

/// Submits what is queued, takes all completions and tells whoever waits for them.
pub(crate) fn dispatch(slf: &Bound<'_, LoopDriver>) -> PyResult<()> {
    // The borrow ends before any Python code runs: a callback may use this driver again.
    let done = {
        let mut this = slf.borrow_mut();
        this.flush_scheduled = false;
        this.collect()?
    };
    let (done, mut failed) = match done {
        Ok(done) => (done, None),
        Err(e) => (
            slf.borrow_mut().lost(&e),
            Some(errors::io_error(slf.py(), &e, DRIVER)),
        ),
    };
    // One that fails must not keep the others from hearing of theirs.
    for (waiter, completion) in done {
        let Some(waiter) = waiter else { continue };
        if let Err(e) = waiter.deliver(slf, completion) {
            failed.get_or_insert(e);
        }
    }
    failed.map_or(Ok(()), Err)
}

#[pymethods]
impl LoopDriver {
    // No `__clear__`: its reader has one, which also writes what the buffers still have.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.turn.traverse(&visit)?;
        self.waiting
            .values()
            .try_for_each(|waiter| waiter.traverse(&visit))
    }

    /// What `schedule_flush` schedules.
    ///
    /// Where the reader came first in this turn of the loop, its tasks have scheduled another one, and this one leaves the
    /// completions alone. Otherwise each turn would have one handle more, each with completions whose tasks schedule the
    /// next: at 45,000 reads a second the loop came round every 50 ms.
    fn _wake(slf: &Bound<'_, Self>) -> PyResult<()> {
        let mut this = slf.borrow_mut();
        this.flushes = this.flushes.saturating_sub(1);
        if this.flushes > 0 {
            this.flush_scheduled = false;
            if this.flush_now(slf.py()).is_ok() {
                return Ok(());
            }
        }
        if this.closed {
            return Ok(());
        }
        drop(this);
        from_the_loop(slf.py(), || turn_and_dispatch(slf))
    }

    /// The loop has come round since a call gave way.
    fn _next_turn(slf: &Bound<'_, Self>) -> PyResult<()> {
        let (served, more) = slf.borrow_mut().turn.next();
        let mut outcome = if more { schedule_turn(slf) } else { Ok(()) };
        let py = slf.py();
        from_the_loop(py, || {
            for future in served {
                // One that fails must not keep the others waiting.
                outcome = outcome.and(wake(future.bind(py)).map(drop));
            }
            outcome
        })
    }

    /// The name of the engine and the reason for it.
    fn chosen(&mut self) -> PyResult<(&'static str, String)> {
        let chosen = self.driver.get()?.chosen();
        Ok((chosen.engine.name(), chosen.reason.clone()))
    }
}
