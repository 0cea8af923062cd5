//! An open binary file.

use super::closing;
use super::io_buffer::IoBuffer;
use super::turn::Units;
use super::verb::Verb;
use crate::errors;
use crate::files::driver::{self, LoopDriver, LoopFuture, Waiter};
use crate::thread_bound::thread_mark;
use proactor_engine::op::Op;
use proactor_engine::{Completion, Error, Token};
use proactor_file::Buffered;
use pyo3::exceptions::{PyOverflowError, PyRuntimeError, PyValueError};
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::PyTraverseError;
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// What `proactor.open` gives for a binary mode: the methods of `io.BufferedReader`, `BufferedWriter`, `BufferedRandom`
/// or, without buffering, `FileIO`, as coroutines. It belongs to the loop that opened it.
///
/// Calls that use the position run one after the other, in the order in which they were awaited. A cancelled read
/// consumes nothing; a cancelled write has either taken all of its data or none of it.
///
/// Methods raise ValueError once it is closed, `io.UnsupportedOperation` (an OSError and a ValueError) where the mode or a
/// pipe has no such thing, RuntimeError on another loop than its own, and OSError with errno, filename and op. Sizes,
/// offsets and lengths are in bytes, from 0 to 2^63 - 1: OSError (EINVAL) below, OverflowError above.
#[pyclass(weakref, module = "proactor", name = "BinaryFile")]
pub(crate) struct BinaryFile {
    pub(super) core: Buffered,
    pub(super) io_buffer: IoBuffer,
    pub(super) closed: Arc<Closed>,
    /// Something has been written.
    pub(super) written: bool,
    pub(super) facts: Facts,
    pub(super) driver: Py<LoopDriver>,
    /// The driver's.
    pub(super) units: Arc<Units>,
    /// A call has the turn.
    pub(super) busy: bool,
    /// The future of the call that has the turn and waits for an op.
    pub(super) waiter: Option<Py<LoopFuture>>,
    /// What a call holds while it waits for the engine. Only of disk files: others may wait for a peer.
    pub(super) limiter: Option<Py<PyAny>>,
    /// The call that has the turn goes to the engine without asking.
    pub(super) granted: bool,
    /// Those who wait for their turn.
    pub(super) queue: VecDeque<Ticket>,
    /// The op in flight, from when the engine has it until its result is back.
    pub(super) token: Option<Token>,
    /// A cancelled close, which goes on without anybody.
    pub(super) abandoned: Option<Verb>,
}

/// Whether a file is closed, for whoever asks often.
pub(super) struct Closed {
    closed: AtomicBool,
    /// `thread_mark` where it was opened.
    thread: usize,
}

impl Default for Closed {
    fn default() -> Self {
        Closed {
            closed: AtomicBool::new(false),
            thread: thread_mark(),
        }
    }
}

