//! The part of a text file that must be quick: a line that is decoded already, and a short write that only has to be
//! encoded. Everything else is Python (`_text.py`), which keeps its state here.

use super::binary::BinaryFile;
use super::text_call::{TextCall, Verb};
use proactor_file::Step;
use pyo3::exceptions::{PyUnicodeEncodeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

/// As in `_text.py`.
const CHUNK_BYTES: usize = 8192;
/// The longest chunk, of a line that is as long.
const MOST_BYTES: usize = 1 << 20;
/// Somebody takes 0.1 to 0.3 microseconds for each.
const MOST_LINES: usize = 512;
/// A chunk is hundreds of lines for somebody to work on: look at the clock each time.
const LOOK_BYTES: usize = 1 << 16;

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

/// The decoded characters from `start` on are the file's bytes from `place` on.
struct Run {
    start: usize,
    place: u64,
}

/// A string that is in the file's buffer now.
pub(super) struct Put {
    pub(super) characters: usize,
    /// The loop has to go round before the call returns.
    pub(super) gives_way: bool,
    /// A full buffer waits to be written.
    pub(super) wants_op: bool,
}

/// Why a line is not at hand.
pub(super) enum Slow {
    /// Python has to see to it.
    Ask,
    /// As before, and the loop has to go round first.
    Pause,
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
    /// What they were decoded from, up to `run`.
    chunks: Py<PyList>,
    /// Characters that are bytes of the file as they are.
    run: Option<Run>,
    /// Bytes below 128 are characters now, with nothing to be remembered of them.
    #[pyo3(get, set)]
    _ascii_as_is: bool,
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
            chunks: PyList::empty(py).unbind(),
            run: None,
            _ascii_as_is: false,
            _turn: turn,
            line_end: LineEnd::LineFeed,
            encoder: Encoder::Slow,
        }
    }

    /// A list of `Chunk`s: what was decoded, and from what.
    #[getter]
    fn _chunks<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let chunks = self.chunks.bind(py).clone();
        if let Some(Run { start, place }) = self.run.take() {
            let data = ascii(self._decoded.bind(py)).map(|text| PyBytes::new(py, &text[start..]));
            let chunk = py.import("proactor._cookie")?.getattr("Chunk")?;
            chunks.append(chunk.call1((start, place, 0, data))?)?;
        }
        Ok(chunks)
    }

    #[setter(_chunks)]
    fn set_chunks(&mut self, chunks: Py<PyList>) {
        self.chunks = chunks;
        self.run = None;
    }

    /// Decodes one more chunk if it is that simple; the caller has the turn. None: the loop has to go round first.
    fn _decode_as_is(slf: &Bound<'_, Self>) -> PyResult<Option<bool>> {
        let (decoded, buffer) = {
            let mut this = slf.borrow_mut();
            (this.decode_more(slf.py())?, this.buffer(slf.py()))
        };
        match (decoded, buffer) {
            (Ok(_), _) => Ok(Some(true)),
            (Err(Slow::Pause), Some(buffer)) => BinaryFile::give_way(&buffer).map(|()| None),
            (Err(_), _) => Ok(Some(false)),
        }
    }

    /// A call that has let the loop go round has its turn.
    pub(super) fn _go_on(&self, py: Python<'_>) {
        if let Some(file) = &self._buffer {
            file.borrow(py).driver.borrow_mut(py).turn.go_on();
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
    #[pyo3(signature = (size=-1, /), text_signature = "($self, size=-1, /)")]
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

    /// The next line, if it needs no waiting and it is the caller's turn.
    ///
    /// # Errors
    /// A read's.
    pub(super) fn line_at_hand<'py>(&mut self, py: Python<'py>) -> PyResult<Result<Bound<'py, PyAny>, Slow>> {
        if self.free(py).is_none() {
            return Ok(Err(Slow::Ask));
        }
        let mut from = self._used;
        loop {
            if let Some(end) = self.line_end.after(&self._decoded, from as isize) {
                // SAFETY: a str and places within it. A new reference, or null with an exception.
                let line = unsafe {
                    let line = ffi::PyUnicode_Substring(self._decoded.as_ptr(), self._used as isize, end);
                    Bound::from_owned_ptr_or_err(py, line)
                }?;
                self._used = end as usize;
                return Ok(Ok(line));
            }
            match self.decode_more(py)? {
                // Two characters may make a line end.
                Ok(new) => from = new.saturating_sub(1).max(self._used),
                Err(slow) => return Ok(Err(slow)),
            }
        }
    }

    /// Puts one more chunk behind what is decoded, if it is read ahead or cached, and bytes are characters. Says where it
    /// begins.
    fn decode_more(&mut self, py: Python<'_>) -> PyResult<Result<usize, Slow>> {
        let (true, Some(file)) = (self._ascii_as_is, self.buffer(py)) else {
            return Ok(Err(Slow::Ask));
        };
        // What is left is copied each time: a long line takes longer and longer chunks.
        let left = self._decoded.bind(py).len()?.saturating_sub(self._used);
        let most = CHUNK_BYTES.max(left).min(MOST_BYTES);
        if !filled(&file, most)? {
            return Ok(Err(Slow::Ask));
        }
        let mut this = file.borrow_mut();
        let unread = this.core.unread();
        let data = some_lines(whole_chunks(&unread[..unread.len().min(most)]));
        let returns = matches!(self.line_end, LineEnd::Other(_)) || !data.contains(&b'\r');
        let old = self._decoded.clone_ref(py).into_bound(py);
        let (Some(old), false, true, true) = (ascii(&old), data.is_empty(), data.is_ascii(), returns) else {
            return Ok(Err(Slow::Ask));
        };
        if this.charge(py, LOOK_BYTES) {
            return Ok(Err(Slow::Pause));
        }
        let Some(cut) = self.cut_for(py, old.len(), this.core.position()) else {
            return Ok(Err(Slow::Ask));
        };
        self._decoded = joined(py, &old[cut..], data)?;
        self._used -= cut;
        let count = data.len();
        this.core.consume(count);
        Ok(Ok(old.len() - cut))
    }

    /// How many of the `length` decoded characters can go. What comes next is from `place` on. None: that is not where the
    /// last ones ended.
    fn cut_for(&mut self, py: Python<'_>, length: usize, place: u64) -> Option<usize> {
        match &mut self.run {
            Some(run) if run.place + (length - run.start) as u64 != place => None,
            // All of the chunks are used.
            Some(run) if self._used >= run.start => {
                run.place += (self._used - run.start) as u64;
                run.start = 0;
                if !self.chunks.bind(py).is_empty() {
                    self.chunks = PyList::empty(py).unbind();
                }
                Some(self._used)
            }
            Some(_) => Some(0),
            // The last chunk stays as long as some of it is not used.
            none => {
                *none = Some(Run { start: length, place });
                Some(0)
            }
        }
    }

    /// Puts a string into the file's buffer, if there is room and it is the caller's turn.
    ///
    /// # Errors
    /// An earlier write's.
    pub(super) fn put(&mut self, py: Python<'_>, text: &Bound<'_, PyAny>) -> PyResult<Option<Put>> {
        let has_read = self._used > 0 || self.run.is_some() || !self.chunks.bind(py).is_empty();
        if self.encoder == Encoder::Slow || has_read {
            return Ok(None);
        }
        let (Some(file), Ok(text)) = (self.free(py), text.cast_exact::<PyString>()) else {
            return Ok(None);
        };
        // SAFETY: a str.
        let characters = unsafe { ffi::PyUnicode_GET_LENGTH(text.as_ptr()) } as usize;
        if let Some(data) = ascii(text) {
            put(file, data, characters)
        } else if self.encoder == Encoder::Utf8 {
            // SAFETY: a str gives a new bytes object, or null with an exception.
            let data =
                unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyUnicode_AsUTF8String(text.as_ptr())) };
            match data {
                Ok(data) => put(file, data.cast::<PyBytes>()?.as_bytes(), characters),
                // Lone surrogates: the error handler's business.
                Err(e) if e.is_instance_of::<PyUnicodeEncodeError>(py) => Ok(None),
                Err(e) => Err(e),
            }
        } else {
            Ok(None)
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

/// Up to the end of the chunk that has a line end, where `io` would stop: a write after a read goes behind it.
fn whole_chunks(data: &[u8]) -> &[u8] {
    let end = memchr::memchr(b'\n', data).map_or(data.len(), |at| (at / CHUNK_BYTES + 1) * CHUNK_BYTES);
    &data[..end.min(data.len())]
}

/// No more lines than the loop can be kept waiting for.
fn some_lines(data: &[u8]) -> &[u8] {
    let ends = memchr::memchr_iter(b'\n', data).nth(MOST_LINES - 1);
    ends.map_or(data, |at| &data[..=at])
}

/// Whether something is read ahead, after one read of at most so many bytes if it was not and that needs no waiting.
fn filled(file: &Bound<'_, BinaryFile>, most: usize) -> PyResult<bool> {
    let mut this = file.borrow_mut();
    if this.busy || !this.facts.readable {
        return Ok(false);
    }
    this.core.begin();
    loop {
        match this.core.fill_some(most) {
            Err(e) => return Err(this.error(file.py(), &e)),
            Ok(Step::Ready(count)) => return Ok(count > 0),
            Ok(Step::Blocked) if !this.core.wants_op() => return Ok(false),
            Ok(Step::Blocked) => drop(this),
        }
        if !BinaryFile::start_op(file)? {
            return Ok(false);
        }
        this = file.borrow_mut();
    }
}

/// A str of two parts, whose bytes are below 128.
fn joined(py: Python<'_>, first: &[u8], second: &[u8]) -> PyResult<Py<PyString>> {
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
fn put(file: &Bound<'_, BinaryFile>, data: &[u8], characters: usize) -> PyResult<Option<Put>> {
    let py = file.py();
    let mut this = file.borrow_mut();
    if this.busy || !this.facts.writable || data.len() > this.core.block() {
        return Ok(None);
    }
    match this.core.put(data) {
        Ok(Step::Blocked) => return Ok(None),
        Ok(Step::Ready(())) => this.written = true,
        Err(e) => return Err(this.error(py, &e)),
    }
    Ok(Some(Put {
        characters,
        gives_way: this.charge(py, data.len()),
        wants_op: this.core.wants_op(),
    }))
}
