//! Locks of an open file description (fcntl(2), "Open file description locks").
//!
//! They belong to the open file and not to the process: two files opened by one process exclude each other as
//! those of two processes do.

use proactor_engine::op::{Blocking, File};
use proactor_engine::Error;
use std::io;
use std::os::fd::AsRawFd;

/// The op's name in errors.
const NAME: &str = "lock";

/// An advisory lock on a part of a file: it excludes only those who ask for a lock.
#[derive(Debug, Clone, Copy)]
pub struct Lock {
    /// True if the lock excludes all others; a shared lock excludes only exclusive ones.
    pub exclusive: bool,
    /// Offset of the first byte.
    pub start: i64,
    /// Length in bytes; 0 means to the end of the file, however far it grows.
    pub length: i64,
}

impl Lock {
    fn flock(&self, kind: i32) -> libc::flock {
        // SAFETY: plain integers; zero is a valid value, and the one that l_pid must have.
        let mut flock: libc::flock = unsafe { std::mem::zeroed() };
        flock.l_type = kind as libc::c_short;
        flock.l_whence = libc::SEEK_SET as libc::c_short;
        flock.l_start = self.start;
        flock.l_len = self.length;
        flock
    }

    fn kind(&self) -> i32 {
        if self.exclusive {
            libc::F_WRLCK
        } else {
            libc::F_RDLCK
        }
    }

    /// Takes the lock if that needs no waiting. Returns false if a conflicting lock is held.
    ///
    /// # Errors
    /// EBADF if the file is not open for what is asked (writing, if exclusive; else reading), ENOLCK, EINVAL.
    pub fn attempt(&self, file: &File) -> Result<bool, Error> {
        match fcntl(file, libc::F_OFD_SETLK, self.flock(self.kind())) {
            Ok(()) => Ok(true),
            Err(e) if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
            Err(e) => Err(error(&e)),
        }
    }

    /// Waits for the lock, which is held once this op completes without an error.
    pub fn wait(&self, file: &File) -> Blocking {
        let (file, flock) = (file.clone(), self.flock(self.kind()));
        Blocking::waiting(NAME, move |_| fcntl(&file, libc::F_OFD_SETLKW, flock).map(|()| 0))
    }

    /// Releases every lock that the file holds on this part.
    ///
    /// # Errors
    /// EINVAL for a part that is not valid.
    pub fn release(&self, file: &File) -> Result<(), Error> {
        fcntl(file, libc::F_OFD_SETLK, self.flock(libc::F_UNLCK)).map_err(|e| error(&e))
    }
}

fn fcntl(file: &File, command: libc::c_int, mut flock: libc::flock) -> io::Result<()> {
    // SAFETY: the struct is a live local.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut flock) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn error(e: &io::Error) -> Error {
    Error::new(e.raw_os_error().unwrap_or(libc::EIO), NAME)
}
