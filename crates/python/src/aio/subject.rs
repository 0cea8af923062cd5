//! What an op works on: a descriptor, a file object, or a path that is opened for one submission and closed after it.

use super::op::{descriptor, Kind};
use proactor_engine::op::Handle;
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// A str, bytes or path-like object. One that is a file as well is taken for that.
pub(super) fn is_path(file: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = file.py();
    Ok(file.is_instance_of::<PyString>()
        || file.is_instance_of::<PyBytes>()
        || (file.hasattr(intern!(py, "__fspath__"))? && !file.hasattr(intern!(py, "fileno"))?))
}

/// Whether an op of this kind can work on it.
pub(super) fn check(kind: Kind, file: &Bound<'_, PyAny>) -> PyResult<()> {
    match is_path(file)? {
        true if matches!(kind, Kind::Poll) => Err(PyTypeError::new_err("a path cannot be polled: open it")),
        true => Ok(()),
        false => descriptor(file).map(drop),
    }
}

/// The file for one submission. A path is opened here, by `os.open`, for reading or for writing as the op needs it; the op
/// owns what is opened.
pub(super) fn handle(kind: Kind, file: &Bound<'_, PyAny>) -> PyResult<Handle> {
    if !is_path(file)? {
        // SAFETY: as with `os.read`, the caller keeps open what the number means.
        return descriptor(file).map(|fd| unsafe { Handle::from_raw(fd) });
    }
    let access = match kind {
        Kind::Write | Kind::WriteV => libc::O_WRONLY,
        _ => libc::O_RDONLY,
    };
    let py = file.py();
    let fd: RawFd = py
        .import(intern!(py, "os"))?
        .call_method1(intern!(py, "open"), (file, access | libc::O_CLOEXEC))?
        .extract()?;
    // SAFETY: it has just been opened, and nobody else knows it.
    Ok(Handle::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}