impl Closed {
    pub(super) fn get(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    pub(super) fn set(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    /// Whether this is the thread that opened the file.
    pub(super) fn is_here(&self) -> bool {
        self.thread == thread_mark()
    }
}

/// A place in the queue.
pub(super) enum Ticket {
    /// Of a call that waits.
    Future(Py<LoopFuture>),
    /// Of a close whose caller is gone.
    Close,
}

/// What does not change.
pub(super) struct Facts {
    pub(super) name: Py<PyAny>,
    pub(super) mode: &'static str,
    pub(super) readable: bool,
    pub(super) writable: bool,
    pub(super) fd: RawFd,
    /// Somebody else may use the descriptor's own position: keep it up to date.
    pub(super) shares_position: bool,
    /// The descriptor stays open when the file is closed.
    pub(super) borrowed: bool,
}

impl BinaryFile {
    pub(super) fn error(&self, py: Python<'_>, error: &Error) -> PyErr {
        errors::os_error(py, error, Some(self.facts.name.bind(py)))
    }

    fn descriptor(&self) -> Option<RawFd> {
        self.core.file().map(AsRawFd::as_raw_fd)
    }

    /// lseek(2) by its other ways of looking.
    pub(super) fn kernel_seek(&self, py: Python<'_>, offset: i64, whence: i32) -> PyResult<u64> {
        let fd = self.descriptor().unwrap_or(-1);
        // SAFETY: no pointers.
        let place = unsafe { libc::lseek(fd, offset, whence) };
        u64::try_from(place).map_err(|_| {
            let errno = std::io::Error::last_os_error()
                .raw_os_error()
                .unwrap_or(libc::EIO);
            self.error(py, &Error::new(errno, "lseek"))
        })
    }

    /// What `io` says of an integer that is no offset: its buffered files say it in words of their own.
    pub(super) fn not_an_offset(&self, py: Python<'_>, error: PyErr) -> PyErr {
        if self.core.block() > 0 && error.is_instance_of::<PyOverflowError>(py) {
            return PyValueError::new_err("cannot fit 'int' into an offset-sized integer");
        }
        error
    }

    pub(super) fn sync_position(&self) {
        if self.facts.shares_position {
            closing::sync_position(&self.core);
        }
    }

    pub(crate) fn is_writing(&self) -> bool {
        self.core.is_writing()
    }

    pub(super) fn check_open(&self) -> PyResult<()> {
        if self.closed.get() {
            return Err(PyValueError::new_err("I/O operation on closed file."));
        }
        Ok(())
    }

    pub(super) fn check_readable(&self, py: Python<'_>) -> PyResult<()> {
        self.check_open()?;
        if self.facts.readable {
            return Ok(());
        }
        Err(unsupported(py, "not readable"))
    }

    pub(super) fn check_writable(&self, py: Python<'_>) -> PyResult<()> {
        self.check_open()?;
        if self.facts.writable {
            return Ok(());
        }
        Err(unsupported(py, "not writable"))
    }

    pub(super) fn check_seekable(&self, py: Python<'_>) -> PyResult<()> {
        self.check_open()?;
        if self.core.seekable() {
            return Ok(());
        }
        Err(unsupported(py, "File or stream is not seekable."))
    }

    /// Starts the op that the buffers need. True: it is done already. Without the limiter, it is not started if it would have
    /// to wait.
    pub(super) fn start_op(slf: &Bound<'_, Self>) -> PyResult<bool> {
        let py = slf.py();
        let (op, driver, ahead) = {
            let mut this = slf.borrow_mut();
            if !this.driver.borrow(py).serves(py) {
                return Err(elsewhere());
            }
            let Some(mut op) = this.core.start() else {
                return Ok(false);
            };
            if matches!(op, Op::Read(_)) {
                if let Some(result) = op.attempt() {
                    this.core.finish(Some(op), result);
                    return Ok(true);
                }
                op = this.core.waiting_op(op);
            }
            if this.needs_limiter() {
                this.core.put_back(op);
                return Ok(false);
            }
            (op, this.driver.bind(py).clone(), this.core.is_reading_ahead())
        };
        let waiter = Waiter::File(slf.clone().unbind());
        let submitted = driver.borrow_mut().submit_op(py, op, waiter);
        match submitted {
            Ok(token) => {
                slf.borrow_mut().token = Some(token);
                // A reader who goes on with what it has may not come back to the loop before it needs this.
                let with_the_kernel = ahead && driver.borrow_mut().flush_now(py).is_ok();
                if !with_the_kernel {
                    driver::schedule_flush(&driver)?;
                }
            }
            Err((op, e)) => {
                let error = Error::new(libc::EAGAIN, op.name());
                slf.borrow_mut().core.finish(Some(*op), Err(error));
                // Nobody has asked for what is read ahead.
                if !ahead {
                    return Err(e);
                }
            }
        }
        Ok(false)
    }

    /// Asks the op in flight to stop.
    pub(super) fn cancel_op(&mut self, py: Python<'_>) {
        if let Some(token) = self.token {
            self.driver.borrow_mut(py).cancel(token);
        }
    }

    /// Gives up an op that was started and has not come to the engine: its result will never come.
    pub(super) fn lose_unsubmitted(&mut self) {
        if self.token.is_none() {
            self.core.lost_flight();
        }
    }

    /// A write goes before what a cancelled call has asked a peer for, who may be waiting for this very write.
    pub(super) fn stop_listening(&mut self, py: Python<'_>) {
        if self.core.is_filling() && !self.core.seekable() {
            self.cancel_op(py);
        }
    }

    /// The op in flight has come back.
    pub(crate) fn finished(slf: &Bound<'_, Self>, completion: Completion) -> PyResult<()> {
        let py = slf.py();
        let (waiter, more, abandoned) = {
            let mut this = slf.borrow_mut();
            this.token = None;
            this.core.finish(completion.op, completion.result);
            (this.waiter.take(), this.core.wants_op(), this.abandoned.is_some())
        };
        // The rest of a short write, or what is read ahead. Whoever waits hears of it in any case.
        let started = if more {
            Self::start_op(slf).map(drop)
        } else {
            Ok(())
        };
        if let Some(waiter) = waiter {
            driver::wake(waiter.bind(py))?;
        }
        if abandoned {
            Self::close_alone(slf)?;
        }
        started
    }

    /// Takes bytes that only have to be copied, while the file is open. Nothing else happens here, and nothing fails.
    pub(super) fn put_at_once(&mut self, py: Python<'_>, data: &[u8]) -> bool {
        let driver = || self.driver.bind(py).try_borrow();
        let has_time = self.units.count(data.len()) || driver().is_ok_and(|driver| driver.turn.has_time());
        let put = !self.busy && self.facts.writable && has_time && self.core.put_at_once(data);
        self.written |= put;
        put
    }

    /// Counts a call that need not wait. True: it has to `give_way`.
    pub(super) fn charge(&self, py: Python<'_>, bytes: usize) -> bool {
        self.driver.borrow_mut(py).turn.charge(bytes)
    }

    /// What a call suspends on to let the loop go round.
    pub(super) fn give_way(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        Ok(driver::suspend_on(&Self::wait_in_line(slf)?))
    }

    /// The same as a future to be awaited.
    pub(super) fn wait_in_line<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, LoopFuture>> {
        let driver = slf.borrow().driver.bind(slf.py()).clone();
        driver::wait_in_line(&driver)
    }

    /// The turn goes to the next who wants it.
    pub(super) fn pass_turn(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        loop {
            let next = {
                let mut this = slf.borrow_mut();
                this.granted = false;
                if this.core.give_up() {
                    this.cancel_op(py);
                }
                let next = this.queue.pop_front();
                this.busy = next.is_some();
                next
            };
            let next = match next {
                None => return Ok(()),
                // The collector has the loop, and those who wait with it.
                Some(_) if !slf.borrow().driver.borrow(py).has_loop(py) => continue,
                Some(Ticket::Future(future)) => future.into_bound(py),
                Some(Ticket::Close) => {
                    slf.borrow_mut().abandoned = Some(Verb::closing());
                    return Self::close_alone(slf);
                }
            };
            if driver::wake(&next)? {
                return Ok(());
            }
        }
    }
}

impl BinaryFile {
    /// Refuses another loop than the file's own, which would not hear of the turn that it waits for.
    pub(super) fn check_loop(&self, py: Python<'_>) -> PyResult<()> {
        if self.driver.borrow(py).serves(py) {
            return Ok(());
        }
        Err(elsewhere())
    }
}

/// A file can only wait where its engine is heard.
pub(super) fn elsewhere() -> PyErr {
    PyRuntimeError::new_err(
        "the file belongs to another event loop, or to one that is closed or runs in another thread since",
    )
}

/// `io.UnsupportedOperation`.
pub(super) fn unsupported(py: Python<'_>, why: &str) -> PyErr {
    let class = py.import("io").and_then(|io| io.getattr("UnsupportedOperation"));
    match class.and_then(|class| class.call1((why,))) {
        Ok(error) => PyErr::from_value(error),
        Err(e) => e,
    }
}

impl BinaryFile {
    /// What may know the file: whoever waits for it, and the limiter, which is anything.
    pub(super) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.facts.name)?;
        visit.call(&self.driver)?;
        visit.call(&self.limiter)?;
        visit.call(&self.waiter)?;
        self.queue.iter().try_for_each(|ticket| match ticket {
            Ticket::Future(future) => visit.call(future),
            Ticket::Close => Ok(()),
        })
    }
}
