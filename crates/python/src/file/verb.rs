//! What the methods of an open file do, step by step. No I/O: a step that needs an op says that it is blocked.

use super::binary::BinaryFile;
use super::io_buffer;
use super::lines::{self, Scan};
use super::long::{self, left_in_file, Reading, LARGE_READ};
use crate::memory::{self, Exported};
use proactor_engine::buffer::{Buf, Memory};
use proactor_engine::op::{Close, File, Fsync, Op, Truncate};
use proactor_engine::Error;
use proactor_file::{Buffered, Step};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::os::fd::IntoRawFd;
use std::sync::Arc;

/// One method call with its arguments, and how far it has come.
pub(super) enum Verb {
    /// At most so many bytes, all of them unless the file ends before; to the end if None.
    Read {
        count: Option<usize>,
        long: Option<Reading>,
    },
    /// What one read brings, at most so many bytes.
    ReadSome {
        count: usize,
        long: Option<Reading>,
    },
    /// What the buffer has or one read brings, at most so many bytes, or a buffer's worth.
    Read1 {
        count: Option<usize>,
        long: Option<Reading>,
    },
    /// What a text file decodes at a time: so many bytes, or all up to the end, or what a pipe has.
    Chunk {
        count: usize,
    },
    ReadInto {
        /// Ours alone unless it is filled by a long read.
        target: Arc<Exported>,
        some: bool,
        long: bool,
    },
    Peek,
    Line {
        limit: usize,
    },
    /// The next of an iteration.
    Next,
    /// Their lengths are found first, and all are taken at once.
    Lines {
        hint: usize,
        scan: Scan,
    },
    Write {
        data: Data,
    },
    Large {
        buffer: Option<Buf>,
        bytes: usize,
    },
    Seek {
        offset: i64,
        whence: i32,
    },
    Tell,
    Sync {
        data_only: bool,
        asked: bool,
    },
    Truncate {
        size: Option<u64>,
        asked: bool,
    },
    Flush,
    Close {
        failed: Option<PyErr>,
        asked: bool,
    },
    /// Gives the file itself.
    Enter,
}

/// Bytes to be written.
pub(super) enum Data {
    Bytes(Py<PyBytes>),
    Exported(Exported),
}

impl Data {
    /// # Errors
    /// TypeError for what is no contiguous buffer.
    pub(super) fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        match object.cast_exact::<PyBytes>() {
            Ok(bytes) => Ok(Data::Bytes(bytes.clone().unbind())),
            Err(_) => Ok(Data::Exported(Exported::new(object, false)?)),
        }
    }

    pub(super) fn bytes<'a>(&'a self, py: Python<'a>) -> &'a [u8] {
        match self {
            Data::Bytes(bytes) => bytes.as_bytes(py),
            Data::Exported(exported) => exported.as_slice(),
        }
    }

    pub(super) fn into_buf(self, py: Python<'_>) -> PyResult<Buf> {
        match self {
            Data::Bytes(bytes) => memory::buffer(bytes.bind(py).as_any(), false),
            Data::Exported(exported) => Ok(Buf::from(Box::new(exported) as Box<dyn Memory>)),
        }
    }
}

/// A value, None for Python's None.
pub(super) type Value = Option<Py<PyAny>>;

impl Verb {
    pub(super) fn closing() -> Self {
        Verb::Close {
            failed: None,
            asked: false,
        }
    }

    /// About how many bytes it has handed out or taken, for the loop's sake.
    pub(super) fn weight(&self, py: Python<'_>) -> usize {
        match self {
            Verb::Write { data } => data.bytes(py).len(),
            Verb::ReadSome { count, .. } => (*count).min(LARGE_READ),
            Verb::Read1 { count, .. } => count.unwrap_or(0).min(LARGE_READ),
            _ => 0,
        }
    }

    /// Goes on as far as it can without an op.
    pub(super) fn step(&mut self, py: Python<'_>, file: &mut BinaryFile) -> PyResult<Step<Value>> {
        let from = file.core.position();
        let step = self.go_on(py, file)?;
        if let Step::Ready(_) = step {
            self.leave_io_buffer(file, from);
        }
        Ok(step)
    }

