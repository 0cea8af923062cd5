//! What `read_many` tells the caller of how far it is.

use super::read_many::ReadMany;
use super::request::Target;
use crate::coroutine::bytes_len;
use crate::memory::Exported;
use crate::python_code;
use proactor_engine::buffer::Memory as _;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// The caller's function that hears of the files that have been handed out.
pub(super) struct Progress {
    call: Py<PyAny>,
    files: u64,
    bytes: u64,
    /// It has not heard of the last one.
    is_due: bool,
}

impl Progress {
    pub(super) fn new(call: Py<PyAny>) -> Self {
        Progress {
            call,
            files: 0,
            bytes: 0,
            is_due: false,
        }
    }

    pub(super) fn callback(&self) -> &Py<PyAny> {
        &self.call
    }
}

impl ReadMany {
    /// Tells the caller's function of the file that was handed out last: it has been used by now. An exception of it ends
    /// the step before anything is taken.
    pub(super) fn tell_progress(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let mut this = slf.borrow_mut();
        let Some(progress) = this.progress.as_mut().filter(|progress| progress.is_due) else {
            return Ok(());
        };
        progress.is_due = false;
        let args = PyTuple::new(py, [progress.files, progress.bytes])?;
        let call = progress.call.clone_ref(py);
        drop(this);
        python_code::call(call.bind(py), &args).map(drop)
    }

    pub(super) fn count(&mut self, value: &PyResult<Py<PyAny>>, py: Python<'_>) {
        let Some(progress) = &mut self.progress else {
            return;
        };
        progress.is_due = true;
        progress.files += 1;
        progress.bytes += match (value, &self.target) {
            (Ok(value), Target::Bytes) => bytes_len(py, value) as u64,
            (Ok(count), Target::Given) => count.extract(py).unwrap_or(0),
            (Ok(buffer), Target::Made(_)) => size_of(buffer.bind(py)),
            (Err(_), _) => 0,
        };
    }
}

/// A function of the caller's.
///
/// # Errors
/// TypeError for anything else.
pub(super) fn callable(name: &str, value: Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    if !value.is_callable() {
        let text = format!("{name} is a function, not {}", value.get_type().name()?);
        return Err(PyTypeError::new_err(text));
    }
    Ok(value.unbind())
}

/// The bytes of a buffer.
fn size_of(buffer: &Bound<'_, PyAny>) -> u64 {
    Exported::new(buffer, false).map_or(0, |view| view.len() as u64)
}
