//! What a text file has decoded, and how it goes on where that is simple.

use super::ascii::{ascii, first_line, joined, LineEnd};
use super::binary::{BinaryFile, Closed};
use super::text::Users;
use proactor_file::Step;
use pyo3::exceptions::PyUnicodeEncodeError;
use pyo3::ffi;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};
use pyo3::PyTraverseError;
use std::sync::Arc;

/// As in `_text.py`.
const CHUNK_BYTES: usize = 8192;
/// The longest chunk, of a line that is as long. Python collects the parts of a longer line: to copy what is left for each
/// chunk would take time by the square of its length.
const MOST_BYTES: usize = 1 << 20;
/// Somebody takes 0.1 to 0.3 microseconds for each.
const MOST_LINES: u32 = 128;
/// A chunk, or so many lines, are something to work on: look at the clock each time.
const LOOK_BYTES: usize = 1 << 16;

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

/// The decoded characters from `start` on are the file's bytes from `place` on.
pub(super) struct Run {
    pub(super) start: usize,
    pub(super) place: u64,
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

/// What a text file holds.
pub(super) struct Text {
    buffer: Option<Py<BinaryFile>>,
    /// The buffer's, or of one that was detached.
    closed: Arc<Closed>,
    pub(super) turn: Py<Users>,
    /// Characters, of which `used` have been read.
    pub(super) decoded: Py<PyString>,
    pub(super) used: usize,
    /// So many may be read without a look at the clock.
    lines: u32,
    /// What they were decoded from, up to `run`.
    pub(super) chunks: Py<PyList>,
    /// Characters that are bytes of the file as they are.
    pub(super) run: Option<Run>,
    /// Bytes below 128 are characters now, with nothing to be remembered of them.
    pub(super) ascii_as_is: bool,
    /// Bytes for each character in the last chunk, by which `io` looks for a position.
    pub(super) ratio: f64,
    /// A step of an iteration was the last to read. As in `io`, a write does not forget what it has read ahead.
    pub(super) iterating: bool,
    /// Something else has read ahead, or has gone somewhere: a write forgets what is decoded.
    pub(super) snapshot: bool,
    pub(super) line_end: LineEnd,
    pub(super) encoder: Encoder,
}

impl Text {
    pub(super) fn new(py: Python<'_>, buffer: Py<BinaryFile>, turn: Py<Users>) -> Self {
        let closed = Arc::clone(&buffer.borrow(py).closed);
        Text {
            closed,
            buffer: Some(buffer),
            turn,
            decoded: PyString::intern(py, "").unbind(),
            used: 0,
            lines: 0,
            chunks: PyList::empty(py).unbind(),
            run: None,
            ascii_as_is: false,
            ratio: 0.0,
            iterating: false,
            snapshot: false,
            line_end: LineEnd::LineFeed,
            encoder: Encoder::Slow,
        }
    }

