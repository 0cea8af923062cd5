//! The reading end of a FIFO that was opened without waiting, as a stand-in for the blocking open.
//!
//! Either lets writers in at once. A blocking open returns when there is one; so once [`has_writer`] says so, the descriptor
//! is what the blocking open would have given.

use std::os::fd::{AsRawFd, RawFd};

/// Whether somebody has it open for writing, or has left something in it. (False as well if there is no descriptor left to
/// find out.)
pub(crate) fn has_writer(fd: RawFd) -> bool {
    let Ok((_reader, writer)) = super::pipe() else {
        return false;
    };
    // It takes nothing out. 0 is the end of the file: nobody is there. EAGAIN: somebody, and nothing to read yet.
    // SAFETY: no pointers.
    unsafe { libc::tee(fd, writer.as_raw_fd(), 1, libc::SPLICE_F_NONBLOCK) != 0 }
}

/// Takes back the O_NONBLOCK that it was opened with.
pub(crate) fn set_blocking(fd: RawFd) {
    // SAFETY: no pointers.
    unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        libc::fcntl(fd, libc::F_SETFL, flags & !libc::O_NONBLOCK);
    }
}
