//! Paths: `str`, `bytes` or anything with `__fspath__`.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStringExt;

/// The path as the kernel takes it.
///
/// # Errors
/// TypeError for another type, ValueError for an embedded NUL, UnicodeEncodeError for a `str` that the file system's
/// encoding cannot express.
pub(crate) fn c_path(path: &Bound<'_, PyAny>) -> PyResult<CString> {
    let bytes = if let Ok(text) = path.cast::<PyString>() {
        match text.to_str() {
            Ok(utf8) => return to_c(utf8.as_bytes()),
            // Surrogates that stand for bytes that are no UTF-8.
            Err(_) => path.extract::<OsString>()?.into_vec(),
        }
    } else if let Ok(bytes) = path.cast::<PyBytes>() {
        return to_c(bytes.as_bytes());
    } else {
        return c_path(&fspath(path)?);
    };
    to_c(&bytes)
}

/// `os.fspath`: a `str` or `bytes`.
///
/// # Errors
/// TypeError for another type, and what `__fspath__` raises.
pub(crate) fn fspath<'py>(path: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    path.py().import("os")?.getattr("fspath")?.call1((path,))
}

/// From a slice: exactly one allocation, with room for the final NUL.
fn to_c(bytes: &[u8]) -> PyResult<CString> {
    CString::new(bytes).map_err(|_| PyValueError::new_err("embedded null byte"))
}
