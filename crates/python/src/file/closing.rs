//! The end of a file: closed by nobody who waits, dropped, or left by its loop.

use super::binary::{BinaryFile, Ticket};
use crate::errors;
use crate::files::driver;
use crate::files::orphan::{self, Last, Orphan};
use crate::python_code;
use proactor_file::{Buffered, Step};
use pyo3::exceptions::PyResourceWarning;
use pyo3::intern;
use pyo3::prelude::*;
use std::os::fd::AsRawFd;

impl BinaryFile {
    /// The loop has been closed: nobody is told any more. What was written stays to be written when the file is closed or
    /// dropped, unless somebody has given up waiting for a stream to take it.
    pub(crate) fn loop_closed(slf: &Bound<'_, Self>, last: Last) {
        let py = slf.py();
        let left = slf.try_borrow_mut().ok().map(|mut this| {
            let unknown = orphan::finish_last(&mut this.core, last);
            this.token = None;
            this.busy = false;
            // They know their tasks, whose frames know this file.
            let left = (this.waiter.take(), std::mem::take(&mut this.queue));
            let closing =
                this.abandoned.take().is_some() || left.1.iter().any(|t| matches!(t, Ticket::Close));
            let mut count = this.core.drop_large();
            if closing && !this.core.seekable() {
                count += this.core.unwritten();
                this.core.discard();
            }
            (unknown, count, left)
        });
        // Not while it is borrowed: a warning runs Python code.
        let Some((unknown, count, left)) = left else {
            return;
        };
        let name = slf.borrow().facts.name.clone_ref(py).into_bound(py);
        if unknown || count > 0 {
            orphan::warn_of_loss(py, (!unknown).then_some(count), &name);
        }
        drop(left);
    }

    /// Gives up the op in flight, whose result another thread or another loop will have. Says so if bytes may be lost.
    fn lose_flight(slf: &Bound<'_, Self>) {
        let lost = orphan::finish_last(&mut slf.borrow_mut().core, Last::Unknown);
        if lost {
            let name = slf.borrow().facts.name.clone_ref(slf.py());
            orphan::warn_of_loss(slf.py(), None, name.bind(slf.py()));
        }
    }

    /// The loop has left the engine's thread: whoever waits finds that the file can only be closed, which a close that nobody
    /// waits for does.
    pub(crate) fn loop_moved(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        Self::lose_flight(slf);
        let mut this = slf.borrow_mut();
        this.token = None;
        let (waiter, closing) = (this.waiter.take(), this.abandoned.take().is_some());
        drop(this);
        if let Some(waiter) = waiter {
            driver::wake(waiter.bind(py))?;
        }
        if !closing {
            return Ok(());
        }
        Self::close_now(slf).or_else(|e| report(py, &e, slf))?;
        Self::pass_turn(slf)
    }

    /// Goes on with a close that nobody waits for. It has the turn, and passes it on at the end.
    pub(super) fn close_alone(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        loop {
            let mut this = slf.borrow_mut();
            let Some(mut verb) = this.abandoned.take() else {
                return Ok(());
            };
            this.granted = true;
            let step = verb.step(py, &mut this);
            let wants = this.core.wants_op();
            if let Ok(Step::Blocked) = step {
                this.abandoned = Some(verb);
            }
            drop(this);
            match step {
                Ok(Step::Blocked) if wants => {
                    if !Self::start_op(slf)? {
                        return Ok(());
                    }
                }
                Ok(Step::Blocked) => return Ok(()),
                Ok(Step::Ready(_)) => break,
                Err(e) => {
                    report(py, &e, slf)?;
                    break;
                }
            }
        }
        Self::pass_turn(slf)
    }

    /// Closes without a loop: writes what is left in place.
    pub(super) fn close_now(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        Self::lose_flight(slf);
        // Others may look at the file while this waits for a peer: they find it closed.
        let (mut core, name) = {
            let mut this = slf.borrow_mut();
            this.closed.set();
            (this.core.take(), this.facts.name.clone_ref(py))
        };
        let written = orphan::write_in_place(py, &mut core, name.bind(py));
        if slf.borrow().facts.shares_position {
            sync_position(&core);
        }
        written
    }
}

/// Brings the descriptor's own position up to date.
pub(super) fn sync_position(core: &Buffered) {
    if let (true, Some(file), Ok(place)) = (core.seekable(), core.file(), i64::try_from(core.position())) {
        // SAFETY: no pointers.
        unsafe { libc::lseek(file.as_raw_fd(), place, libc::SEEK_SET) };
    }
}

/// An error that nobody awaits.
fn report(py: Python<'_>, error: &PyErr, file: &Bound<'_, BinaryFile>) -> PyResult<()> {
    let context = pyo3::types::PyDict::new(py);
    context.set_item(
        "message",
        "proactor: an error while a file was closed after its close() was cancelled",
    )?;
    context.set_item("exception", error.value(py))?;
    context.set_item("file", file)?;
    let event_loop = py.import("asyncio")?.call_method0("get_event_loop")?;
    python_code::call_method(
        &event_loop,
        intern!(py, "call_exception_handler"),
        [context.as_any()],
    )?;
    Ok(())
}

impl Drop for BinaryFile {
    fn drop(&mut self) {
        if self.closed.get() {
            return;
        }
        errors::in_drop(|py| {
            if !self.facts.borrowed {
                let name = self.facts.name.bind(py).repr().map(|name| name.to_string());
                let text = format!(
                    "unclosed file <proactor.BinaryFile name={} mode='{}'>",
                    name.as_deref().unwrap_or("?"),
                    self.facts.mode
                );
                errors::warn_in_drop::<PyResourceWarning>(py, &text);
            }
            self.write_behind(py);
        });
    }
}

impl BinaryFile {
    /// What was written and never flushed is still written.
    fn write_behind(&mut self, py: Python<'_>) {
        if self.core.is_dirty() {
            let orphan = Orphan::new(self.core.take(), self.facts.name.clone_ref(py));
            orphan.write(self.driver.bind(py));
        }
    }
}
