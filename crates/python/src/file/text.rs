//! The part of a text file that must be quick: a line that is decoded already, and a short write that only has to be
//! encoded. Everything else is Python (`_text.py`), which keeps its state here.

use super::binary::BinaryFile;
use super::text_call::{TextCall, Verb};
use proactor_file::Step;
use pyo3::exceptions::{PyUnicodeEncodeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

/// How many calls of a text file have its turn or wait for it.
#[pyclass(subclass, module = "proactor._native")]
#[derive(Default)]
pub(crate) struct Users {
    #[pyo3(get, set)]
    users: usize,
}

#[pymethods]
impl Users {
    #[new]
    fn new() -> Self {
        Users::default()
    }
}

/// How short strings become bytes here.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Encoder {
    /// In Python: line ends or single writes need looking after, or the encoding is another.
    #[default]
    Slow,
    /// Characters below 128 are bytes, others need Python.
    Ascii,
    Utf8,
}

/// What ends a line, once it is decoded.
enum LineEnd {
    /// "\n".
    LineFeed,
    /// "\n", "\r" and "\r\n".
    Any,
    /// This.
    Other(Py<PyString>),
}

/// A text file's state. `_text.py` derives `TextFile` from it.
#[pyclass(subclass, module = "proactor._native")]
pub(crate) struct TextCore {
    /// None once it is detached.
    #[pyo3(get, set)]
    _buffer: Option<Py<BinaryFile>>,
    /// Characters, of which `_used` have been read.
    #[pyo3(get, set)]
    _decoded: Py<PyString>,
    #[pyo3(get, set)]
    _used: usize,
    /// What they were decoded from.
    #[pyo3(get, set)]
    _chunks: Py<PyList>,
    #[pyo3(get)]
    _turn: Py<Users>,
    line_end: LineEnd,
    encoder: Encoder,
}

#[pymethods]
impl TextCore {
    /// `turn` is shared with the calls that have to wait.
    #[new]
    #[pyo3(signature = (buffer, turn))]
    fn new(py: Python<'_>, buffer: Py<BinaryFile>, turn: Py<Users>) -> Self {
        TextCore {
            _buffer: Some(buffer),
            _decoded: PyString::intern(py, "").unbind(),
            _used: 0,
            _chunks: PyList::empty(py).unbind(),
            _turn: turn,
            line_end: LineEnd::LineFeed,
            encoder: Encoder::Slow,
        }
    }

    /// What ends a line: `open`'s argument `newline`.
    fn _end_lines_with(&mut self, newline: Option<Bound<'_, PyString>>) -> PyResult<()> {
        self.line_end = match newline {
            None => LineEnd::LineFeed,
            Some(newline) => match newline.to_str()? {
                "\n" => LineEnd::LineFeed,
                "" => LineEnd::Any,
                _ => LineEnd::Other(newline.unbind()),
            },
        };
        Ok(())
    }

    /// How short strings are encoded: "utf-8", "ascii" (for all encodings that have it within) or None for in Python.
    fn _encode_as(&mut self, encoding: Option<&str>) -> PyResult<()> {
        self.encoder = match encoding {
            None => Encoder::Slow,
            Some("ascii") => Encoder::Ascii,
            Some("utf-8") => Encoder::Utf8,
            Some(other) => return Err(PyValueError::new_err(format!("not encoded here: {other}"))),
        };
        Ok(())
    }

    /// Reads one line with its end, or at most `size` characters of it. "" is the end of the file.
    #[pyo3(signature = (size=-1, /))]
    fn readline<'py>(slf: &Bound<'py, Self>, size: isize) -> PyResult<Bound<'py, TextCall>> {
        TextCall::new(slf, Verb::Line { size })
    }

    /// Writes a string and returns its length in characters.
    #[pyo3(signature = (text, /))]
    fn write<'py>(slf: &Bound<'py, Self>, text: Bound<'py, PyAny>) -> PyResult<Bound<'py, TextCall>> {
        TextCall::new(slf, Verb::Write { text: text.unbind() })
    }

    fn __anext__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, TextCall>> {
        TextCall::new(slf, Verb::Next)
    }
}

impl TextCore {
    /// Nobody has the turn or waits for it, and the file is open.
    fn free<'py>(&self, py: Python<'py>) -> Option<&Bound<'py, BinaryFile>>
    where
        Self: 'py,
    {
        let buffer = self._buffer.as_ref()?.bind(py);
        (self._turn.borrow(py).users == 0 && !buffer.borrow().closed).then_some(buffer)
    }

    pub(super) fn buffer<'py>(&self, py: Python<'py>) -> Option<Bound<'py, BinaryFile>> {
        self._buffer.as_ref().map(|buffer| buffer.bind(py).clone())
    }

    /// The next line, if all of it is decoded and it is the caller's turn.
    pub(super) fn line_at_hand<'py>(&mut self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.free(py)?;
        let end = self.line_end.after(&self._decoded, self._used as isize)?;
        // SAFETY: a str and places within it. A new reference, or null with MemoryError, which the slow way meets again.
        let line = unsafe {
            let line = ffi::PyUnicode_Substring(self._decoded.as_ptr(), self._used as isize, end);
            Bound::from_owned_ptr_or_opt(py, line)
        };
        self._used = end as usize;
        line
    }

    /// Puts a string into the file's buffer, if there is room and it is the caller's turn. Gives the number of bytes.
    ///
    /// # Errors
    /// An earlier write's.
    pub(super) fn put(&mut self, py: Python<'_>, text: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
        if self.encoder == Encoder::Slow || self._used > 0 || !self._chunks.bind(py).is_empty() {
            return Ok(None);
        }
        let (Some(file), Ok(text)) = (self.free(py), text.cast_exact::<PyString>()) else {
            return Ok(None);
        };
        if let Some(data) = ascii(text) {
            return put(file, data);
        }
        if self.encoder == Encoder::Ascii {
            return Ok(None);
        }
        // SAFETY: a str gives a new bytes object, or null with an exception.
        let data = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyUnicode_AsUTF8String(text.as_ptr())) };
        match data {
            Ok(data) => put(file, data.cast::<PyBytes>()?.as_bytes()),
            // Lone surrogates: the error handler's business.
            Err(e) if e.is_instance_of::<PyUnicodeEncodeError>(py) => Ok(None),
            Err(e) => Err(e),
        }
    }
}

impl LineEnd {
    /// Behind the first line end at or after `start`.
    fn after(&self, text: &Py<PyString>, start: isize) -> Option<isize> {
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

/// The bytes of a str that has only characters below 128.
fn ascii<'a>(text: &'a Bound<'_, PyString>) -> Option<&'a [u8]> {
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

/// Takes the bytes if no other call is under way on the binary file, and there is room.
fn put(file: &Bound<'_, BinaryFile>, data: &[u8]) -> PyResult<Option<usize>> {
    let mut this = file.borrow_mut();
    if this.busy || !this.facts.writable || data.len() > this.core.block() {
        return Ok(None);
    }
    match this.core.put(data) {
        Ok(Step::Blocked) => return Ok(None),
        Ok(Step::Ready(())) => this.written = true,
        Err(e) => return Err(this.error(file.py(), &e)),
    }
    if this.core.wants_op() {
        drop(this);
        // What could not be started will be tried again by the next call.
        let _ = BinaryFile::start_op(file);
    }
    Ok(Some(data.len()))
}
