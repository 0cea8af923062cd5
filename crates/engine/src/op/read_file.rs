//! Whole files in one op: open, size, read, close.
//!
//! One op instead of four saves three wake-ups per file. A backend that queues single calls drives the read through
//! [`ReadFile::advance`]; a worker thread does all of it at once.

use super::{Handle, Name, OpKind, OpenFlags};
use crate::buffer::{Buf, Memory};
use crate::descriptors::{self, Opens, Permit};
use crate::error::Error;
use crate::{inline, memory, sys};
use std::fmt;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// The first guess for files that state no size (`/proc`), and the least that the buffer grows by.
const CHUNK_BYTES: usize = 64 * 1024;
/// The most that is asked for in one call: the kernel cannot be stopped within one, which of cached pages takes a second
/// for each 5 GB.
const PIECE_BYTES: usize = 32 << 20;

/// Reads a whole file, or a range of one. The result is the number of bytes; they are in [`ReadFile::data`].
///
/// A file that states a size is read up to that size, as it was when the file was opened; one that states none (`/proc`)
/// to its end.
#[non_exhaustive]
pub struct ReadFile {
    /// The directory that a relative path starts from.
    pub dir: Handle,
    /// The path.
    pub path: Name,
    /// EFBIG beyond this many bytes. Default: no limit.
    pub limit: usize,
    /// Where reading begins, in bytes from the start. Nothing is read beyond the end. ESPIPE for a pipe. Default: 0.
    pub offset: u64,
    /// The most bytes that are read. Default: all.
    pub length: usize,
    /// What has been read. Put a spent vector here before submitting to save an allocation.
    pub data: Vec<u8>,
    /// Asked for memory when the size is known. The bytes are then in [`ReadFile::memory`] and not in `data`.
    pub allocate: Option<Box<dyn Allocator>>,
    /// The memory that `allocate` gave, filled to the result's length.
    pub memory: Option<Box<dyn Memory>>,
    len: usize,
    /// There was no memory for the file's bytes.
    pub(crate) lacks_memory: bool,
    stage: Stage,
    how: [u64; 3],
    /// For the descriptor that an attempt has left open.
    permit: Option<Permit>,
    /// Whether the descriptor stays in `spent` when the file has been read.
    is_closed_later: bool,
    spent: Option<OwnedFd>,
}

/// Makes memory for a file of known size.
pub trait Allocator: Send + Sync {
    /// Writable memory of exactly `len` bytes, or `None` to have the file read into [`ReadFile::data`]. Called on whatever
    /// thread works on the op: one of the driver's workers, perhaps.
    fn allocate(&mut self, len: usize) -> Option<Box<dyn Memory>>;
}

#[derive(Debug)]
enum Stage {
    Open,
    Read { fd: OwnedFd, size: usize, filled: usize },
    Done,
}

/// What a [`ReadFile`] wants next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Open {
        dir: RawFd,
        path: *const libc::c_char,
        how: *const u64,
    },
    Read {
        fd: RawFd,
        to: *mut u8,
        len: usize,
        offset: u64,
    },
}

/// Whether a multi-step op goes on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Again,
    Done(i32),
}

