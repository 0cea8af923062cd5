//! One awaited step of `read_many`: its next file.

use super::read_many::ReadMany;
use crate::attached::Attached;
use crate::coroutine::{bytes_len, coroutine_methods, Coroutine, Outcome};
use crate::errors;
use crate::reused::{self, make, reused, Call as _};
use pyo3::exceptions::{PyRuntimeError, PyRuntimeWarning};
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::PyTraverseError;

/// The awaitable of the next file of `read_many`. Await it once.
#[pyclass(frozen, module = "proactor._native")]
pub(crate) struct ReadManyStep(Attached<Call>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    /// The loop or a file has to come first.
    Waiting,
    Done,
}

pub(crate) struct Call {
    /// None when it is over.
    batch: Option<Py<ReadMany>>,
    state: State,
}

impl ReadManyStep {
    pub(super) fn new(batch: Bound<'_, ReadMany>) -> PyResult<Bound<'_, Self>> {
        let py = batch.py();
        let step = Call {
            batch: Some(batch.unbind()),
            state: State::New,
        };
        make(py, step)
    }
}

impl Call {
    /// Files in flight stay, and the next step goes on: nothing is lost.
    fn stop(&mut self, py: Python<'_>) {
        let state = std::mem::replace(&mut self.state, State::Done);
        if let (Some(batch), State::Waiting) = (self.batch.take(), state) {
            ReadMany::stop_waiting(batch.bind(py));
        }
    }
}

impl Coroutine for ReadManyStep {
    fn drive(slf: &Bound<'_, Self>, sent: &Bound<'_, PyAny>) -> PyResult<Outcome> {
        reused::drive(slf, sent)
    }

    fn stop(slf: &Bound<'_, Self>) -> PyResult<()> {
        slf.get().0.borrow_mut(slf.py())?.stop(slf.py());
        Ok(())
    }

    fn qualname(_slf: &Bound<'_, Self>) -> String {
        "FileBatch.__anext__".to_owned()
    }

    fn size_of(py: Python<'_>, pair: &Py<PyAny>) -> usize {
        let value = pair.bind(py).get_item(1);
        value.map_or(0, |value| bytes_len(py, value.as_unbound()))
    }
}

reused! { ReadManyStep }

impl reused::Call for Call {
    fn advance(&mut self, py: Python<'_>, _sent: &Bound<'_, PyAny>) -> PyResult<Outcome> {
        let over = || PyRuntimeError::new_err("cannot reuse already awaited coroutine");
        self.state = State::Done;
        let batch = self.batch.take().ok_or_else(over)?;
        let outcome = ReadMany::advance(batch.bind(py));
        if let Ok(Outcome::Suspend(_)) = outcome {
            self.batch = Some(batch);
            self.state = State::Waiting;
        }
        outcome
    }

    fn over(&self) -> Self {
        Call {
            batch: None,
            state: State::Done,
        }
    }

    fn is_over(&self) -> bool {
        self.batch.is_none() && self.state == State::Done
    }
}

coroutine_methods! { ReadManyStep =>
    // A pending step and its task know each other.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Some(call) = self.0.seen_by_collector() else {
            return Ok(());
        };
        visit.call(&call.batch)
    }

    fn __clear__(&self, py: Python<'_>) {
        let held = self.0.get(py).map(|mut call| call.end());
        drop(held);
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        match self.state {
            State::New => errors::in_drop(|py| {
                let text = "coroutine 'FileBatch.__anext__' was never awaited";
                errors::warn_in_drop::<PyRuntimeWarning>(py, text);
            }),
            State::Waiting => errors::in_drop(|py| self.stop(py)),
            State::Done => {}
        }
    }
}
