//! Strings whose characters are bytes, and where their lines end.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// A longer line takes its time anyway.
const SHORT_BYTES: usize = 4096;

/// What ends a line, once it is decoded.
pub(super) enum LineEnd {
    /// "\n".
    LineFeed,
    /// "\n", "\r" and "\r\n".
    Any,
    /// This.
    Other(Py<PyString>),
}

impl LineEnd {
    /// Behind the first line end at or after `start`.
    pub(super) fn after(&self, text: &Py<PyString>, start: isize) -> Option<isize> {
        let text = text.as_ptr();
        // SAFETY: a str; the search stays within it.
        let find = |character: char, end: isize| unsafe {
            ffi::PyUnicode_FindChar(text, character.into(), start, end, 1)
        };
        // SAFETY: a str.
        let length = unsafe { ffi::PyUnicode_GET_LENGTH(text) };
        let found = |at: isize, width: isize| (at >= 0).then_some(at + width);
        match self {
            LineEnd::LineFeed => found(find('\n', length), 1),
            LineEnd::Any => {
                let line_feed = find('\n', length);
                let carriage_return = find('\r', if line_feed < 0 { length } else { line_feed });
                match carriage_return {
                    // The decoder never leaves a "\r" at the end that a "\n" may follow.
                    0.. if carriage_return + 1 != line_feed => Some(carriage_return + 1),
                    _ => found(line_feed, 1),
                }
            }
            LineEnd::Other(end) => {
                // SAFETY: two strs; the search stays within the first.
                let at = unsafe { ffi::PyUnicode_Find(text, end.as_ptr(), start, length, 1) };
                // SAFETY: a str.
                found(at, unsafe { ffi::PyUnicode_GET_LENGTH(end.as_ptr()) })
            }
        }
    }
}

/// A str of two parts, whose bytes are below 128.
pub(super) fn joined(py: Python<'_>, first: &[u8], second: &[u8]) -> PyResult<Py<PyString>> {
    let length = first.len() + second.len();
    // SAFETY: a new str of this length with room for a byte each, that nobody else knows yet, or null with MemoryError.
    unsafe {
        let text = Bound::from_owned_ptr_or_err(py, ffi::PyUnicode_New(length as isize, 127))?;
        let room = std::slice::from_raw_parts_mut(ffi::PyUnicode_DATA(text.as_ptr()).cast::<u8>(), length);
        let (head, tail) = room.split_at_mut(first.len());
        head.copy_from_slice(first);
        tail.copy_from_slice(second);
        Ok(text.cast_into_unchecked::<PyString>().unbind())
    }
}

/// The bytes of a str that has only characters below 128.
pub(super) fn ascii<'a>(text: &'a Bound<'_, PyString>) -> Option<&'a [u8]> {
    let object = text.as_ptr();
    // SAFETY: a str; the bytes of a compact ASCII one lie in the object, which lives and does not change.
    unsafe {
        if ffi::PyUnicode_IS_COMPACT_ASCII(object) == 0 {
            return None;
        }
        let data = ffi::PyUnicode_DATA(object).cast::<u8>();
        Some(std::slice::from_raw_parts(
            data,
            ffi::PyUnicode_GET_LENGTH(object) as usize,
        ))
    }
}

/// The first line of these bytes and its length in them, if they have one that is short.
pub(super) fn first_line<'py>(py: Python<'py>, text: &[u8]) -> Option<(Bound<'py, PyAny>, usize)> {
    let line = &text[..=memchr::memchr(b'\n', text)?];
    if line.len() == 1 || line.len() > SHORT_BYTES {
        // The interpreter has a string for each single character.
        return None;
    }
    let string = joined(py, line, &[]).ok()?;
    Some((string.into_bound(py).into_any(), line.len()))
}
