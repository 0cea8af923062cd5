//! What comes out of a context.

use super::op::Op;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyMemoryView, PySlice};

/// The end of one op.
#[pyclass(frozen, module = "proactor.aio")]
pub(crate) struct Event {
    /// The op, which may be submitted again.
    #[pyo3(get)]
    op: Py<Op>,
    /// Bytes transferred, or the events of a poll; -errno after a failure.
    #[pyo3(get)]
    result: i64,
    /// The OSError (with errno, filename and op), or None.
    #[pyo3(get)]
    error: Option<Py<PyAny>>,
}

impl Event {
    pub(super) fn new(op: Py<Op>, result: i64, error: Option<Py<PyAny>>) -> Self {
        Event { op, result, error }
    }
}

#[pymethods]
impl Event {
    /// The result; raises the error if there was one.
    fn check(&self, py: Python<'_>) -> PyResult<i64> {
        match &self.error {
            Some(error) => Err(PyErr::from_value(error.bind(py).clone())),
            None => Ok(self.result),
        }
    }

    /// The buffer as it was given to the op; a list of them for a vectored op; None for an op without one.
    #[getter]
    fn buffer(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(self.op.borrow(py).buffer(py)?.unbind())
    }

    /// What a read has filled: a memoryview of the first `result` bytes of the buffer, or a list of such views for a
    /// vectored read (empty ones left out). None for other ops and after an error.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let op = self.op.borrow(py);
        if self.error.is_some() || !op.reads() {
            return Ok(None);
        }
        let mut left = self.result as usize;
        let views = PyList::empty(py);
        for buffer in op.buffers() {
            let view = PyMemoryView::from(buffer.bind(py))?.call_method1("cast", ("B",))?;
            let here = left.min(view.len()?);
            left -= here;
            let part = view.get_item(PySlice::new(py, 0, here as isize, 1))?;
            if !op.is_vectored() {
                return Ok(Some(part));
            }
            if here > 0 {
                views.append(part)?;
            }
        }
        Ok(Some(views.into_any()))
    }

    /// What the op was given as `user_data`.
    #[getter]
    fn user_data(&self, py: Python<'_>) -> Py<PyAny> {
        self.op.borrow(py).user_data_of(py)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let op = self.op.bind(py).repr()?;
        match &self.error {
            Some(error) => Ok(format!("<Event of {op}: {}>", error.bind(py).repr()?)),
            None => Ok(format!("<Event of {op}: {}>", self.result)),
        }
    }
}