    /// What the buffer of `io` has after it. (`read1` says so itself; other reads go on in it.)
    fn leave_io_buffer(&self, file: &mut BinaryFile, from: u64) {
        let position = file.core.position();
        match self {
            Verb::Seek { whence, .. } => {
                file.follows_io();
                file.io_buffer.moved(from, position, *whence > libc::SEEK_CUR);
            }
            Verb::Read { count: None, .. }
            | Verb::Write { .. }
            | Verb::Large { .. }
            | Verb::Truncate { .. } => file.io_buffer.empty_at(position),
            Verb::ReadInto { target, .. } if file.io_reads_into(target.len(), from) => {
                file.io_buffer.empty_at(position);
            }
            Verb::Flush if file.facts.writable => file.io_buffer.empty_at(position),
            _ => {}
        }
    }

    fn go_on(&mut self, py: Python<'_>, file: &mut BinaryFile) -> PyResult<Step<Value>> {
        match self {
            Verb::Read { count, long } => {
                let most = count.unwrap_or(usize::MAX);
                if let Some(step) = long::read(py, file, most, false, long)? {
                    return Ok(step);
                }
            }
            Verb::ReadSome { count, long } => return io_buffer::read_some(py, file, *count, long),
            Verb::Read1 { count, long } => return io_buffer::read1(py, file, *count, long),
            Verb::Peek => return io_buffer::peek(py, file),
            Verb::ReadInto { target, some, long } => {
                if let Some(step) = long::read_into(py, file, target, *some, long)? {
                    return Ok(step);
                }
            }
            _ => {}
        }
        let core = &mut file.core;
        let done = match self {
            Verb::Read { count, .. } => read(py, core, *count),
            Verb::Chunk { count } => chunk(py, core, *count),
            Verb::ReadInto { target, some, .. } => read_into(py, core, target, *some),
            Verb::ReadSome { .. } | Verb::Read1 { .. } | Verb::Peek => unreachable!("done above"),
            Verb::Line { limit } => line(py, core, *limit),
            Verb::Next => match line(py, core, usize::MAX) {
                Ok(Step::Ready(Some(line))) if line.bind(py).len()? == 0 => {
                    return Err(pyo3::exceptions::PyStopAsyncIteration::new_err(()));
                }
                other => other,
            },
            Verb::Lines { hint, scan } => match lines::find(core, *hint, scan) {
                Ok(Step::Ready(())) => return lines::take(py, core, scan).map(Step::Ready),
                other => other.map(|_| Step::Blocked),
            },
            Verb::Write { data } => {
                let length = data.bytes(py).len();
                let step = core.put(data.bytes(py));
                file.stop_listening(py);
                step.map(|step| map(step, |()| int(py, length)))
            }
            Verb::Large { buffer, bytes } => {
                let length = *bytes;
                let step = core.put_large(buffer);
                file.stop_listening(py);
                step.map(|step| map(step, |()| int(py, length)))
            }
            Verb::Seek { offset, whence } => return seek(py, file, *offset, *whence),
            Verb::Tell if core.is_writing_large() => Ok(Step::Blocked),
            Verb::Tell => Ok(Step::Ready(int(py, core.position() as usize))),
            Verb::Enter => Ok(Step::Ready(None)),
            Verb::Truncate { size, asked } => return truncate(py, file, *size, asked),
            Verb::Sync { data_only, asked } => {
                let sync = if *data_only { Fsync::data } else { Fsync::new };
                return asking(py, file, asked, |file, _| sync(file).into(), |_| None);
            }
            Verb::Flush => match core.flush() {
                Ok(Step::Ready(())) => {
                    file.sync_position();
                    return Ok(Step::Ready(None));
                }
                other => other.map(|_| Step::Blocked),
            },
            Verb::Close { failed, asked } => return close(py, file, failed, asked),
        };
        done.map_err(|e| file.error(py, &e))
    }
}

pub(super) fn map<T, U>(step: Step<T>, f: impl FnOnce(T) -> U) -> Step<U> {
    match step {
        Step::Ready(value) => Step::Ready(f(value)),
        Step::Blocked => Step::Blocked,
    }
}

