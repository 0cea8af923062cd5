//! What comes out of a context.

use super::op::Op;
use crate::memory::{collected, lacking};
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView, PySlice, PyTuple};
use pyo3::PyTraverseError;

/// The end of one op. `Context.wait` makes it; it never changes, but shows the op as it is now: look before the op is
/// changed or submitted again.
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

    /// The op's buffer; a tuple of them for a vectored op; None for an op without one.
    #[getter]
    fn buffer(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(self.op.try_borrow(py)?.memory(py)?.unbind())
    }

    /// What a read has filled: a memoryview of the first `result` bytes of the buffer, format "B"; for a vectored read a
    /// tuple of such views, one for each buffer. None for other ops and after an error.
    ///
    /// The view pins its buffer as any memoryview does.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        // A buffer may be the caller's code (`__buffer__`): nothing is borrowed while it runs.
        let (vectored, buffers) = {
            let op = self.op.try_borrow(py)?;
            if self.error.is_some() || !op.reads() {
                return Ok(None);
            }
            let buffers = op.buffers().iter().map(|buffer| Ok(buffer.clone_ref(py)));
            (op.is_vectored(), collected(buffers)?)
        };
        let mut left = self.result as usize;
        let mut views = Vec::new();
        views.try_reserve_exact(buffers.len()).map_err(lacking)?;
        for buffer in &buffers {
            let view = PyMemoryView::from(buffer.bind(py))?;
            let size: usize = view.getattr("nbytes")?.extract()?;
            let here = left.min(size);
            left -= here;
            // (`PySlice::new` of PyO3 0.30 leaks its three numbers.) Views with a zero in their shape cannot be cast.
            views.push(if size == 0 {
                PyMemoryView::from(&PyBytes::new(py, b""))?.into_any()
            } else {
                view.call_method1("cast", ("B",))?
                    .get_item(py.get_type::<PySlice>().call1((here,))?)?
            });
        }
        if vectored {
            return Ok(Some(PyTuple::new(py, views)?.into_any()));
        }
        Ok(views.pop())
    }

    /// What the op was given as `user_data`.
    #[getter]
    fn user_data(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(self.op.try_borrow(py)?.user_data_of(py))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let op = self.op.bind(py).repr()?;
        match &self.error {
            Some(error) => Ok(format!("<Event of {op}: {}>", error.bind(py).repr()?)),
            None => Ok(format!("<Event of {op}: {}>", self.result)),
        }
    }

    // The op and what it refers to break a cycle; nothing here changes.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.op)?;
        visit.call(&self.error)
    }
}
