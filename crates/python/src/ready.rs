//! Returning a value from an awaitable without suspending, cheaply.
//!
//! The interpreter takes an awaitable's result out of a StopIteration. Building that exception is most of what a ready
//! await costs, so one is kept and used again while nobody else holds it. It keeps its last value alive until the next,
//! so large values get an exception of their own.

use crate::references;
use pyo3::exceptions::PyStopIteration;
use pyo3::ffi;
use pyo3::prelude::*;
use std::cell::Cell;

/// The exception that is used again, with a reference of ours; or null.
struct Spare(Cell<*mut ffi::PyObject>);

// SAFETY: only touched by threads that are attached, of which there is one at a time (`gil_used`), and never across a call
// that may let another one in.
unsafe impl Sync for Spare {}

static SPARE: Spare = Spare(Cell::new(std::ptr::null_mut()));

/// A value of more bytes is not worth keeping alive for the sake of 0.1 microseconds.
pub(crate) const LARGE_BYTES: usize = 16 * 1024;

/// The exception that makes `value`, of about this size, the result of the awaitable.
pub(crate) fn stop_iteration(py: Python<'_>, value: Py<PyAny>, size_bytes: usize) -> PyErr {
    if size_bytes > LARGE_BYTES {
        return PyStopIteration::new_err((value,));
    }
    match with_value(value.into_bound(py)) {
        Ok(exception) => PyErr::from_value(exception),
        Err(e) => e,
    }
}

/// Raises the exception that makes a value of at most `LARGE_BYTES` the result. Python code may run: the last value goes.
pub(crate) fn raise(value: Bound<'_, PyAny>) {
    let py = value.py();
    match with_value(value) {
        Ok(exception) => restore(exception),
        Err(e) => e.restore(py),
    }
}

/// As `PyErr::restore`, which goes round by Rust's own kind of error.
fn restore(exception: Bound<'_, PyAny>) {
    // SAFETY: an exception without a traceback; the references to it and its class are the interpreter's from here on.
    #[cfg(Py_3_12)]
    unsafe {
        ffi::PyErr_SetRaisedException(exception.into_ptr());
    }
    // SAFETY: as above.
    #[cfg(not(Py_3_12))]
    unsafe {
        ffi::PyErr_Restore(
            ffi::Py_NewRef(exception.get_type_ptr().cast()),
            exception.into_ptr(),
            std::ptr::null_mut(),
        );
    }
}

fn with_value(value: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    let py = value.py();
    let spare = SPARE.0.get();
    // SAFETY: null, or a live object; reading its reference count is fine under the GIL.
    let exception = if !spare.is_null() && unsafe { ffi::Py_REFCNT(spare) } == 1 {
        // SAFETY: as above. With a second reference, nobody who comes here meanwhile takes it.
        unsafe {
            references::add(spare);
            Bound::from_owned_ptr(py, spare)
        }
    } else {
        let exception = py.get_type::<PyStopIteration>().call0()?;
        let other = SPARE.0.replace(exception.clone().into_ptr());
        // SAFETY: null, or an object with a reference that was the spare one's.
        unsafe { ffi::Py_XDECREF(other) };
        exception
    };
    set_value(&exception, value);
    Ok(exception)
}

/// Puts the value straight into the exception. What was in it before goes.
fn set_value(exception: &Bound<'_, PyAny>, value: Bound<'_, PyAny>) {
    let object = exception.as_ptr().cast::<ffi::PyStopIterationObject>();
    // SAFETY: the object was made by calling StopIteration itself, so it has this layout; nobody else sees it now, and
    // the old value is released after it has been replaced, as Py_XSETREF does.
    unsafe {
        let old = std::mem::replace(&mut (*object).value, value.into_ptr());
        ffi::Py_XDECREF(old);
        // Python code that has caught it left one, and would add to it each time.
        let traceback = std::mem::replace(&mut (*object).traceback, std::ptr::null_mut());
        ffi::Py_XDECREF(traceback);
    }
}
