//! Paths: `str`, `bytes` or anything with `__fspath__`.

use crate::memory::lacking;
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyString};
use std::ffi::{CStr, CString};

/// The path as the kernel takes it.
///
/// # Errors
/// MemoryError, TypeError for another type, ValueError for an embedded NUL, UnicodeEncodeError for a `str` that the file system's
/// encoding cannot express.
pub(crate) fn c_path(path: &Bound<'_, PyAny>) -> PyResult<CString> {
    with_c_path(path, proactor_engine::memory::c_string)?.map_err(lacking)
}

/// As `c_path`, without a copy where the object has the path as it is.
pub(crate) fn with_c_path<R>(path: &Bound<'_, PyAny>, work: impl FnOnce(&CStr) -> R) -> PyResult<R> {
    if let Ok(text) = path.cast::<PyString>() {
        return match text.to_str() {
            Ok(utf8) if utf8.is_ascii() || encodes_in_utf8(path.py())? => as_c(utf8.as_bytes(), work),
            // Another encoding, or surrogates that stand for bytes that are no UTF-8.
            _ => as_c(encoded(text)?.as_bytes(), work),
        };
    }
    if let Ok(bytes) = path.cast::<PyBytes>() {
        return as_c(bytes.as_bytes(), work);
    }
    with_c_path(&fspath(path)?, work)
}

/// `bytes` are what a `str` or `bytes` object holds.
fn as_c<R>(bytes: &[u8], work: impl FnOnce(&CStr) -> R) -> PyResult<R> {
    // SAFETY: CPython ends both kinds of contents with a NUL, which belongs to the object as they do.
    let bytes = unsafe { std::slice::from_raw_parts(bytes.as_ptr(), bytes.len() + 1) };
    CStr::from_bytes_with_nul(bytes)
        .map(work)
        .map_err(|_| embedded_null())
}

/// The text in the file system's encoding.
fn encoded<'py>(text: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyBytes>> {
    // SAFETY: a live str; the result is a new bytes object or NULL with an exception set.
    unsafe {
        let bytes = ffi::PyUnicode_EncodeFSDefault(text.as_ptr());
        Ok(Bound::from_owned_ptr_or_err(text.py(), bytes)?.cast_into_unchecked())
    }
}

fn embedded_null() -> PyErr {
    PyValueError::new_err("embedded null byte")
}

/// Whether the file system's encoding is UTF-8, as it is unless the locale says otherwise.
fn encodes_in_utf8(py: Python<'_>) -> PyResult<bool> {
    static IS_UTF8: PyOnceLock<bool> = PyOnceLock::new();
    let is_utf8 = IS_UTF8.get_or_try_init(py, || -> PyResult<bool> {
        let encoding = py
            .import("sys")?
            .getattr("getfilesystemencoding")?
            .call0()?
            .extract::<String>()?;
        Ok(encoding.eq_ignore_ascii_case("utf-8"))
    });
    is_utf8.copied()
}

pub(crate) use crate::python_code::fspath;

/// What a function of `os` says of something that cannot be a path, in its own words; it does not get as far as to ask the
/// system. `otherwise` if it has none.
pub(crate) fn refused(function: &str, path: &Bound<'_, PyAny>, otherwise: PyErr) -> PyErr {
    let os = path.py().import("os");
    let function = os.and_then(|os| os.getattr(function));
    function
        .and_then(|function| function.call1((path,)))
        .err()
        .unwrap_or(otherwise)
}
