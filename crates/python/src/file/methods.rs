//! The methods of a binary file: arguments are checked here, and the work is a `FileCall`.

use super::binary::BinaryFile;
use super::call::FileCall;
use super::lines::Scan;
use super::op::FileOp;
use super::verb::{Data, Verb};
use crate::memory::Exported;
use proactor_engine::Error;
use proactor_file::Lock;
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::PyTraverseError;
use std::os::fd::RawFd;
use std::sync::Arc;

/// A count of bytes as `io` takes it: None and negative numbers are all there is.
fn count_of(size: Option<isize>) -> Option<usize> {
    size.and_then(|size| usize::try_from(size).ok())
}

/// Memory to be read into. What is not such is a TypeError, as in `io`.
fn target_of(buffer: &Bound<'_, PyAny>) -> PyResult<Arc<Exported>> {
    Exported::new(buffer, true).map(Arc::new).map_err(|e| {
        let py = buffer.py();
        match e.is_instance_of::<PyBufferError>(py) {
            true => PyTypeError::new_err("a contiguous read-write bytes-like object is required"),
            false => e,
        }
    })
}

#[pymethods]
impl BinaryFile {
    /// Reads `size` bytes, fewer only at the end of the file; all that is left if it is None or -1. Without buffering it
    /// is one read of at most `size` bytes. b"" is the end.
    #[pyo3(signature = (size=None, /))]
    fn read<'py>(slf: &Bound<'py, Self>, size: Option<isize>) -> PyResult<Bound<'py, FileCall>> {
        let this = slf.borrow();
        this.check_readable(slf.py())?;
        let verb = match count_of(size) {
            Some(count) if this.core.block() == 0 => Verb::ReadSome { count, long: None },
            None if this.core.block() > 0 && size.is_some_and(|size| size < -1) => {
                let why = "read length must be non-negative or -1";
                return Err(PyValueError::new_err(why));
            }
            count => Verb::Read { count, long: None },
        };
        FileCall::new(slf, "read", verb)
    }

    /// Reads to the end of the file.
    fn readall<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, FileCall>> {
        slf.borrow().check_readable(slf.py())?;
        FileCall::new(
            slf,
            "readall",
            Verb::Read {
                count: None,
                long: None,
            },
        )
    }

    /// Reads at most `size` bytes (a buffer's worth if None or negative) with at most one read of the file.
    #[pyo3(signature = (size=None, /))]
    fn read1<'py>(slf: &Bound<'py, Self>, size: Option<isize>) -> PyResult<Bound<'py, FileCall>> {
        slf.borrow().check_readable(slf.py())?;
        let count = count_of(size);
        FileCall::new(slf, "read1", Verb::Read1 { count, long: None })
    }

    /// What a text file decodes at a time.
    fn _read_chunk<'py>(slf: &Bound<'py, Self>, count: usize) -> PyResult<Bound<'py, FileCall>> {
        slf.borrow().check_readable(slf.py())?;
        FileCall::new(slf, "read1", Verb::Chunk { count })
    }

    /// Reads into a writable buffer and returns the number of bytes: as many as it has room for, fewer only at the end.
    #[pyo3(signature = (buffer, /))]
    fn readinto<'py>(slf: &Bound<'py, Self>, buffer: &Bound<'_, PyAny>) -> PyResult<Bound<'py, FileCall>> {
        slf.borrow().check_readable(slf.py())?;
        let some = slf.borrow().core.block() == 0;
        let verb = Verb::ReadInto {
            // A class's `__buffer__` may use this file: it must not be borrowed.
            target: target_of(buffer)?,
            some,
            long: false,
        };
        FileCall::new(slf, "readinto", verb)
    }

    /// As `readinto`, with at most one read of the file.
    #[pyo3(signature = (buffer, /))]
    fn readinto1<'py>(slf: &Bound<'py, Self>, buffer: &Bound<'_, PyAny>) -> PyResult<Bound<'py, FileCall>> {
        slf.borrow().check_readable(slf.py())?;
        let verb = Verb::ReadInto {
            target: target_of(buffer)?,
            some: true,
            long: false,
        };
        FileCall::new(slf, "readinto1", verb)
    }

    /// What is in the buffer, after one read if it was empty; the position stays. `size` is ignored, as `io` does.
    #[pyo3(signature = (size=0, /))]
    fn peek<'py>(slf: &Bound<'py, Self>, size: isize) -> PyResult<Bound<'py, FileCall>> {
        let _ = size;
        slf.borrow().check_readable(slf.py())?;
        FileCall::new(slf, "peek", Verb::Peek)
    }

    /// Reads one line with its end, b"\n", or at most `size` bytes of it. b"" is the end of the file.
    #[pyo3(signature = (size=None, /))]
    fn readline<'py>(slf: &Bound<'py, Self>, size: Option<isize>) -> PyResult<Bound<'py, FileCall>> {
        slf.borrow().check_readable(slf.py())?;
        let limit = count_of(size).unwrap_or(usize::MAX);
        FileCall::new(slf, "readline", Verb::Line { limit })
    }

    /// Reads all lines that are left, or lines until they have more than `hint` bytes together.
    #[pyo3(signature = (hint=None, /))]
    fn readlines<'py>(slf: &Bound<'py, Self>, hint: Option<isize>) -> PyResult<Bound<'py, FileCall>> {
        slf.borrow().check_readable(slf.py())?;
        let verb = Verb::Lines {
            hint: count_of(hint).unwrap_or(0),
            scan: Scan::default(),
        };
        FileCall::new(slf, "readlines", verb)
    }

    /// Writes any bytes-like object and returns its length. It is in the kernel's hands when the buffer is full, and at
    /// the latest after `flush` or `close`. An error of such a write is raised by the next call.
    #[pyo3(signature = (data, /))]
    fn write<'py>(slf: &Bound<'py, Self>, data: &Bound<'_, PyAny>) -> PyResult<Bound<'py, FileCall>> {
        let py = slf.py();
        slf.borrow().check_writable(py)?;
        if data.is_instance_of::<pyo3::types::PyString>() {
            return Err(PyTypeError::new_err("a bytes-like object is required, not 'str'"));
        }
        let data = Data::new(data)?;
        let mut this = slf.borrow_mut();
        this.written = true;
        let bytes = data.bytes(py).len();
        let verb = if bytes > this.core.block() {
            Verb::Large {
                buffer: Some(data.into_buf(py)?),
                bytes,
            }
        } else {
            Verb::Write { data }
        };
        drop(this);
        FileCall::new(slf, "write", verb)
    }

    /// Writes bytes-like objects one after the other, from an iterable or an asynchronous one.
    #[pyo3(signature = (lines, /))]
    fn writelines<'py>(slf: &Bound<'py, Self>, lines: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        slf.borrow().check_writable(py)?;
        py.import("proactor._text_base")?
            .getattr("write_lines")?
            .call1((slf, lines))
    }

    /// Goes to a place: `offset` bytes from the start, the position (`whence` 1) or the end (2), or to the next data (3)
    /// or hole (4) from `offset` on. Returns it. OSError for a place before the start, or beyond what the file system has
    /// (EINVAL), and for no such data or hole (ENXIO).
    #[pyo3(signature = (offset, whence=0, /))]
    fn seek<'py>(
        slf: &Bound<'py, Self>,
        offset: &Bound<'py, PyAny>,
        whence: i32,
    ) -> PyResult<Bound<'py, FileCall>> {
        let offset = offset
            .extract()
            .map_err(|e| slf.borrow().not_an_offset(slf.py(), e))?;
        slf.borrow().check_seekable(slf.py())?;
        if !(0..=4).contains(&whence) {
            return Err(PyValueError::new_err(format!(
                "invalid whence ({whence}, should be 0, 1 or 2)"
            )));
        }
        FileCall::new(slf, "seek", Verb::Seek { offset, whence })
    }

    /// The position in bytes.
    fn tell<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, FileCall>> {
        slf.borrow().check_seekable(slf.py())?;
        FileCall::new(slf, "tell", Verb::Tell)
    }

    /// Sets the file's length to `size` bytes, by default the position, which stays. Returns it. OSError (EINVAL) if it is
    /// negative; EFBIG if the file system has no such length.
    #[pyo3(signature = (size=None, /))]
    fn truncate<'py>(slf: &Bound<'py, Self>, size: Option<i64>) -> PyResult<Bound<'py, FileCall>> {
        slf.borrow().check_writable(slf.py())?;
        let size = size
            .map(|size| {
                u64::try_from(size).map_err(|_| {
                    slf.borrow()
                        .error(slf.py(), &Error::new(libc::EINVAL, "truncate"))
                })
            })
            .transpose()?;
        slf.borrow_mut().written = true;
        FileCall::new(slf, "truncate", Verb::Truncate { size, asked: false })
    }

    /// Brings what was written to the kernel (not to the device).
    fn flush<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, FileCall>> {
        slf.borrow().check_open()?;
        FileCall::new(slf, "flush", Verb::Flush)
    }

    /// Flushes, and brings data and metadata to the device: fsync(2).
    fn fsync<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, FileCall>> {
        Self::sync(slf, "fsync", false)
    }

    /// Flushes, and brings the data to the device, with the metadata needed to read it: fdatasync(2).
    fn fdatasync<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, FileCall>> {
        Self::sync(slf, "fdatasync", true)
    }

    /// Reads `size` bytes at `offset`, fewer only at the end of the file. The position stays, and calls of this kind
    /// wait for no turn: any number of them may run at once. Data written before are with the kernel first. OSError
    /// (ESPIPE) for a pipe.
    #[pyo3(signature = (size, offset, /))]
    fn pread(slf: &Bound<'_, Self>, size: i64, offset: i64) -> PyResult<FileOp> {
        Self::reading_bytes(slf, size, offset)
    }

    /// As `pread`, into a writable buffer, which is exported until the last op on it has ended, even if the call is
    /// cancelled before. Returns the number of bytes.
    #[pyo3(signature = (buffer, offset, /))]
    fn preadinto(slf: &Bound<'_, Self>, buffer: &Bound<'_, PyAny>, offset: i64) -> PyResult<FileOp> {
        Self::reading_into(slf, buffer, offset)
    }

    /// As `preadinto`, into any number of buffers, one after the other.
    #[pyo3(signature = (buffers, offset, /))]
    fn preadv(slf: &Bound<'_, Self>, buffers: &Bound<'_, PyAny>, offset: i64) -> PyResult<FileOp> {
        Self::reading_vector(slf, buffers, offset)
    }

    /// Writes all of a bytes-like object at `offset` and returns its length. The position stays, as with `pread`. In an
    /// append mode the kernel ignores the offset and appends. When cancelled, all is written in the background or, if
    /// data written before were not with the kernel yet, nothing.
    #[pyo3(signature = (data, offset, /))]
    fn pwrite(slf: &Bound<'_, Self>, data: &Bound<'_, PyAny>, offset: i64) -> PyResult<FileOp> {
        Self::writing_at(slf, data, offset)
    }

    /// As `pwrite`, from any number of bytes-like objects, one after the other. More than 1,024 of them, or 2 GiB, take more
    /// than one system call, between which another's write may come.
    #[pyo3(signature = (buffers, offset, /))]
    fn pwritev(slf: &Bound<'_, Self>, buffers: &Bound<'_, PyAny>, offset: i64) -> PyResult<FileOp> {
        Self::writing_vector(slf, buffers, offset)
    }

    /// Reserves or changes the space of a part of the file: fallocate(2), with its `FALLOC_FL_*` as `mode`. Nothing is
    /// emulated: OSError (EOPNOTSUPP) where the file system cannot. When cancelled, it may have happened.
    #[pyo3(signature = (offset, length, *, mode=0))]
    fn fallocate(slf: &Bound<'_, Self>, offset: i64, length: i64, mode: i32) -> PyResult<FileOp> {
        Self::allocating(slf, offset, length, mode)
    }

    /// Announces how a part of the file will be used: `advice` is one of `os.POSIX_FADV_*`; a `length` of 0 is to the end.
    /// OSError (EINVAL) for another one, ESPIPE for a pipe.
    #[pyo3(signature = (advice, offset=0, length=0))]
    fn advise(slf: &Bound<'_, Self>, advice: i32, offset: i64, length: i64) -> PyResult<FileOp> {
        Self::advising(slf, advice, offset, length)
    }

    /// Copies at most `count` bytes to another file (an open one of ours, a descriptor or an object with `fileno()`), or to
    /// another part of this one, and returns how many: fewer only at the end of this file. The kernel does it if it can,
    /// perhaps without moving any (copy_file_range(2), between file systems from Linux 5.3 on); if not, a worker reads and
    /// writes. Positions stay. OSError (EINVAL) for overlapping parts of one file. When cancelled, a part may have been
    /// copied.
    #[pyo3(signature = (dst, count, offset_src=0, offset_dst=0))]
    fn copy_range(
        slf: &Bound<'_, Self>,
        dst: &Bound<'_, PyAny>,
        count: i64,
        offset_src: i64,
        offset_dst: i64,
    ) -> PyResult<FileOp> {
        Self::copying(slf, dst, count, offset_src, offset_dst)
    }

    /// Sends `count` bytes from `offset` on to a socket or a pipe (a descriptor or an object with `fileno()`), and returns
    /// how many: fewer only at the end of this file. It waits for a slow peer, in a thread of its own. When cancelled, a
    /// part may have been sent.
    #[pyo3(signature = (out, offset, count))]
    fn sendfile(slf: &Bound<'_, Self>, out: &Bound<'_, PyAny>, offset: i64, count: i64) -> PyResult<FileOp> {
        Self::sending(slf, out, offset, count)
    }

    /// Locks `length` bytes from `start` on (0: to the end, wherever that is by then) against other open files of any
    /// process that ask for a lock; shared if not `exclusive`. An advisory lock of this open file: it goes when the file is
    /// closed, and a second `lock` of the same bytes replaces it. What was read ahead is dropped.
    ///
    /// It waits for its turn in a thread of its own; BlockingIOError at once if not `blocking`. When cancelled, this call
    /// holds no lock (and a lock that the file had there before may be gone too). OSError (EBADF) if the file is not open
    /// for writing or, with a shared one, for reading. F_OFD_SETLK of fcntl(2), there since Linux 3.15.
    #[pyo3(signature = (*, exclusive=true, blocking=true, start=0, length=0))]
    fn lock(
        slf: &Bound<'_, Self>,
        exclusive: bool,
        blocking: bool,
        start: i64,
        length: i64,
    ) -> PyResult<FileOp> {
        let lock = Lock {
            exclusive,
            start,
            length,
        };
        Self::locking(slf, lock, blocking)
    }

    /// Brings what was written to the kernel, then gives up the lock on these bytes, if there is one. An error of the flush
    /// is raised when the lock is gone. When cancelled before that, the lock stays.
    #[pyo3(signature = (*, start=0, length=0))]
    fn unlock(slf: &Bound<'_, Self>, start: i64, length: i64) -> PyResult<FileOp> {
        let lock = Lock {
            exclusive: true,
            start,
            length,
        };
        Self::unlocking(slf, lock)
    }

    /// Flushes and closes; does nothing the second time. An error of the flush is raised after the file is closed. A
    /// cancelled close goes on by itself.
    fn close<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, FileCall>> {
        FileCall::new(slf, "close", Verb::closing())
    }

    fn __aenter__<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, FileCall>> {
        slf.borrow().check_open()?;
        FileCall::new(&slf, "__aenter__", Verb::Enter)
    }

    #[pyo3(signature = (*_exc_info))]
    fn __aexit__<'py>(
        slf: &Bound<'py, Self>,
        _exc_info: &Bound<'_, PyAny>,
    ) -> PyResult<Bound<'py, FileCall>> {
        FileCall::new(slf, "__aexit__", Verb::closing())
    }

    fn __aiter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.borrow().check_readable(slf.py())?;
        Ok(slf)
    }

    fn __anext__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, FileCall>> {
        slf.borrow().check_readable(slf.py())?;
        FileCall::new(slf, "__anext__", Verb::Next)
    }

    /// The file's name as it was given to `open`: a path, or a descriptor.
    #[getter]
    fn name(&self, py: Python<'_>) -> Py<PyAny> {
        self.facts.name.clone_ref(py)
    }

    /// The mode, as `io` writes it: "rb", "rb+", "wb", "xb", "ab" ...
    #[getter]
    fn mode(&self) -> &'static str {
        self.facts.mode
    }

    /// Whether it is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.closed.get()
    }

    /// RuntimeError on another loop than the file's own, unless it is closed.
    fn _check_loop(&self, py: Python<'_>) -> PyResult<()> {
        match self.closed.get() {
            true => Ok(()),
            false => self.check_loop(py),
        }
    }

    /// The descriptor. Raises ValueError when the file is closed.
    fn fileno(&self) -> PyResult<RawFd> {
        self.check_open()?;
        Ok(self.facts.fd)
    }

    /// Whether the mode allows reading. Raises ValueError when the file is closed.
    fn readable(&self) -> PyResult<bool> {
        self.check_open()?;
        Ok(self.facts.readable)
    }

    /// Whether the mode allows writing. Raises ValueError when the file is closed.
    fn writable(&self) -> PyResult<bool> {
        self.check_open()?;
        Ok(self.facts.writable)
    }

    /// Whether it has positions, which pipes and terminals have not. Raises ValueError when the file is closed.
    fn seekable(&self) -> PyResult<bool> {
        self.check_open()?;
        Ok(self.core.seekable())
    }

    /// Whether it is a terminal.
    fn isatty(&self) -> PyResult<bool> {
        self.check_open()?;
        // SAFETY: no pointers.
        Ok(unsafe { libc::isatty(self.facts.fd) } == 1)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.traverse(&visit)
    }

    fn __clear__(&mut self) {
        self.limiter = None;
        self.waiter = None;
        self.queue.clear();
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let name = self.facts.name.bind(py).repr()?;
        let closed = if self.closed.get() { " closed" } else { "" };
        Ok(format!(
            "<proactor.BinaryFile name={name} mode='{}'{closed}>",
            self.facts.mode
        ))
    }
}

impl BinaryFile {
    fn sync<'py>(
        slf: &Bound<'py, Self>,
        name: &'static str,
        data_only: bool,
    ) -> PyResult<Bound<'py, FileCall>> {
        slf.borrow().check_open()?;
        let verb = Verb::Sync {
            data_only,
            asked: false,
        };
        FileCall::new(slf, name, verb)
    }
}