fn try_map<T, U>(step: Step<T>, f: impl FnOnce(T) -> Result<U, Error>) -> Result<Step<U>, Error> {
    match step {
        Step::Ready(value) => f(value).map(Step::Ready),
        Step::Blocked => Ok(Step::Blocked),
    }
}

pub(super) fn bytes(py: Python<'_>, data: &[u8]) -> Result<Value, Error> {
    let bytes = memory::bytes(py, data);
    bytes
        .map(|bytes| Some(bytes.into_any().unbind()))
        .map_err(|_| Error::out_of_memory("read"))
}

pub(super) fn int(py: Python<'_>, value: usize) -> Value {
    // Infallible for integers.
    value.into_pyobject(py).ok().map(|int| int.into_any().unbind())
}

/// Takes unread bytes, or none if there is no memory for them.
fn take(py: Python<'_>, core: &mut Buffered, count: usize) -> Result<Value, Error> {
    let data = bytes(py, &core.unread()[..count])?;
    core.consume(count);
    Ok(data)
}

pub(super) fn read(py: Python<'_>, core: &mut Buffered, count: Option<usize>) -> Result<Step<Value>, Error> {
    let most = count.unwrap_or(usize::MAX);
    loop {
        // No memory for bytes that are not there: a large request is met as far as the file has bytes, and one more shows
        // whether it has grown.
        let left = if most > LARGE_READ {
            left_in_file(core)
        } else {
            None
        };
        let piece = left.map_or(most, |left| most.min(left.max(core.unread().len()) + 1));
        core.expect(piece.min(left.unwrap_or(0) + 1));
        match core.fill_towards(piece, most)? {
            Step::Blocked => return Ok(Step::Blocked),
            Step::Ready(found) if found < piece || found == most => {
                return take(py, core, found).map(Step::Ready)
            }
            Step::Ready(_) => {}
        }
    }
}

pub(super) fn some(py: Python<'_>, core: &mut Buffered, count: usize) -> Result<Step<Value>, Error> {
    let step = core.fill_some(count)?;
    try_map(step, |found| take(py, core, found.min(count)))
}

fn chunk(py: Python<'_>, core: &mut Buffered, count: usize) -> Result<Step<Value>, Error> {
    let step = core.fill_chunk(count)?;
    try_map(step, |found| take(py, core, found))
}

fn line(py: Python<'_>, core: &mut Buffered, limit: usize) -> Result<Step<Value>, Error> {
    let step = core.line(limit)?;
    try_map(step, |length| take(py, core, length))
}

fn read_into(
    py: Python<'_>,
    core: &mut Buffered,
    target: &mut Arc<Exported>,
    some: bool,
) -> Result<Step<Value>, Error> {
    let wanted = target.len();
    let step = if some {
        core.fill_some(wanted)?
    } else {
        core.fill(wanted)?
    };
    Ok(map(step, |found| {
        let count = found.min(wanted);
        let target = Arc::get_mut(target).expect("no op has it");
        target.as_mut_slice()[..count].copy_from_slice(&core.unread()[..count]);
        core.consume(count);
        int(py, count)
    }))
}

/// No file system in use ends before that, FAT (4 GiB) and ext2 with small blocks (16 GiB) aside: there a write says so.
const FAR_BYTES: u64 = 1 << 40;

fn seek(py: Python<'_>, file: &mut BinaryFile, offset: i64, whence: i32) -> PyResult<Step<Value>> {
    if file.core.settle().map_err(|e| file.error(py, &e))? == Step::Blocked {
        return Ok(Step::Blocked);
    }
    let from = match whence {
        libc::SEEK_SET => 0,
        libc::SEEK_CUR => file.core.position(),
        // The end, data and holes: the kernel knows. (Block devices and files of /proc have another end than `fstat` says.)
        _ => {
            let place = file.kernel_seek(py, offset, whence)?;
            file.core.seek(place);
            return Ok(Step::Ready(int(py, place as usize)));
        }
    };
    let place = i64::try_from(from)
        .ok()
        .and_then(|from| from.checked_add(offset))
        .and_then(|place| u64::try_from(place).ok())
        .ok_or_else(|| file.error(py, &Error::new(libc::EINVAL, "lseek")))?;
    if place > FAR_BYTES {
        // Whether the file system has such a place. (Where the descriptor stands does not matter.)
        file.kernel_seek(py, place as i64, libc::SEEK_SET)?;
    }
    file.core.seek(place);
    file.sync_position();
    Ok(Step::Ready(int(py, place as usize)))
}