    pub(super) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.buffer)?;
        visit.call(&self.turn)?;
        visit.call(&self.chunks)
    }

    fn is_open(&self) -> bool {
        self.buffer.is_some() && !self.closed.get() && self.closed.is_here()
    }

    /// Nobody has the turn or waits for it, and the file is open.
    fn is_free(&self) -> bool {
        self.is_open() && self.turn.get().none()
    }

    /// The next line, if it only has to be copied. Nothing else happens here, and nothing fails.
    pub(super) fn line_at_once<'py>(&mut self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        if self.lines == 0 || !self.is_free() || !matches!(self.line_end, LineEnd::LineFeed) {
            return None;
        }
        let (line, length) = first_line(py, ascii(self.decoded.bind(py))?.get(self.used..)?)?;
        self.used += length;
        self.lines -= 1;
        Some(line)
    }

    /// Puts a string whose characters are bytes into the file's buffer, if it only has to be copied, and gives its length.
    /// Nothing else happens here, and nothing fails.
    pub(super) fn put_at_once<'py>(
        &self,
        py: Python<'py>,
        text: &Bound<'py, PyAny>,
    ) -> Option<Bound<'py, PyAny>> {
        if self.encoder == Encoder::Slow || self.has_read(py) || !self.is_free() {
            return None;
        }
        let data = ascii(text.cast_exact::<PyString>().ok()?)?;
        let mut file = self.buffer.as_ref()?.bind(py).try_borrow_mut().ok()?;
        // SAFETY: a new int, or null with MemoryError.
        let length =
            unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyLong_FromSsize_t(data.len() as isize)) };
        let length = length.ok()?;
        file.put_at_once(py, data).then_some(length)
    }

    /// A write has to forget what was read ahead.
    fn has_read(&self, py: Python<'_>) -> bool {
        self.used > 0 || self.run.is_some() || !self.chunks.bind(py).is_empty()
    }

    pub(super) fn set_buffer(
        &mut self,
        py: Python<'_>,
        buffer: Option<Py<BinaryFile>>,
    ) -> Option<Py<BinaryFile>> {
        if let Some(buffer) = &buffer {
            self.closed = Arc::clone(&buffer.borrow(py).closed);
        }
        std::mem::replace(&mut self.buffer, buffer)
    }

    pub(super) fn buffer<'py>(&self, py: Python<'py>) -> Option<Bound<'py, BinaryFile>> {
        self.buffer.as_ref().map(|buffer| buffer.bind(py).clone())
    }

    /// The next line, if it needs no waiting and it is the caller's turn, which it may have already.
    ///
    /// # Errors
    /// A read's.
    pub(super) fn line_at_hand<'py>(
        &mut self,
        py: Python<'py>,
        has_turn: bool,
    ) -> PyResult<Result<Bound<'py, PyAny>, Slow>> {
        if !(self.is_open() && (has_turn || self.turn.get().none())) {
            return Ok(Err(Slow::Ask));
        }
        if self.lines == 0 && self.charge(py) {
            return Ok(Err(Slow::Pause));
        }
        let mut from = self.used;
        loop {
            if let Some(end) = self.line_end.after(&self.decoded, from as isize) {
                // SAFETY: a str and places within it. A new reference, or null with an exception.
                let line = unsafe {
                    let line = ffi::PyUnicode_Substring(self.decoded.as_ptr(), self.used as isize, end);
                    Bound::from_owned_ptr_or_err(py, line)
                }?;
                self.used = end as usize;
                self.lines = self.lines.saturating_sub(1);
                return Ok(Ok(line));
            }
            match self.decode_more(py)? {
                // Two characters may make a line end.
                Ok(new) => from = new.saturating_sub(1).max(self.used),
                Err(slow) => return Ok(Err(slow)),
            }
        }
    }

    /// Puts one more chunk behind what is decoded, if it is read ahead or cached, and bytes are characters. Says where it
    /// begins.
    pub(super) fn decode_more(&mut self, py: Python<'_>) -> PyResult<Result<usize, Slow>> {
        let (true, Some(file)) = (self.ascii_as_is, self.buffer(py)) else {
            return Ok(Err(Slow::Ask));
        };
        // What is left is copied each time: a long line takes longer and longer chunks.
        let left = self.decoded.bind(py).len()?.saturating_sub(self.used);
        if left > MOST_BYTES {
            return Ok(Err(Slow::Ask));
        }
        // Whole chunks, where those of `io` end: positions depend on it.
        let most = (left / CHUNK_BYTES).max(1) * CHUNK_BYTES;
        if !filled(&file, most)? {
            return Ok(Err(Slow::Ask));
        }
        let mut this = file.borrow_mut();
        let unread = this.core.unread();
        let data = whole_chunks(&unread[..unread.len().min(most)]);
        let returns = matches!(self.line_end, LineEnd::Other(_)) || memchr::memchr(b'\r', data).is_none();
        let old = self.decoded.clone_ref(py).into_bound(py);
        let (Some(old), false, true, true) = (ascii(&old), data.is_empty(), data.is_ascii(), returns) else {
            return Ok(Err(Slow::Ask));
        };
        self.lines = MOST_LINES;
        if this.charge(py, LOOK_BYTES) {
            return Ok(Err(Slow::Pause));
        }
        let Some(cut) = self.cut_for(py, old.len(), this.core.position()) else {
            return Ok(Err(Slow::Ask));
        };
        self.decoded = joined(py, &old[cut..], data)?;
        self.ratio = 1.0;
        self.snapshot |= !self.iterating;
        self.used -= cut;
        let count = data.len();
        this.core.consume(count);
        Ok(Ok(old.len() - cut))
    }

    /// Counts the lines to come. True: the call has to give way first.
    fn charge(&mut self, py: Python<'_>) -> bool {
        self.lines = MOST_LINES;
        let file = self.buffer.as_ref();
        file.is_some_and(|file| file.borrow(py).charge(py, LOOK_BYTES))
    }

    /// How many of the `length` decoded characters can go. What comes next is from `place` on. None: that is not where the
    /// last ones ended.
    fn cut_for(&mut self, py: Python<'_>, length: usize, place: u64) -> Option<usize> {
        match &mut self.run {
            Some(run) if run.place + (length - run.start) as u64 != place => None,
            // All of the chunks are used.
            Some(run) if self.used >= run.start => {
                run.place += (self.used - run.start) as u64;
                run.start = 0;
                if !self.chunks.bind(py).is_empty() {
                    self.chunks = PyList::empty(py).unbind();
                }
                Some(self.used)
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
    pub(super) fn put(&self, py: Python<'_>, text: &Bound<'_, PyAny>) -> PyResult<Option<Put>> {
        if self.encoder == Encoder::Slow || self.has_read(py) || !self.is_free() {
            return Ok(None);
        }
        let (Some(file), Ok(text)) = (&self.buffer, text.cast_exact::<PyString>()) else {
            return Ok(None);
        };
        let file = file.bind(py);
        // SAFETY: a str.
        let characters = unsafe { ffi::PyUnicode_GET_LENGTH(text.as_ptr()) } as usize;
        if characters > file.borrow().core.block() {
            // It has as many bytes at least.
            return Ok(None);
        }
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

/// Up to the end of the chunk that has a line end, where `io` would stop: a write after a read goes behind it.
fn whole_chunks(data: &[u8]) -> &[u8] {
    let end = memchr::memchr(b'\n', data).map_or(data.len(), |at| (at / CHUNK_BYTES + 1) * CHUNK_BYTES);
    &data[..end.min(data.len())]
}

/// Whether so many bytes are read ahead, or all up to the end, after reads that need no waiting.
fn filled(file: &Bound<'_, BinaryFile>, most: usize) -> PyResult<bool> {
    let mut this = file.borrow_mut();
    if this.busy || !this.facts.readable {
        return Ok(false);
    }
    this.core.begin();
    loop {
        match this.core.fill_chunk(most) {
            Err(e) => return Err(this.error(file.py(), &e)),
            Ok(Step::Ready(count)) => {
                if this.core.wants_op() {
                    drop(this);
                    // What is read ahead. If it cannot be started, whoever gets there tries again.
                    let _ = BinaryFile::start_op(file);
                }
                return Ok(count > 0);
            }
            Ok(Step::Blocked) if !this.core.wants_op() => return Ok(false),
            Ok(Step::Blocked) => drop(this),
        }
        if !BinaryFile::start_op(file)? {
            return Ok(false);
        }
        this = file.borrow_mut();
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
