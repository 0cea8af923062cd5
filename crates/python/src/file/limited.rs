//! A call that holds its file's limiter while it waits for the engine.
//!
//! When a call comes to need the engine, it hands its work over to another one of its kind, and a coroutine of Python's
//! awaits that one in an `async with` of the limiter. What is sent and thrown goes there.

use super::binary::BinaryFile;
use crate::coroutine::Outcome;
use crate::python_code::{self, Sent};
use pyo3::gc::PyVisit;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::PyTraverseError;

/// The coroutine.
pub(super) struct Limited(Py<PyAny>);

impl Limited {
    /// Awaits `call` with the limiter.
    pub(super) fn new(limiter: &Bound<'_, PyAny>, call: &Bound<'_, PyAny>) -> PyResult<Self> {
        let module = limiter.py().import("proactor._limiter")?;
        let coroutine = module.getattr("limited")?.call1((limiter, call))?;
        Ok(Limited(coroutine.unbind()))
    }

    pub(super) fn send(&self, value: &Bound<'_, PyAny>) -> PyResult<Outcome> {
        let py = value.py();
        match python_code::send(self.0.bind(py), value)? {
            Sent::Suspended(what) => Ok(Outcome::Suspend(what.unbind())),
            Sent::Returned(value) => Ok(Outcome::Return(Some(value.unbind()))),
        }
    }

    /// What it suspends on, if it goes on all the same.
    pub(super) fn throw(&self, py: Python<'_>, error: PyErr) -> PyResult<Py<PyAny>> {
        let error = error.into_value(py).into_bound(py);
        python_code::call_method(self.0.bind(py), intern!(py, "throw"), [error.as_any()]).map(Bound::unbind)
    }

    pub(super) fn close(&self, py: Python<'_>) -> PyResult<()> {
        python_code::call_method(self.0.bind(py), intern!(py, "close"), []).map(drop)
    }

    pub(super) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.0)
    }
}

impl BinaryFile {
    /// Whether the call that has the turn must have the limiter before its op may go to the engine.
    pub(super) fn needs_limiter(&self) -> bool {
        self.limiter.is_some() && !self.granted
    }

    /// A coroutine that awaits `call` with the limiter.
    pub(super) fn limited(slf: &Bound<'_, Self>, call: &Bound<'_, PyAny>) -> PyResult<Limited> {
        let limiter = slf
            .borrow()
            .limiter
            .as_ref()
            .map(|limiter| limiter.clone_ref(slf.py()));
        Limited::new(limiter.into_pyobject(slf.py())?.as_any(), call)
    }
}