impl ReadFile {
    /// Reads the file at `path`.
    ///
    /// ```
    /// # use proactor_engine::{Driver, op::{ReadFile}};
    /// # let mut driver = Driver::new()?;
    /// let text = driver.run(ReadFile::new("Cargo.toml").limit(1 << 20))?;
    /// assert!(text.starts_with(b"[package]"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(path: impl Into<Name>) -> Self {
        ReadFile {
            dir: Handle::CWD,
            path: path.into(),
            limit: usize::MAX,
            offset: 0,
            length: usize::MAX,
            data: Vec::new(),
            allocate: None,
            memory: None,
            len: 0,
            lacks_memory: false,
            stage: Stage::Open,
            how: [0; 3],
            permit: None,
            is_closed_later: false,
            spent: None,
        }
    }

    /// Relative to this directory.
    pub fn dir(mut self, dir: impl Into<Handle>) -> Self {
        self.dir = dir.into();
        self
    }

    /// EFBIG beyond this many bytes.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Reads into a spent vector, which is emptied first: that saves an allocation.
    pub fn data(mut self, spent: Vec<u8>) -> Self {
        self.data = spent;
        self
    }

    /// Asks for memory when the size is known.
    pub fn allocate(mut self, allocator: impl Allocator + 'static) -> Self {
        self.allocate = Some(Box::new(allocator));
        self
    }

    /// Reads the file now, if that needs no waiting: all of it is cached, and at most 1 MiB. `None`: submit the op, which
    /// goes on from where this has come to.
    pub fn attempt(&mut self) -> Option<Result<usize, Error>> {
        if !self.path.is_valid() {
            return Some(self.answer(-libc::EINVAL));
        }
        let res = inline::read_file(self)?;
        Some(self.answer(res))
    }

    /// Does the first half of [`attempt`](Self::attempt): opens the file and asks `allocate` for its memory, in this
    /// thread. `Ok(None)` leaves the contents to be read, by whomever; `Some` is the whole answer already.
    pub fn attempt_open(&mut self) -> Option<Result<Option<usize>, Error>> {
        if !self.path.is_valid() {
            return Some(self.answer(-libc::EINVAL).map(Some));
        }
        Some(match inline::open_file(self)? {
            Ok(()) => {
                self.keep_open();
                Ok(None)
            }
            Err(res) => self.answer(res).map(Some),
        })
    }

    /// As [`attempt`](Self::attempt), but the descriptor of a file that has been read stays open until
    /// [`close_together`](Self::close_together) or until the op is dropped.
    pub fn attempt_closed_later(&mut self) -> Option<Result<usize, Error>> {
        self.is_closed_later = true;
        let answer = self.attempt();
        self.is_closed_later = false;
        answer
    }

    /// Closes what [`attempt_closed_later`](Self::attempt_closed_later) has left open, by one system call if the descriptors
    /// are neighbours.
    pub fn close_together<'a>(files: impl Iterator<Item = &'a mut ReadFile>) {
        // allocates: as many descriptors as the caller has files open
        let (mut spent, mut permits) = (Vec::new(), Vec::new());
        for file in files {
            if let Some(descriptor) = file.spent.take() {
                spent.push(descriptor);
                permits.push(file.permit.take());
            }
        }
        sys::close::all(spent);
        drop(permits); // after that: others may open as many
    }

    /// How many bytes the open file said it has.
    pub fn size(&self) -> Option<usize> {
        match self.stage {
            Stage::Read { size, .. } => Some(size),
            Stage::Open | Stage::Done => None,
        }
    }

    fn answer(&self, res: i32) -> Result<usize, Error> {
        if res < 0 {
            let error =
                Error::new(-res, OpKind::ReadFile.name()).with_path(memory::c_string(&self.path).ok());
            Err(error.lacking_memory(self.lacks_memory))
        } else {
            Ok(self.len)
        }
    }

    /// How many bytes have been read.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The bytes, wherever they have been read to.
    pub(crate) fn into_contents(self) -> Buf {
        match self.memory {
            Some(memory) => Buf::Shared(memory),
            None => Buf::Vec(self.data),
        }
    }

    /// Whether nothing has been read.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn base(&mut self) -> *mut u8 {
        match &self.memory {
            Some(memory) => memory.ptr(),
            None => self.data.as_mut_ptr(),
        }
    }

    fn room(&self) -> usize {
        self.memory
            .as_ref()
            .map_or(self.data.capacity(), |memory| memory.len())
    }

    /// The descriptor, once the file is open.
    pub(crate) fn reading(&self) -> Option<RawFd> {
        match &self.stage {
            Stage::Read { fd, .. } => Some(fd.as_raw_fd()),
            Stage::Open | Stage::Done => None,
        }
    }

    /// Ends an attempt that has not come to the end: the file stays open until the op goes on if that leaves others enough
    /// descriptors, and is opened once more if not.
    pub(crate) fn keep_open(&mut self) {
        let Some(fd) = self.reading().filter(|_| self.permit.is_none()) else {
            return;
        };
        self.permit = descriptors::take_at_once(Opens::Passing, 1);
        match &mut self.permit {
            Some(permit) => permit.opened(),
            // The writer of a FIFO has been let in, and would be alone again.
            None if sys::is_pipe(fd) => {}
            None => {
                self.stage = Stage::Open;
                self.memory = None;
            }
        }
    }

    /// Its file is closed.
    pub(crate) fn release(&mut self) {
        self.permit = None;
    }

    /// The next call to make. Its pointers are valid until the op is moved or advanced.
    pub(crate) fn call(&mut self) -> Call {
        let (fd, filled) = match &self.stage {
            Stage::Read { fd, filled, .. } => (fd.as_raw_fd(), *filled),
            Stage::Open | Stage::Done => {
                self.how = [(OpenFlags::READ_ONLY | OpenFlags::CLOEXEC).how(), 0, 0];
                return Call::Open {
                    dir: self.dir.fd(),
                    path: self.path.as_ptr(),
                    how: self.how.as_ptr(),
                };
            }
        };
        Call::Read {
            fd,
            to: self.base().wrapping_add(filled),
            len: (self.room().min(self.length) - filled).min(PIECE_BYTES),
            offset: self.offset.wrapping_add(filled as u64),
        }
    }

    /// Takes the result of the last call.
    pub(crate) fn advance(&mut self, res: i32) -> Step {
        if res < 0 {
            self.stage = Stage::Done;
            return Step::Done(res);
        }
        match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Open | Stage::Done => self.opened(sys::owned(res)),
            Stage::Read { fd, size, filled } => self.read(fd, size, filled + res as usize, res as usize),
        }
    }

    /// Goes on from the open file.
    pub(crate) fn opened(&mut self, fd: OwnedFd) -> Step {
        match sys::perform::fstat(fd.as_raw_fd()) {
            Ok(stat) => self.start_reading(fd, stat.st_size as usize),
            Err(e) => Step::Done(-e.raw_os_error().unwrap_or(libc::EIO)),
        }
    }

    /// Starts at the reading: somebody has opened the file already, and knows its size.
    pub(crate) fn start_reading(&mut self, fd: OwnedFd, size: usize) -> Step {
        let size = if self.is_range() {
            match self.range_of(&fd, size) {
                Ok(size) => size,
                Err(step) => return step,
            }
        } else {
            size
        };
        if size > self.limit {
            return Step::Done(-libc::EFBIG);
        }
        self.data.clear();
        self.memory = self
            .allocate
            .as_mut()
            .filter(|_| size > 0)
            .and_then(|a| a.allocate(size));
        if self
            .memory
            .as_ref()
            .is_some_and(|m| m.len() == size && m.writable())
        {
            self.stage = Stage::Read { fd, size, filled: 0 };
            return Step::Again;
        }
        self.memory = None;
        // One byte more than the size: a read that does not fill it has seen the end of the file.
        let want = if size == 0 {
            CHUNK_BYTES
        } else {
            size.saturating_add(1)
        };
        if self.data.try_reserve_exact(want).is_err() {
            self.lacks_memory = true;
            return Step::Done(-libc::ENOMEM);
        }
        self.stage = Stage::Read { fd, size, filled: 0 };
        Step::Again
    }

    fn is_range(&self) -> bool {
        self.offset > 0 || self.length < usize::MAX
    }

    /// How many bytes the range has of a file of this size, 0 if that says nothing.
    fn range_of(&mut self, fd: &OwnedFd, size: usize) -> Result<usize, Step> {
        if self.offset > 0 && sys::is_pipe(fd.as_raw_fd()) {
            return Err(Step::Done(-libc::ESPIPE));
        }
        let left = (size as u64).saturating_sub(self.offset).min(self.length as u64) as usize;
        if self.length == 0 || (size > 0 && left == 0) {
            self.data.clear();
            self.memory = None;
            self.len = 0;
            return Err(Step::Done(0));
        }
        Ok(left)
    }

    fn read(&mut self, fd: OwnedFd, size: usize, filled: usize, last: usize) -> Step {
        if self.memory.is_none() {
            // SAFETY: the kernel has written `filled` bytes from the start, all within the capacity.
            unsafe { self.data.set_len(filled) };
        }
        if filled > self.limit {
            return Step::Done(-libc::EFBIG);
        }
        // A file that stated its size and gave just that is done. Anything else is read until it gives nothing.
        if last == 0 || (filled == size && size > 0) || filled == self.length {
            self.len = filled;
            self.spent = self.is_closed_later.then_some(fd);
            return Step::Done(i32::try_from(filled).unwrap_or(i32::MAX));
        }
        if self.memory.is_none()
            && self.data.capacity() == filled
            && self.data.try_reserve(CHUNK_BYTES.max(filled / 2)).is_err()
        {
            self.lacks_memory = true;
            return Step::Done(-libc::ENOMEM);
        }
        self.stage = Stage::Read { fd, size, filled };
        Step::Again
    }
}

impl fmt::Debug for ReadFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadFile")
            .field("path", &self.path)
            .field("stage", &self.stage)
            .finish_non_exhaustive()
    }
}
