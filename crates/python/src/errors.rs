//! From the engine's errors to Python's. The one place where an `OSError` is made.

use crate::python_code;
use proactor_engine::{errno_of, strerror, Error, Refusal};
use pyo3::exceptions::{PyMemoryError, PyOSError, PyRuntimeError, PyValueError};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;
use pyo3::PyTypeInfo;
use std::ffi::CString;
use std::io;

/// The subclass of `OSError` that fits the errno; `MemoryError`, as `io` raises it, where this process had no memory for
/// the op's bytes. An OSError has `errno`, `strerror`, `filename` and, of our own, `op`.
pub(crate) fn os_error(py: Python<'_>, error: &Error, filename: Option<&Bound<'_, PyAny>>) -> PyErr {
    if error.is_out_of_memory() {
        return PyMemoryError::new_err(());
    }
    let mut message = strerror(error.errno());
    if let Some(panic) = error.panic_message() {
        message = format!("{message}: the function panicked: {panic}");
    }
    if let Some(hint) = error.hint() {
        message = format!("{message}: {hint}");
    }
    about(
        py,
        PyOSError::new_err((error.errno(), message)),
        error.op(),
        filename,
    )
}

/// Makes the OSError of a call that is no op; `call` becomes its `op`.
pub(crate) fn io_error(py: Python<'_>, error: &io::Error, call: &str) -> PyErr {
    match error.raw_os_error() {
        Some(errno) => about(py, PyOSError::new_err((errno, strerror(errno))), call, None),
        None => no_engine(py, error, call),
    }
}

/// An OSError for an engine that cannot be had. Its message says why; its errno is the nearest one. MemoryError where this
/// process has no memory for what the call needs.
pub(crate) fn no_engine(py: Python<'_>, error: &io::Error, call: &str) -> PyErr {
    if errno_of(error).is_none() && error.kind() == io::ErrorKind::OutOfMemory {
        return PyMemoryError::new_err(());
    }
    let errno = match (errno_of(error), error.kind()) {
        (Some(errno), _) => errno,
        (None, io::ErrorKind::PermissionDenied) => libc::EPERM,
        (None, io::ErrorKind::WouldBlock) => libc::EAGAIN,
        (None, io::ErrorKind::InvalidInput) => return PyValueError::new_err(error.to_string()),
        (None, io::ErrorKind::Unsupported) => libc::ENOSYS,
        (None, _) => libc::EIO,
    };
    // One that is nothing but the kernel's would say its number twice.
    let message = error.raw_os_error().map_or_else(|| error.to_string(), strerror);
    about(py, PyOSError::new_err((errno, message)), call, None)
}

/// Gives an OSError the name of the op that met it, and of its file. Other errors stay as they are.
pub(crate) fn about(py: Python<'_>, error: PyErr, op: &str, filename: Option<&Bound<'_, PyAny>>) -> PyErr {
    let object = error.value(py);
    if object.is_instance_of::<PyOSError>() {
        // A failure leaves a good error all the same.
        let _ = object.setattr(intern!(py, "op"), PyString::intern(py, op));
        if let Some(filename) = filename.filter(|name| !name.is_none()) {
            let _ = object.setattr(intern!(py, "filename"), filename);
        }
    }
    error
}

/// What a refused submission raises. `Full` is the caller's business: each face has its own answer.
pub(crate) fn refusal(py: Python<'_>, refusal: &Refusal) -> PyErr {
    match refusal {
        Refusal::Invalid(error) if error.errno() == libc::EINVAL || error.errno() == libc::EFAULT => {
            PyValueError::new_err(format!(
                "{}: {}",
                error.op(),
                error.hint().unwrap_or("invalid argument")
            ))
        }
        Refusal::Invalid(error) => os_error(py, error, None),
        other => PyRuntimeError::new_err(other.to_string()),
    }
}

/// Warns from a destructor, where an exception that the warning has become cannot be raised.
pub(crate) fn warn_in_drop<T: PyTypeInfo>(py: Python<'_>, text: &str) {
    let category = py.get_type::<T>();
    // allocates: a text of ours
    let warned = CString::new(text).map(|text| python_code::warn(&category, &text));
    if let Ok(Err(e)) = warned {
        e.write_unraisable(py, None);
    }
}

/// Runs Python code in a destructor. An object may go while an exception is on its way up: that one is kept aside, or the
/// interpreter would find none where it left one, and crash. Without an interpreter nothing is done.
#[allow(deprecated)] // PyErr_Fetch and PyErr_Restore: by 3.12, whose successors of them 3.10 and 3.11 do not have
pub(crate) fn in_drop(work: impl FnOnce(Python<'_>)) {
    let _ = Python::try_attach(|py| {
        let (mut kind, mut value, mut traceback) =
            (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: three live places, filled with references (or NULL) that the restore below takes back.
        unsafe { ffi::PyErr_Fetch(&raw mut kind, &raw mut value, &raw mut traceback) };
        work(py);
        // SAFETY: as above. What `work` has left set is replaced.
        unsafe { ffi::PyErr_Restore(kind, value, traceback) };
    });
}
