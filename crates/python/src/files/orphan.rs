//! Bytes that are still to be written, though their file object or their loop is gone.
//!
//! Invariant: bytes that a call has accepted are written, or somebody is told that they are not.

use super::driver::{LoopDriver, Waiter};
use crate::errors;
use proactor_engine::{Completion, Error};
use proactor_file::Buffered;
use pyo3::exceptions::PyResourceWarning;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::PyTraverseError;

/// What is known of an op in flight whose loop is gone.
pub(crate) enum Last {
    Result(Completion),
    /// Another thread's engine has it.
    Unknown,
    /// The parent process has it.
    Forked,
}

/// Takes what is known of the op in flight. True if some of what it was writing to a stream may be lost: only a write to a
/// disk runs to its end without anybody.
pub(crate) fn finish_last(buffers: &mut Buffered, last: Last) -> bool {
    match last {
        Last::Result(completion) => {
            buffers.finish_last(completion.op, completion.result);
            false
        }
        Last::Forked => {
            buffers.lost_flight();
            false
        }
        Last::Unknown => {
            let lost = buffers.is_writing() && !buffers.seekable();
            buffers.lost_flight();
            lost
        }
    }
}

/// Writes what is left by plain calls. Without the GIL to a stream: whoever reads it may need that.
///
/// # Errors
/// The write's, or what a signal handler raises.
pub(crate) fn write_in_place(
    py: Python<'_>,
    buffers: &mut Buffered,
    name: &Bound<'_, PyAny>,
) -> PyResult<()> {
    loop {
        let written = if buffers.seekable() {
            buffers.write_now()
        } else {
            py.detach(|| buffers.write_now())
        };
        match written {
            Err(e) if e.errno() == libc::EINTR => py.check_signals()?,
            other => return other.map_err(|e| errors::os_error(py, &e, Some(name))),
        }
    }
}

/// Says that bytes are lost: how many, or that nobody knows.
pub(crate) fn warn_of_loss(py: Python<'_>, count: Option<usize>, name: &Bound<'_, PyAny>) {
    let name = name
        .repr()
        .map_or_else(|_| "?".to_owned(), |name| name.to_string());
    let text = match count {
        Some(count) => format!(
            "the event loop was closed before {count} bytes of a cancelled write() or close() were written to {name}"
        ),
        None => format!(
            "bytes that were on their way to {name} may be lost: its event loop ended in another thread, or while it wrote"
        ),
    };
    errors::warn_in_drop::<PyResourceWarning>(py, &text);
}

/// The buffers of a file whose object is gone.
pub(crate) struct Orphan {
    buffers: Box<Buffered>,
    name: Py<PyAny>,
}

impl Orphan {
    pub(crate) fn new(buffers: Buffered, name: Py<PyAny>) -> Self {
        let buffers = Box::new(buffers);
        Orphan { buffers, name }
    }

    pub(super) fn is_writing(&self) -> bool {
        self.buffers.is_writing()
    }

    pub(super) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.name)
    }

    /// Has the loop's engine write what is left, with nobody waiting; without one it is written here and now, as `io` does.
    pub(crate) fn write(self, driver: &Bound<'_, LoopDriver>) {
        if let Err(left) = self.adopted(driver) {
            left.write_in_place(driver.py());
        }
    }

    /// # Errors
    /// The orphan, if the engine cannot take it.
    fn adopted(mut self, driver: &Bound<'_, LoopDriver>) -> Result<(), Self> {
        if !self.buffers.is_dirty() {
            return Ok(());
        }
        let py = driver.py();
        let Ok(mut this) = driver.try_borrow_mut() else {
            return Err(self);
        };
        if !this.is_open() || self.buffers.flush().is_err() {
            return Err(self);
        }
        let Some(op) = self.buffers.start() else {
            return Err(self);
        };
        // The buffers wait where the completion finds them; the op's memory is its own.
        match this.submit_op(py, op, Waiter::Nobody) {
            Ok(token) => {
                this.set_waiter(token, Waiter::Orphan(self));
                let _ = this.flush_now(py);
                Ok(())
            }
            Err((op, _)) => {
                self.buffers
                    .finish_last(Some(*op), Err(Error::new(libc::ECANCELED, "write")));
                Err(self)
            }
        }
    }

    fn write_in_place(mut self, py: Python<'_>) {
        if let Err(e) = write_in_place(py, &mut self.buffers, self.name.bind(py)) {
            e.write_unraisable(py, None);
        }
    }

    /// The op in flight has come back.
    pub(super) fn finished(mut self, driver: &Bound<'_, LoopDriver>, completion: Completion) {
        self.buffers.finish(completion.op, completion.result);
        self.write(driver);
    }

    /// Nobody runs ops any more.
    pub(super) fn loop_closed(mut self, py: Python<'_>, last: Last) {
        if finish_last(&mut self.buffers, last) {
            warn_of_loss(py, None, self.name.bind(py));
        }
        self.write_in_place(py);
    }
}
