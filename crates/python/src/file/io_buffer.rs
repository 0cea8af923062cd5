//! `read1` and `peek` of a disk file: as many bytes as with `io`, though its buffer is another. The buffer itself and all
//! I/O are elsewhere.

use super::binary::BinaryFile;
use super::long::{self, left_in_file, Reading};
use super::plan;
use super::verb::{bytes, read, some, Value};
use proactor_file::{Buffered, Step};
use pyo3::prelude::*;

/// Where the buffer of an `io.BufferedReader` would end. It is filled from its end on, a block at a time.
pub(super) struct IoBuffer {
    /// Its size in bytes; 0 for the file system's, until it is asked.
    block: usize,
    /// Where it was empty. The position is never before that.
    begin: u64,
    /// It has been filled since, although the position is still `begin`.
    filled: bool,
}

impl IoBuffer {
    /// `buffering` is `open`'s argument.
    pub(super) fn new(buffering: i32, position: u64) -> Self {
        IoBuffer {
            block: usize::try_from(buffering)
                .ok()
                .filter(|&block| block > 1)
                .unwrap_or(0),
            begin: position,
            filled: false,
        }
    }

    /// How many bytes it would have at `position`.
    fn left(&self, position: u64) -> usize {
        let block = self.block.max(1) as u64;
        match (position.saturating_sub(self.begin) % block) as usize {
            0 if position == self.begin && self.filled => self.block,
            0 => 0,
            used => self.block - used,
        }
    }

    /// It is filled anew from there on.
    pub(super) fn empty_at(&mut self, position: u64) {
        self.begin = position;
        self.filled = false;
    }

    /// After a seek: it is kept if the new position is within.
    pub(super) fn moved(&mut self, from: u64, to: u64, looks_around: bool) {
        let left = self.left(from);
        let end = from + left as u64;
        let start = end.saturating_sub(self.block as u64);
        if looks_around || left == 0 || !(start..=end).contains(&to) {
            self.empty_at(to);
        } else if to == start {
            self.begin = to;
            self.filled = true;
        }
    }
}

/// The size of the buffer that `io` would choose.
fn default_block(fd: std::os::fd::RawFd) -> usize {
    /// `io.DEFAULT_BUFFER_SIZE` up to Python 3.13.
    const DEFAULT_BYTES: usize = 8192;
    // SAFETY: all zeros is a valid stat, and fstat writes nothing else.
    let size = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        (libc::fstat(fd, &raw mut stat) == 0).then_some(stat.st_blksize)
    };
    size.and_then(|size| usize::try_from(size).ok())
        .filter(|&size| size > 1)
        .unwrap_or(DEFAULT_BYTES)
}

impl BinaryFile {
    /// How many bytes there are for `io`'s buffer, None where it is not followed: without one, with O_DIRECT, for pipes
    /// and the like, and where the file does not say how long it is.
    fn io_bytes(&mut self) -> Option<usize> {
        if !self.follows_io() {
            return None;
        }
        left_in_file(&self.core).filter(|&left| left > 0)
    }

    /// Whether there is such a buffer, of which the size is known then.
    pub(super) fn follows_io(&mut self) -> bool {
        let follows = self.core.block() > 0 && self.core.direct().is_none() && self.core.seekable();
        if follows && self.io_buffer.block == 0 {
            self.io_buffer.block = default_block(self.facts.fd);
        }
        follows
    }

    /// Whether `io` reads so many bytes from `position` on straight into the caller's memory, after what it has.
    pub(super) fn io_reads_into(&mut self, count: usize, position: u64) -> bool {
        let follows = self.follows_io();
        let buffer = &self.io_buffer;
        follows && count.saturating_sub(buffer.left(position)) > buffer.block
    }
}

/// What the buffer has, at most `count` bytes; if it is empty, what one read of so many brings.
pub(super) fn read1(
    py: Python<'_>,
    file: &mut BinaryFile,
    count: Option<usize>,
    reading: &mut Option<Reading>,
) -> PyResult<Step<Value>> {
    let Some(there) = file.io_bytes() else {
        let block = match file.core.block() {
            0 => plan::BLOCK_BYTES,
            block => block,
        };
        return read_some(py, file, count.unwrap_or(block), reading);
    };
    let before = file.core.position();
    let count = count.unwrap_or(file.io_buffer.block);
    let left = file.io_buffer.left(before);
    let most = if left > 0 { count.min(left) } else { count }.min(there);
    let step = match long::read(py, file, most, false, reading)? {
        Some(step) => step,
        None => read(py, &mut file.core, Some(most)).map_err(|e| file.error(py, &e))?,
    };
    if left == 0 && matches!(step, Step::Ready(_)) {
        file.io_buffer.empty_at(file.core.position());
    }
    Ok(step)
}

/// What one read brings, or what was read before.
pub(super) fn read_some(
    py: Python<'_>,
    file: &mut BinaryFile,
    count: usize,
    reading: &mut Option<Reading>,
) -> PyResult<Step<Value>> {
    match long::read(py, file, count, true, reading)? {
        Some(step) => Ok(step),
        None => some(py, &mut file.core, count).map_err(|e| file.error(py, &e)),
    }
}

/// What the buffer has, after a read if that is nothing.
pub(super) fn peek(py: Python<'_>, file: &mut BinaryFile) -> PyResult<Step<Value>> {
    let Some(there) = file.io_bytes() else {
        return peeked(py, file, |core| core.fill_some(1));
    };
    let position = file.core.position();
    let left = file.io_buffer.left(position);
    let most = if left > 0 { left } else { file.io_buffer.block }.min(there);
    let step = peeked(py, file, |core| {
        let step = core.fill(most)?;
        Ok(match step {
            Step::Ready(found) => Step::Ready(found.min(most)),
            Step::Blocked => Step::Blocked,
        })
    })?;
    if left == 0 && matches!(step, Step::Ready(_)) {
        file.io_buffer.begin = position;
        file.io_buffer.filled = true;
    }
    Ok(step)
}

fn peeked(
    py: Python<'_>,
    file: &mut BinaryFile,
    fill: impl FnOnce(&mut Buffered) -> Result<Step<usize>, proactor_engine::Error>,
) -> PyResult<Step<Value>> {
    let core = &mut file.core;
    let value = fill(core).and_then(|step| match step {
        Step::Ready(found) => bytes(py, &core.unread()[..found]).map(Step::Ready),
        Step::Blocked => Ok(Step::Blocked),
    });
    value.map_err(|e| file.error(py, &e))
}
