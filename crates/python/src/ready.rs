//! Returning a value from an awaitable without suspending, cheaply.
//!
//! The interpreter takes an awaitable's result out of a StopIteration. Building that exception is most of what a ready
//! await costs, so one is kept per thread and used again while nobody else holds it. It keeps its last value alive until
//! the next, so large values get an exception of their own.

use pyo3::exceptions::PyStopIteration;
use pyo3::ffi;
use pyo3::prelude::*;
use std::cell::Cell;

thread_local! {
    static SPARE: Cell<Option<Py<PyAny>>> = const { Cell::new(None) };
}

/// A value of more bytes is not worth keeping alive for the sake of 0.1 microseconds.
const LARGE_BYTES: usize = 16 * 1024;

/// The exception that makes `value`, of about this size, the result of the awaitable.
pub(crate) fn stop_iteration(py: Python<'_>, value: Py<PyAny>, size_bytes: usize) -> PyErr {
    if size_bytes > LARGE_BYTES {
        return PyStopIteration::new_err((value,));
    }
    let object = match SPARE.take() {
        // SAFETY: a live object; reading its reference count is fine under the GIL.
        Some(spare) if unsafe { ffi::Py_REFCNT(spare.as_ptr()) } == 1 => {
            set_value(&spare, value);
            spare
        }
        _ => match py.get_type::<PyStopIteration>().call0() {
            Ok(fresh) => {
                let fresh = fresh.unbind();
                set_value(&fresh, value);
                fresh
            }
            Err(e) => return e,
        },
    };
    let error = PyErr::from_value(object.bind(py).clone());
    SPARE.set(Some(object));
    error
}

/// Puts the value straight into the exception. What was in it before goes.
fn set_value(object: &Py<PyAny>, value: Py<PyAny>) {
    let object = object.as_ptr().cast::<ffi::PyStopIterationObject>();
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