fn truncate(
    py: Python<'_>,
    file: &mut BinaryFile,
    size: Option<u64>,
    asked: &mut bool,
) -> PyResult<Step<Value>> {
    asking(
        py,
        file,
        asked,
        |file, position| Truncate::new(file, size.unwrap_or(position)).into(),
        |core| int(py, size.unwrap_or(core.position()) as usize),
    )
}

/// Flushes, then does one more op on the file.
fn asking(
    py: Python<'_>,
    file: &mut BinaryFile,
    asked: &mut bool,
    op: impl FnOnce(File, u64) -> Op,
    then: impl FnOnce(&mut Buffered) -> Value,
) -> PyResult<Step<Value>> {
    if *asked {
        return match file.core.answer() {
            None => Ok(Step::Blocked),
            Some(Err(e)) => Err(file.error(py, &e)),
            Some(Ok(_)) => Ok(Step::Ready(then(&mut file.core))),
        };
    }
    if file.core.settle().map_err(|e| file.error(py, &e))? == Step::Ready(()) {
        if let Some(handle) = file.core.file().cloned() {
            let position = file.core.position();
            let op = op(handle, position);
            if matches!(op, Op::Truncate(_)) {
                // Cancelled or not, what was read ahead may be cut off now.
                file.core.forget_input();
            }
            file.core.ask(op);
            *asked = true;
        }
    }
    Ok(Step::Blocked)
}

/// Flushes, then closes, whatever the flush has met. The first error is raised.
fn close(
    py: Python<'_>,
    file: &mut BinaryFile,
    failed: &mut Option<PyErr>,
    asked: &mut bool,
) -> PyResult<Step<Value>> {
    let outcome = |failed: &mut Option<PyErr>| failed.take().map_or(Ok(Step::Ready(None)), Err);
    if *asked {
        return match file.core.answer() {
            None => Ok(Step::Blocked),
            Some(Err(e)) if failed.is_none() => Err(file.error(py, &e)),
            Some(_) => outcome(failed),
        };
    }
    match file.core.settle() {
        Ok(Step::Blocked) => {
            if file.core.is_filling() {
                // A peer may never send what a cancelled call has asked for.
                file.cancel_op(py);
            }
            return Ok(Step::Blocked);
        }
        Ok(Step::Ready(())) => {}
        Err(e) => {
            failed.get_or_insert_with(|| file.error(py, &e));
            file.core.discard();
            if file.core.is_busy() {
                return Ok(Step::Blocked);
            }
        }
    }
    file.sync_position();
    file.closed.set();
    let Some(handle) = file.core.take_file() else {
        return outcome(failed);
    };
    match handle.into_fd() {
        // What was written may have to go to the device now (ext4 after a truncation); not on the loop's time.
        Ok(fd) if file.written => {
            file.core.ask(Close::new(fd));
            *asked = true;
            Ok(Step::Blocked)
        }
        Ok(fd) => {
            // SAFETY: the descriptor is this file's, and nobody uses it after this.
            if unsafe { libc::close(fd.into_raw_fd()) } < 0 {
                // Somebody else has closed it: EBADF, as `io` says. (Interrupted, it is closed all the same.)
                let errno = std::io::Error::last_os_error().raw_os_error();
                if let Some(errno) = errno.filter(|&errno| errno != libc::EINTR) {
                    failed.get_or_insert_with(|| file.error(py, &Error::new(errno, "close")));
                }
            }
            outcome(failed)
        }
        // An op in flight shares the file: the last to use it closes it.
        Err(_) => outcome(failed),
    }
}
