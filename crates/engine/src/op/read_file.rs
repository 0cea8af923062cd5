//! Whole files in one op: open, size, read (or write), close.
//!
//! One op instead of four saves three wake-ups per file. A backend that queues single calls drives the read through
//! [`ReadFile::advance`]; a worker thread does all of it at once.

use super::{Handle, OpKind};
use crate::buffer::Buf;
use crate::error::Error;
use crate::sys;
use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// The first guess for files that state no size (`/proc`), and the least that the buffer grows by.
const CHUNK_BYTES: usize = 64 * 1024;

/// Reads a whole file. The result is the number of bytes; they are in [`ReadFile::data`].
#[derive(Debug)]
pub struct ReadFile {
    /// The directory that a relative path starts from.
    pub dir: Handle,
    /// The path.
    pub path: CString,
    /// EFBIG beyond this many bytes. Default: no limit.
    pub limit: usize,
    /// What has been read. Put a spent vector here before submitting to save an allocation.
    pub data: Vec<u8>,
    stage: Stage,
    how: [u64; 3],
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
    pub fn new(path: impl Into<CString>) -> Self {
        ReadFile {
            dir: Handle::CWD,
            path: path.into(),
            limit: usize::MAX,
            data: Vec::new(),
            stage: Stage::Open,
            how: [0; 3],
        }
    }

    /// Reads the file now, if that needs no waiting: all of it is cached, and at most 1 MiB. `None`: submit the op, which
    /// goes on from where this has come to.
    pub fn attempt(&mut self) -> Option<Result<usize, Error>> {
        let res = crate::inline::read_file(self)?;
        Some(if res < 0 {
            Err(Error::new(-res, OpKind::ReadFile.name()).with_path(Some(self.path.clone())))
        } else {
            Ok(self.data.len())
        })
    }

    /// The next call to make. Its pointers are valid until the op is moved or advanced.
    pub(crate) fn call(&mut self) -> Call {
        match &self.stage {
            Stage::Open | Stage::Done => {
                self.how = [(libc::O_RDONLY | libc::O_CLOEXEC) as u64, 0, 0];
                Call::Open {
                    dir: self.dir.fd(),
                    path: self.path.as_ptr(),
                    how: self.how.as_ptr(),
                }
            }
            Stage::Read { fd, filled, .. } => Call::Read {
                fd: fd.as_raw_fd(),
                to: self.data.as_mut_ptr().wrapping_add(*filled),
                len: (self.data.capacity() - filled).min(sys::MAX_RW_BYTES),
                offset: *filled as u64,
            },
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

    /// Starts at the reading: somebody has opened the file already.
    pub(crate) fn opened(&mut self, fd: OwnedFd) -> Step {
        let size = match sys::perform::fstat(fd.as_raw_fd()) {
            Ok(stat) => stat.st_size as usize,
            Err(e) => return Step::Done(-e.raw_os_error().unwrap_or(libc::EIO)),
        };
        if size > self.limit {
            return Step::Done(-libc::EFBIG);
        }
        self.data.clear();
        // One byte more than the size: a read that does not fill it has seen the end of the file.
        let want = if size == 0 {
            CHUNK_BYTES
        } else {
            size.saturating_add(1)
        };
        if self.data.try_reserve_exact(want).is_err() {
            return Step::Done(-libc::ENOMEM);
        }
        self.stage = Stage::Read { fd, size, filled: 0 };
        Step::Again
    }

    fn read(&mut self, fd: OwnedFd, size: usize, filled: usize, last: usize) -> Step {
        // SAFETY: the kernel has written `filled` bytes from the start, all within the capacity.
        unsafe { self.data.set_len(filled) };
        if filled > self.limit {
            return Step::Done(-libc::EFBIG);
        }
        // A file that stated its size and gave just that is done. Anything else is read until it gives nothing.
        if last == 0 || (filled == size && size > 0) {
            return Step::Done(i32::try_from(filled).unwrap_or(i32::MAX));
        }
        if self.data.capacity() == filled && self.data.try_reserve(CHUNK_BYTES.max(filled / 2)).is_err() {
            return Step::Done(-libc::ENOMEM);
        }
        self.stage = Stage::Read { fd, size, filled };
        Step::Again
    }
}

/// Creates or replaces the contents of a whole file. The result is the number of bytes written. A short write is gone
/// on with; after an error the file holds what had been written by then.
#[derive(Debug)]
pub struct WriteFile {
    /// The directory that a relative path starts from.
    pub dir: Handle,
    /// The path.
    pub path: CString,
    /// The bytes.
    pub data: Buf,
    /// `O_*`. Default: O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC.
    pub flags: i32,
    /// Permission bits of a new file before the umask. Default: 0o666.
    pub mode: u32,
    /// Bring data and size to the device before completing.
    pub sync: bool,
}

impl WriteFile {
    /// Writes `data` to `path`.
    pub fn new(path: impl Into<CString>, data: impl Into<Buf>) -> Self {
        WriteFile {
            dir: Handle::CWD,
            path: path.into(),
            data: data.into(),
            flags: libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC,
            mode: 0o666,
            sync: false,
        }
    }
}
